# Copies a server with a tool, and sends the stream to standard output.
#
#   $1    the line that ends the option file in the input
#   $2    the tool; its flags follow
#
# When the input ends after the option file, whoever started this is gone (for example because the
# ssh connection was lost), and the tool is killed. The tool itself would notice only at its next
# write, and might hold locks of the server until then.
umask 077
PATH=$PATH:/usr/local/bin:/usr/bin
end=$1 program=$2
shift 2
tool=
folder=$(mktemp -d) || exit 1
trap '[ -z "$tool" ] || kill -KILL "$tool" 2>/dev/null; rm -rf -- "$folder"' EXIT
trap 'exit 143' HUP INT TERM PIPE
exec 3<&0
sed -n "/^$end\$/q;p" >"$folder/my.cnf" || { echo "cannot write to $folder: is its disk full?" >&2; exit 1; }
ulimit -n "$(ulimit -Hn)" 2>/dev/null
cd -- "$folder" || exit 1
"$program" --defaults-file="$folder/my.cnf" --open-files-limit="$(ulimit -n)" --target-dir="$folder/backup" "$@" </dev/null 3<&- &
tool=$!
(while read -r _; do :; done; kill -KILL "$tool") <&3 3<&- >/dev/null 2>&1 &
watch=$!
wait "$tool"; status=$?; tool=
exec 2>/dev/null
kill "$watch"
exit "$status"
