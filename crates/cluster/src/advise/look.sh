# Looks at the machine of a node the way the scripts of a state transfer do, and writes what it sees
# as lines of words that are parted by tabs. It changes nothing. Before it stand server.sh and
# assignments of: basedir, known_path, certificates, socket, port, port_by_default, methods,
# account, unit, public, secret.
say() { printf '%s\t%s\n' "$1" "$2"; }
say hostname "$(cat /proc/sys/kernel/hostname 2>/dev/null)"

say pid "$pid"
say defaults "$file"

owner=$(stat -L -c %U -- "${pid:+/proc/}${pid:-$datadir}" 2>/dev/null)
say user "$owner"
# As the server's own account, where possible: what its search path names is not run as root.
as=
as_owner=yes
usual=/usr/local/bin:/usr/local/sbin:/bin:/sbin:/usr/bin:/usr/sbin
path=
[ -z "$pid" ] || path=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n 's/^PATH=//p' | head -n 1)
[ -z "$path" ] || say path "$path"
# Of one that is down, what it had when it ran.
path=${path:-$known_path}
# Programs are looked for where the server does, and behind that where the scripts do.
search=${basedir:+$basedir/bin:}${path:+$path:}$usual
if [ "$(id -u)" = 0 ] && [ "$owner" != root ]; then
    if [ -n "$owner" ] && [ "$owner" != UNKNOWN ] && command -v runuser >/dev/null; then
        as="runuser -u $owner --"
    else
        search=$usual
        as_owner=no
    fi
fi
where() { (PATH=$search && command -v -- "$1"); }

defaults_of() { $as "$print" "$@" 2>/dev/null; }
print=$(where my_print_defaults)
if [ -z "$print" ]; then
    say unreadable 'there is no my_print_defaults'
elif ! error=$($as "$print" "$@" sst 2>&1 >/dev/null); then
    say unreadable "$(printf '%s' "$error" | tr '\n\t' '  ')"
    print=true
fi
# Only the options that are asked for leave the machine, and of secrets only that they are there.
read_group() {
    group=$1
    shift
    [ -z "$print" ] || defaults_of "$@" | awk -v group="$group" -v public=" $public " -v secret=" $secret " '
        { line = $0; sub(/^--loose[-_]/, "--", line); at = index(line, "=")
          name = at ? substr(line, 1, at - 1) : line; value = at ? substr(line, at + 1) : ""
          sub(/^--/, "", name); gsub(/_/, "-", name); gsub(/\t/, " ", value)
          if (index(public, " " name " ")) print "option\t" group "\t" name "\t" value
          else if (index(secret, " " name " ") && value != "") print "option\t" group "\t" name "\tset" }'
}
seen=$(
    read_group server "$@" --mysqld
    for group in sst xtrabackup mariabackup; do read_group "$group" "$@" "$group"; done
)
printf '%s\n' "$seen"
value() { printf '%s\n' "$seen" | awk -F '\t' -v name="$1" '$3 == name { last = $4 } END { print last }'; }
# Where a server that is down has its programs its option files say.
case $pid$basedir$as_owner$(value basedir) in yes/*) search=$(value basedir)/bin:$search ;; esac

for name in mariadb-backup mbstream xbstream tar socat nc rsync lsof ss sockstat pv pigz gzip zstd lz4 qpress openssl stunnel timeout ps \
    mariadb-dump mysqldump mariadb mysql xtrabackup xbcrypt; do
    at=$(where "$name") && printf 'program\t%s\t%s\n' "$name" "$at"
done
for method in $methods "$(value wsrep-sst-method)"; do
    [ -n "$method" ] || continue
    at=$(where "wsrep_sst_$method") || continue
    printf 'program\twsrep_sst_%s\t%s\n' "$method" "$at"
    for name in backup-threads use-memory ssl-mode; do
        grep -q -e "$name" -- "$at" 2>/dev/null && printf 'knows\t%s\t%s\n' "$method" "$name"
    done
done
for name in compressor decompressor; do
    word=$(value "$name")
    word=${word%% *}
    case $word in '' | -*) continue ;; esac
    at=$(where "$word") && printf 'program\t%s\t%s\n' "$word" "$at"
done
at=$(where mariadb-backup) && printf 'version\tmariadb-backup\t%s\n' "$($as "$at" --version 2>&1 | head -n 1)"
# Of a server that is down and has shown nothing: whether the search path of this machine may be
# that of its programs.
case $pid$basedir$known_path$(value basedir) in
'') at=$(where mariadbd || where mysqld) && printf 'version\tserver\t%s\n' "$($as "$at" --version 2>/dev/null | head -n 1)" ;;
esac
at=$(where socat) && printf 'version\tsocat\t%s\n' "$($as "$at" -V 2>/dev/null | grep -E 'socat version|WITH_OPENSSL' | tr '\n' ' ')"
for name in tca tcert tkey ssl-ca ssl-cert ssl-key; do
    one=$(value "$name")
    [ -n "$one" ] || continue
    case $one in /*) ;; *) one=$datadir/$one ;; esac
    # What another account than the server's may read says nothing of what that one may.
    if [ "$(id -u)" != 0 ] && [ "$(id -un)" != "$owner" ]; then say readable "$(value "$name")"
    elif $as test -r "$one"; then say readable "$(value "$name")"; fi
done

# Certificates that are over, or soon will be: those of its files, and those that the server names.
if openssl=$(where openssl); then
    {
        for name in tca tcert ssl-ca ssl-cert; do value "$name"; done
        value wsrep-provider-options | tr ';' '\n' | tr -d "\"'" | sed -n 's/^[[:space:]]*socket\.ssl_\(cert\|ca\)[[:space:]]*=[[:space:]]*//p'
        printf '%s\n' "$certificates"
    } | sort -u | while IFS= read -r name; do
        [ -n "$name" ] || continue
        case $name in /*) one=$name ;; *) one=$datadir/$name ;; esac
        end=$($as "$openssl" x509 -noout -enddate -in "$one" 2>/dev/null </dev/null) || continue
        state=valid
        $as "$openssl" x509 -noout -checkend 2592000 -in "$one" >/dev/null 2>&1 </dev/null || state=soon
        $as "$openssl" x509 -noout -checkend 0 -in "$one" >/dev/null 2>&1 </dev/null || state=over
        printf 'certificate\t%s\t%s\t%s\n' "$name" "$state" "${end#notAfter=}"
    done
fi

[ -z "$pid" ] || awk '$1 == "VmRSS:" { print "memory\t" $1 "\t" $2 * 1024 }' "/proc/$pid/status" 2>/dev/null
say cores "$(nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo)"

# Of a directory that is not there yet, the file system that it will be on.
place=$datadir
while [ ! -e "$place" ] && [ "$place" != / ] && [ -n "$place" ]; do place=$(dirname -- "$place"); done
timeout 10 df -Pk -- "$place" 2>/dev/null | awk 'NR == 2 { printf "disk\t%.0f\t%.0f\n", $2 * 1024, $4 * 1024 }'
if [ -d "$datadir" ] && [ -r "$datadir" ]; then
    # A directory that grows meanwhile is no failure; one that takes long to look through is not
    # looked through.
    all=$(timeout 30 du -sk -- "$datadir" 2>/dev/null | awk '{ printf "%.0f", $1 * 1024 }')
    kept=$(find "$datadir" -maxdepth 1 -type f \( -name galera.cache -o -name 'gcache.page.*' -o -name '*.log' -o -name '*.err' -o -name '*.pem' \) \
        -exec du -ck {} + 2>/dev/null | awk '$2 == "total" { sum += $1 } END { printf "%.0f", sum * 1024 }')
    [ -z "$all" ] || printf 'data\t%s\t%s\n' "$all" "$kept"
    [ -e "$datadir/galera.cache" ] && say gcache there
    [ -e "$datadir/sst_in_progress" ] && say leftover sst_in_progress
    [ -d "$datadir/.sst" ] && say leftover .sst
    for name in wsrep_sst.pid rsync_sst.pid; do
        other=$(cat -- "$datadir/$name" 2>/dev/null) || continue
        case $other in '' | *[!0-9]*) continue ;; esac
        # One that has ended, and whose parent has not taken notice yet, is in nobody's way.
        grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$other/status" 2>/dev/null && printf 'running\t%s\t%s\n' "$name" "$other"
    done
fi

# The unit that starts the server: the one that is named, or else the one that it is the main
# process of. What it is loaded as comes last.
ask_systemd() { timeout 10 systemctl show "$@" 2>/dev/null; }
if [ -z "$unit" ] && [ -n "$pid" ]; then
    unit=$(sed -nE 's#^(0:|[0-9]+:name=systemd):.*/([^/]+\.service)$#\2#p' "/proc/$pid/cgroup" 2>/dev/null | head -n 1)
    [ -z "$unit" ] || [ "$(ask_systemd --property=MainPID -- "$unit")" = "MainPID=$pid" ] || unit=
fi
if [ -n "$unit" ]; then
    printf 'unit\tname\t%s\n' "$unit"
    printf 'unit\tmanager\t%s\n' "$(systemctl --version 2>/dev/null | awk 'NR == 1 { print $2 }')"
    ask_systemd --property=Type,NotifyAccess,TimeoutStartUSec,LoadState -- "$unit" | sed 's/=/\t/; s/^/unit\t/' |
        awk -F '\t' '$2 == "LoadState" { last = $0; next } { print } END { if (last != "") print last }'
fi

# Addresses of the server's network.
enter=
if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]; then
    enter="nsenter --target $pid --net --"
fi
$enter ip -o addr 2>/dev/null | awk '$3 == "inet" || $3 == "inet6" { sub(/\/.*/, "", $4); print "address\t" $4 }'

# Who listens at the port of a state transfer, in the network of the server.
if [ -z "$port" ]; then
    port=$(value wsrep-sst-receive-address | sed -nE 's#^([^:]*|\[.*\]):([0-9]{1,5})(/.*)?$#\2#p')
    port=${port:-$port_by_default}
fi
hex=$(printf ':%04X' "$port")
cat "/proc/${pid:-self}/net/tcp" "/proc/${pid:-self}/net/tcp6" 2>/dev/null | awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { print $10 }' |
    sort -u | while read -r inode; do
    holder=$(find /proc -maxdepth 4 -path '/proc/[0-9]*/fd/*' -lname "socket:\[$inode\]" 2>/dev/null | head -n 1)
    holder=${holder#/proc/}
    holder=${holder%%/*}
    printf 'listens\t%s\t%s\n' "$holder" "$(cat "/proc/$holder/comm" 2>/dev/null)"
done

# Logs in as the script on a donor does. The password is never a word of a command line, and never
# leaves the machine.
[ "$account" = 1 ] || exit 0
own() { [ -z "$print" ] || defaults_of "$@" | awk -v name="$wanted" '{ line = $0; at = index(line, "="); key = substr(line, 1, at - 1); gsub(/_/, "-", key)
    if (key == "--" name) last = substr(line, at + 1) } END { print last }'; }
wanted=wsrep-sst-auth
auth=$(argument '\(loose[-_]\)\{0,1\}wsrep[-_]sst[-_]auth' | tail -n 1)
[ -n "$auth" ] || auth=$(own "$@" --mysqld)
[ -n "$auth" ] || auth=$(own "$@" sst)
if [ -n "$auth" ]; then
    login=${auth%%:*}
    password=
    case $auth in *:*) password=${auth#*:} ;; esac
else
    wanted=user
    login=$(own "$@" client client-server client-mariadb mariabackup mariadb-backup)
    wanted=password
    password=$(own "$@" client client-server client-mariadb mariabackup mariadb-backup)
    [ -n "$login" ] && say account-from backup
    [ -n "$login" ] || login=$owner
fi
[ -n "$auth" ] && say account-from auth
client=$(where mariadb) || client=$(where mysql) || exit 0
say account "$login"
if output=$(MYSQL_PWD=$password $as "$client" "$@" "--socket=$socket" "--user=$login" --connect-timeout=5 --batch --skip-column-names \
    -e 'SHOW GRANTS' </dev/null 2>&1); then
    say account-is accepted
    printf '%s\n' "$output" | sed -n 's/ TO .*//; s/^GRANT /grant\t/p'
else
    say account-is "refused: $(printf '%s' "$output" | tr '\n\t' '  ')"
fi
