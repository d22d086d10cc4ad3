# Picture a host in one run: probes in parallel, POSIX sh only (dash, busybox), no files written, no root needed.
# Argument 1: PID of a process whose root to look into for packages, or nothing.
# Output lines:  LL1 RECORD CHUNK (base64, or hex of od)   LL2 PROBE START_MS END_MS   LL0 missing NAME
# One printf a line: a write of a short line is not torn by the other probes' writes.
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
ROOT=$1
MENTIONS='sglang|vllm|ollama|llama[-_.]?(server|cpp)'
NL='
'
has() { command -v "$1" >/dev/null 2>&1; }

if has base64; then ENC=base64
elif has od; then ENC='od -An -v -tx1'
else echo 'LL0 missing base64'; exit 0
fi
# Old busybox spells it `timeout -t N`; then probes run unbounded and the caller's limit holds.
T=
if timeout 2 true >/dev/null 2>&1; then T='timeout 8'; fi
for c in nvidia-smi systemctl journalctl rg; do has "$c" || echo "LL0 missing $c"; done
[ -n "$T" ] || echo 'LL0 missing timeout'

case $(date +%s%N 2>/dev/null) in
  *[!0-9]* | '' | ?????????? ) now() { IFS=' ' read -r n _ </proc/uptime; n=${n%.*}${n#*.}0; } ;;
  *) now() { n=$(date +%s%N); n=${n%??????}; } ;;
esac

send() { # RECORD: send standard input under that name
  chunk=$($ENC)
  IFS=$NL
  set -f
  for line in $chunk; do printf 'LL1 %s %s\n' "$1" "$line"; done
}

timed() { # PROBE COMMAND...: the command sends its own records
  (
    timed_probe=$1
    shift
    now
    timed_start=$n
    "$@"
    now
    printf 'LL2 %s %s %s\n' "$timed_probe" "$timed_start" "$n"
  ) </dev/null 2>/dev/null &
}

recorded() { # RECORD COMMAND...: send what the command prints, errors and exit code included
  record=$1
  shift
  { "$@" 2>&1; printf '\nrc=%s\n' "$?"; } | send "$record"
}

probe() { timed "$1" recorded "$@"; }

os() {
  cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release
  echo "uname=$(uname -srm)"
  echo "id=$(id)"
  for f in /proc/sys/kernel/hostname /proc/uptime /proc/loadavg; do
    read -r line <$f
    echo "${f##*/}=$line"
  done
  if [ -r /.dockerenv ]; then echo 'container=docker'; fi
  grep -E '^btime |^[^ ]+ /proc proc [^ ]*hidepid=([12]|inv|noa)' /proc/stat /proc/mounts
}

hardware() {
  echo "cpus=$(grep -c '^processor' /proc/cpuinfo)"
  grep -m1 '^model name' /proc/cpuinfo
  grep -E '^(MemTotal|MemAvailable|SwapTotal|SwapFree|HugePages_Total):' /proc/meminfo
  cat /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor 2>/dev/null | sort | uniq -c | sed 's/^/governor=/'
  cat /proc/driver/nvidia/version 2>/dev/null
}

gpus() {
  has nvidia-smi || return 127
  q=index,name,memory.total,power.draw,power.limit,utilization.gpu,clocks.sm,pstate,temperature.gpu,driver_version
  $T nvidia-smi --query-gpu=$q --format=csv
}
gpu_header() { has nvidia-smi && $T nvidia-smi; }
disks() { $T df -P / /dev/shm /tmp; }
ports() { cat /proc/net/tcp; cat /proc/net/tcp6 2>/dev/null; }
kernel_log() {
  if has journalctl; then $T journalctl -k -b -n 1 --no-pager -o short-iso; else $T dmesg | tail -n 1; fi
}

# Ask the root-owned helper, where this account has one; an answer that begins with `refused:` is none. How it takes
# its words (as arguments, or as a line where sudo cannot check those) is found out once: each call costs two programs.
SVC=
if [ -x /usr/local/sbin/leadline-svc ] && [ "$(id -u)" != 0 ]; then
  if sudo -n /usr/local/sbin/leadline-svc version >/dev/null 2>&1 </dev/null; then SVC=words
  elif echo version | sudo -n /usr/local/sbin/leadline-svc >/dev/null 2>&1; then SVC=line
  fi
fi
svc() { # VERB ARGUMENT...
  case $SVC in
    words) sudo -n /usr/local/sbin/leadline-svc "$@" 2>/dev/null </dev/null ;;
    line) { printf %s "$1"; shift; printf '\t%s' "$@"; echo; } | sudo -n /usr/local/sbin/leadline-svc 2>/dev/null ;;
    *) return 1 ;;
  esac
}
arguments() { tr '\n\0' ' \n' <"/proc/$1/cmdline" | head -c 131072; }

environment() { # PID: allowed names only; other values, and those of names that hold secrets, never travel
  names='CUDA|NCCL|GLOO|VLLM|SGLANG|SGL|OMP|MKL|HF|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|NVIDIA|UCX|NVSHMEM|OLLAMA|LLAMA|GGML'
  names="(($names)_[A-Za-z0-9_]*|LD_PRELOAD|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|CUDA_HOME)"
  secret='[A-Za-z0-9_]*(TOKEN|KEY|SECRET|PASS|AUTH|CRED)[A-Za-z0-9_]*'
  # Reading decides: the mode bits allow what the kernel may still refuse (a process that is not dumpable).
  if head -c 1 "/proc/$1/environ" >/dev/null 2>&1; then environ=$(tr '\n\0' ' \n' <"/proc/$1/environ")
  else
    environ=$(svc environ "$1" | tr '\n\0' ' \n')
    case $environ in refused:* | '') echo '!denied'; return ;; esac
  fi
  printf '%s\n' "$environ" | grep -E "^$names=" | sed -E "s/^($secret)=.*/\\1=[value not read]/" | head -c 65536
}

link() { # PID NAME: what a link of another user's process names
  case $2 in fd/1) verb=stdout ;; ns/mnt) verb=mnt-ns ;; *) verb=$2 ;; esac
  said=$(svc "$verb" "$1")
  case $said in refused:* | '') echo '!denied' ;; *) printf '%s\n' "$said" ;; esac
}

about() { # PID
  for k in exe cwd fd/1 ns/mnt; do echo "$k=$(readlink "/proc/$1/$k" || link "$1" "$k")"; done
  echo "self_ns=$(readlink /proc/self/ns/mnt)"
  echo "stat=$(cat "/proc/$1/stat")"
  # NSpid has a number for every PID namespace from ours down; whoever may see the process may read it.
  grep -E '^(PPid|NSpid|Uid|Threads|VmRSS|Cpus_allowed_list|Mems_allowed_list):' "/proc/$1/status"
  sed 's/^/cgroup=/' "/proc/$1/cgroup"
  ls -ld "/proc/$1" | sed 's/^/owner=/'
}

look_in() { # ROOT SITE ENGINE: describe the package when this site-packages holds it
  found=
  if [ -f "$1$2/$3/__init__.py" ]; then found=1; echo "package_root=$2/$3"; fi
  for d in "$1$2/$3"-*.dist-info; do
    [ -d "$d" ] || continue
    found=1
    if [ -f "$d/direct_url.json" ]; then echo "direct_url=$(head -c 2048 "$d/direct_url.json" | tr '\n' ' ')"; fi
  done
  [ -n "$found" ] || return 1
  for f in "$1$2"/__editable__*"$3"*.pth "$1$2/_$3.pth"; do # an editable install: the path stands in the file
    [ -f "$f" ] && read -r line <"$f" || continue
    if [ -f "$1$line/$3/__init__.py" ]; then echo "package_root=$line/$3"; fi
  done
  echo "site=$2"
  for d in "$1$2"/*.dist-info; do
    name=${d##*/}
    case $name in
      "$3"-* | "$3"_python-* | torch-* | triton-* | flashinfer_python-* | transformers-* | sgl_kernel-* | sglang_kernel-* | nvidia_nccl*)
        echo "dist=${name%.dist-info}" ;;
    esac
  done
  if [ -f "$1$2/$3/version.py" ]; then grep -m1 -E '^__version__ *= *"' "$1$2/$3/version.py"; fi
  return 0
}

package() { # PID ENGINE FIRST SECOND: find the files behind a running engine as its interpreter would
  view=
  if [ -n "$ROOT" ]; then view=/proc/$ROOT/root
  elif [ "$(readlink "/proc/$1/ns/mnt" || link "$1" ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; then view=/proc/$1/root
  fi
  echo "root=$view"
  if [ -n "$view" ] && [ ! -x "$view/." ]; then echo 'denied=root'; return; fi
  cwd=$(readlink "/proc/$1/cwd" || link "$1" cwd)
  exe=$(readlink "/proc/$1/exe" || link "$1" exe)
  env=$({ tr '\n\0' ' \n' 2>/dev/null <"/proc/$1/environ" || svc environ "$1" | tr '\n\0' ' \n'; } |
    grep -E '^(PATH|PYTHONPATH|VIRTUAL_ENV)=')
  set -f
  IFS=:
  for d in $(echo "$env" | sed -n 's/^PYTHONPATH=//p'); do
    look_in "$view" "$d" "$2" && return
  done
  prefixes=
  case $3 in
    /*) prefixes=${3%/*/*} ;;
    */*) prefixes=$cwd/${3%/*}/.. ;;
    *) for d in $(echo "$env" | sed -n 's/^PATH=//p'); do
         if [ -x "$view$d/$3" ]; then prefixes=${d%/*}; break; fi
       done ;;
  esac
  case $4 in /*/bin/*) prefixes="$prefixes$NL${4%/*/*}" ;; esac
  prefixes="$prefixes$NL$(echo "$env" | sed -n 's/^VIRTUAL_ENV=//p')$NL${exe%/*/*}"
  IFS=$NL
  if [ "$4" = -m ] && [ -n "$cwd" ] && [ -f "$view$cwd/$2/__init__.py" ]; then
    look_in "$view" "$cwd" "$2" && return
  fi
  for prefix in $prefixes; do
    set +f
    for site in "$view$prefix"/lib/python3*/site-packages "$view$prefix"/lib64/python3*/site-packages \
      "$view$prefix"/local/lib/python3*/dist-packages "$view$prefix"/lib/python3*/dist-packages; do
      [ -d "$site" ] || continue
      look_in "$view" "${site#"$view"}" "$2" && return
    done
  done
  echo 'package_root='
}

engine() { # PID ENGINE FIRST SECOND
  arguments "$1" | send "cmdline:$1"
  environment "$1" | send "environ:$1"
  about "$1" 2>/dev/null | send "about:$1"
  cat "/proc/$1/limits" 2>/dev/null | send "limits:$1"
  case $2 in ollama) return ;; llama.cpp) set -- "$1" llama_cpp "$3" "$4" ;; esac
  case $3 in *llama-server) return ;; esac
  package "$@" 2>/dev/null | send "package:$1"
}

unit() { # NAME
  p=Id,Names,LoadState,ActiveState,SubState,Result,MainPID,NRestarts,ExecMainStatus,ExecMainStartTimestamp
  p=$p,NeedDaemonReload,DropInPaths,FragmentPath,Environment,EnvironmentFiles,ExecStart,User,WorkingDirectory
  p=$p,LimitNOFILE,LimitMEMLOCK,MemoryMax,TasksMax,AllowedCPUs,CPUQuotaPerSecUSec,StandardOutput
  recorded "show:$1" $T systemctl show --no-pager "$1" -p $p &
  recorded "unit:$1" $T systemctl cat --no-pager "$1"
  wait
}

unit_files() { # print unit files and drop-ins on disk that mention an engine
  set +f
  for d in /etc/systemd/system /run/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system; do
    grep -lE "$MENTIONS" "$d"/*.service "$d"/*.service.d/*.conf 2>/dev/null
  done
}

units() { # KNOWN: units that own an engine process, and those whose name or text mentions one
  names=$1
  files=$(unit_files)
  IFS=$NL
  for f in $files; do
    case $f in *.service.d/*) f=${f%/*}; f=${f%.d} ;; esac
    names="$names$NL${f##*/}"
  done
  unset IFS
  if has systemctl; then
    listed=$($T systemctl list-units --type=service --all --plain --no-legend --no-pager 2>&1) || printf '%s\n' "$listed" | send systemd
    names="$names$NL$(printf '%s\n' "$listed" | sed -n 's/^[^A-Za-z0-9]*\([^ ]*\.service\) .*/\1/p' | grep -E "$MENTIONS")"
    names=$(printf '%s\n' "$names" | grep -v '@\.service$' | grep . | sort -u)
    printf '%s\n' "$names" | send units
    IFS=$NL
    for name in $(printf '%s\n' "$names" | head -n 24); do unset IFS; unit "$name" & done
    wait
  fi
  IFS=$NL
  for f in $files; do { echo "# $f"; head -c 65536 "$f"; echo; }; done | send unit_files
}

engines() { # start a probe for each engine process; leave the units that own them in $owners
  owners=
  for f in $($T grep -lE 'sglang|vllm|ollama|llama' /proc/[0-9]*/cmdline 2>/dev/null); do
    pid=${f#/proc/}
    pid=${pid%/cmdline}
    args=$NL$(arguments "$pid" 2>/dev/null)$NL
    case $args in
      *"${NL}sglang.launch_server$NL"* | *"/sglang/launch_server.py$NL"* | *[/$NL]"sglang${NL}serve$NL"*) kind=sglang ;;
      *"${NL}vllm.entrypoints"* | *[/$NL]"vllm${NL}serve$NL"*) kind=vllm ;;
      *[/$NL]"ollama${NL}serve$NL"* | *[/$NL]"ollama${NL}runner$NL"*) kind=ollama ;;
      *"${NL}llama_cpp.server$NL"* | *[/$NL]"llama-server$NL"*) kind=llama.cpp ;;
      *) continue ;;
    esac
    rest=${args#"$NL"}
    first=${rest%%"$NL"*}
    rest=${rest#*"$NL"}
    case ${first##*/} in *python* | sglang | vllm | ollama | llama-server) ;; *) continue ;; esac
    timed "engine:$pid" engine "$pid" "$kind" "$first" "${rest%%"$NL"*}"
    while read -r line; do
      case $line in *.service*) line=${line%.service*}.service; owners="$owners$NL${line##*/}" ;; esac
    done <"/proc/$pid/cgroup"
  done
}

services() { # engine processes, then units: those that own one, and those that mention one
  engines
  units "$owners"
  wait
}

now
begin=$n
probe gpus gpus
probe gpu_header gpu_header
timed services services
probe os os
probe hardware hardware
probe disks disks
probe ports ports
probe kernel_log kernel_log
wait
now
printf 'LL2 all %s %s\n' "$begin" "$n"
