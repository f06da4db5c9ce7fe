# Finds the process of a node's server, and the option files that it reads: `pid` (empty: it does
# not run), `file`, and as parameters what makes my_print_defaults read the same. Before it stand
# assignments of: datadir, defaults. Scripts go on behind it.
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin
# The server's process works in its data directory. So do scripts that it started; they have a role.
real=$(readlink -f -- "$datadir" 2>/dev/null)
pid=
for cwd in $(find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$real" 2>/dev/null); do
    words=$(tr '\0' '\n' <"${cwd%/cwd}/cmdline" 2>/dev/null)
    if printf '%s\n' "$words" | head -n 8 | grep -qE '(^|/)(mariadbd|mysqld)$' && ! printf '%s\n' "$words" | grep -qx -e --role; then
        pid=${cwd#/proc/}
        pid=${pid%/cwd}
        break
    fi
done
argument() { [ -n "$pid" ] && tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | sed -n "s/^--$1=//p" | tail -n 1; }
file=$(argument defaults-file)
[ -n "$file" ] || file=$defaults
extra=$(argument defaults-extra-file)
suffix=$(argument defaults-group-suffix)
set --
[ -z "$suffix" ] || set -- "--defaults-group-suffix=$suffix"
[ -z "$extra" ] || set -- "--defaults-extra-file=$extra" "$@"
[ -z "$file" ] || set -- "--defaults-file=$file" "$@"
