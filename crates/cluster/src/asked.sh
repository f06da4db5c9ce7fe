# Says by lines what a node's server would have without the donors that it was started with: the machine's name, the port, and wsrep_sst_donor as its
# option files and its command line have it. Before it stand assignments of: datadir, defaults, given.
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin:/usr/local/bin
command -v my_print_defaults >/dev/null || { echo 'there is no my_print_defaults' >&2; exit 1; }
# The server's process works in its data directory. Scripts that it has started do too, and have a role.
real=$(readlink -f -- "$datadir" 2>/dev/null)
pid=
for cwd in $(find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$real" 2>/dev/null); do
    words=$(tr '\0' '\n' <"${cwd%/cwd}/cmdline" 2>/dev/null)
    if printf '%s\n' "$words" | head -n 8 | grep -qE '(^|/)(mariadbd|mysqld)$' && ! printf '%s\n' "$words" | grep -qx -e --role; then
        pid=${cwd%/cwd}
        break
    fi
done
words=
[ -z "$pid" ] || words=$(tr '\0' '\n' <"$pid/cmdline" 2>/dev/null)
argument() { printf '%s\n' "$words" | sed -n "s/^--$1=//p" | tail -n 1; }
file=$(argument defaults-file)
[ -n "$file" ] || file=$defaults
extra=$(argument defaults-extra-file)
suffix=$(argument defaults-group-suffix)
set --
[ -z "$suffix" ] || set -- "--defaults-group-suffix=$suffix"
[ -z "$extra" ] || set -- "--defaults-extra-file=$extra" "$@"
[ -z "$file" ] || set -- "--defaults-file=$file" "$@"
# The programs of other vendors know no --mysqld.
said=$(my_print_defaults "$@" --mysqld 2>/dev/null) || said=$(my_print_defaults "$@" mysqld server) || exit 1
plain() { sed 's/^--loose[-_]/--/; s/^--wsrep_sst_donor=/--wsrep-sst-donor=/'; }
last() {
    {
        printf '%s\n' "$said" | plain
        # What this start was given is none of its own.
        printf '%s\n' "$words" | plain | grep -vFx -e "--wsrep-sst-donor=$given"
    } | sed -n "s/^--$1=//p" | tail -n 1
}
cat /proc/sys/kernel/hostname
printf '%s\n' "$(last port)" "$(last wsrep-sst-donor)"
