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
# The same log through the root-owned helper, where this account may not read it by itself.
helped() { # WORD...: journalctl's
  lines='' since='' until='' boot='' before=''
  for word; do
    case $word in -b) boot=boot ;; --since=*) since=${word#*=} ;; --until=*) until=${word#*=} ;; esac
    [ "$before" != -n ] || lines=$word
    before=$word
  done
  svc "$lines" "$since" "$until" "$boot"
}
svc() {
  sudo -n /usr/local/sbin/leadline-svc journal "$unit" "$@" 2>/dev/null </dev/null ||
    { printf 'journal\t%s' "$unit"; printf '\t%s' "$@"; echo; } | sudo -n /usr/local/sbin/leadline-svc 2>/dev/null
}
may_help() {
  [ -n "$unit" ] && [ -z "$kernel$root" ] && [ -x /usr/local/sbin/leadline-svc ] || return 1
  case " $(id -Gn) " in *' root '* | *' adm '* | *' systemd-journal '*) return 1 ;; esac
  case $(svc 1 '' '' '' | head -c 9) in refused:* | '') return 1 ;; esac
}
if has journalctl && may_help; then
  say source journalctl
  { helped "$@" || say code "$?"; } | bounded
  wait
  exit 0
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
