# Sends what a node's tablespaces hold, again and again, to the port of another node for full
# copies, until that has enough. Before it stand server.sh, enter.sh and assignments of: host, port.
command -v socat >/dev/null || { echo 'there is no socat' >&2; exit 1; }
trap '' PIPE
while find "$real" -maxdepth 2 -type f \( -name '*.ibd' -o -name 'ibdata*' \) -exec cat {} + 2>/dev/null; do :; done |
    $enter timeout 15 socat -u STDIN "TCP:$host:$port,retry=100,interval=0.1" 2>/dev/null
exit 0
