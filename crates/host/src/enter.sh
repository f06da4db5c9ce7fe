# What is put before a command that is to run in the network of the process `pid`: `enter`, empty
# where that is this one's. Scripts go on behind it.
enter=
if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]; then
    enter="nsenter --target $pid --net --"
fi
