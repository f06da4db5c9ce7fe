# Receives for a second, or a GiB, what comes at the port for full copies, into a file beside the
# data, and says bytes and nanoseconds until they are on the disk. Before it stand server.sh,
# enter.sh and assignments of: port, scratch.
command -v socat >/dev/null || { echo 'there is no socat' >&2; exit 1; }
scratch=$real/$scratch
free=$(df -PB1 -- "$real" | awk 'NR == 2 { print $4 }')
[ "${free:-0}" -gt 4294967296 ] || { echo 'there is no room to try it' >&2; exit 1; }
trap 'rm -f -- "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
$enter timeout 15 socat -u "TCP-LISTEN:$port,reuseaddr" STDOUT 2>/dev/null | {
    dd bs=1 count=1 status=none >"$scratch" || exit 1
    begun=$(date +%s%N)
    timeout 1 head -c 1073741824 >"$scratch"
    sync -- "$scratch"
    printf '%s %s\n' "$(stat -c %s -- "$scratch")" "$(($(date +%s%N) - begun))"
}
