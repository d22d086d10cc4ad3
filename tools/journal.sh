# Read a log: the journal, else the file that the unit writes to, else the system's own log file.
# Arguments: UNIT or nothing, kernel or nothing, ROOT or nothing, HEAD bytes, TAIL bytes, then journalctl's.
# What was read goes to standard output (a marker between head and tail), remarks to standard error as ll-NAME=VALUE.
LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
unit=$1 kernel=$2 root=$3 head=$4 tail=$5
shift 5
say() { printf 'll-%s=%s\n' "$1" "$2" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# A head that is not GNU's may swallow more of a pipe than it prints: what lies between the parts is then lost.
case $(head --version 2>&1) in *GNU* | *uutils*) ;; *) say seam lost ;; esac

bounded() {
  head -c "$head"
  printf '\n\001cut\001\n'
  tail -c "$tail"
}

follow() { # FILE: read a regular file
  [ -f "$root$1" ] || return 1
  say source "$1"
  if [ -r "$root$1" ]; then cat "$root$1" | bounded; else say denied "$1"; fi
}

if [ -n "$unit" ] && has systemctl && [ -z "$root" ]; then
  say load "$(systemctl show --no-pager -p LoadState "$unit" 2>/dev/null)" &
fi
if has journalctl; then
  say source journalctl
  { journalctl --no-pager -a -o short-iso "$@" || say code "$?"; } | bounded
  wait
  exit 0
fi
wait
say missing journalctl
if [ -n "$kernel" ]; then
  follow /var/log/kern.log && exit 0
  say source dmesg
  { dmesg || say code "$?"; } | bounded
  exit 0
fi
if [ -n "$unit" ]; then
  text=$(systemctl cat --no-pager "$unit" 2>/dev/null || cat "$root/etc/systemd/system/$unit" "$root/etc/systemd/system/$unit.d"/*.conf 2>/dev/null)
  out=$(printf '%s\n' "$text" | sed -n 's/^StandardOutput=\(append\|file\|truncate\):\(\/.*\)$/\2/p' | tail -n 1)
  [ -n "$out" ] && follow "$out" && exit 0
fi
follow /var/log/syslog || follow /var/log/messages || say none 'no journal and no log file'
