# Tries from a donor to reach a joiner's port for state transfers. Before it stand enter.sh and
# assignments of: host, port, pid.
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin
output=$($enter timeout 4 bash -c 'exec 3<>"/dev/tcp/$1/$2"' - "$host" "$port" 2>&1)
printf 'connect\t%s\t%s\n' "$?" "$(printf '%s' "$output" | tr '\n\t' '  ')"
device=$($enter ip -o route get "$host" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
[ -z "$device" ] || printf 'device\t%s\n' "$device"
[ -n "$enter" ] || [ -z "$device" ] || printf 'speed\t%s\n' "$(cat "/sys/class/net/$device/speed" 2>/dev/null)"
