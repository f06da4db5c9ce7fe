# Says by lines what a node's server would have without the donors that it was started with: the
# machine's name, the port, and wsrep_sst_donor as its option files and its command line have it.
# Before it stand server.sh and an assignment of: given.
PATH=$PATH:/usr/local/bin
command -v my_print_defaults >/dev/null || { echo 'there is no my_print_defaults' >&2; exit 1; }
words=
[ -z "$pid" ] || words=$(tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null)
# The programs of other vendors know no --mysqld.
options=$(my_print_defaults "$@" --mysqld 2>/dev/null) || options=$(my_print_defaults "$@" mysqld server) || exit 1
plain() { sed 's/^--loose[-_]/--/; s/^--wsrep_sst_donor=/--wsrep-sst-donor=/'; }
last() {
    {
        printf '%s\n' "$options" | plain
        # What this start was given is none of its own.
        printf '%s\n' "$words" | plain | grep -vFx -e "--wsrep-sst-donor=$given"
    } | sed -n "s/^--$1=//p" | tail -n 1
}
cat /proc/sys/kernel/hostname
printf '%s\n' "$(last port)" "$(last wsrep-sst-donor)"
