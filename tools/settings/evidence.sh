# Read what was asked of an engine and what it said of itself: its unit, the script that the unit runs, environment
# files, the log of its start, its last decode lines, its metrics. POSIX sh (dash, busybox), nothing written.
# Arguments: MARK PID UNIT START (seconds since 1970) OUTPUT (file of standard output) PORT ROOT.
LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
M=@@$1 PID=$2 UNIT=$3 START=$4 OUTPUT=$5 PORT=$6 ROOT=$7
NL='
'
has() { command -v "$1" >/dev/null 2>&1; }
section() { printf '\n%s %s\n' "$M" "$*"; }
unset http_proxy HTTP_PROXY https_proxy all_proxy ALL_PROXY
names='CUDA|NCCL|GLOO|VLLM|SGL|OMP|MKL|HF_|HUGGINGFACE|TORCH|PYTORCH|TRITON|FLASHINFER|LD_PRELOAD|LD_LIBRARY_PATH|PYTHON|VIRTUAL_ENV|NVIDIA|UCX|OLLAMA|LLAMA|GGML'

unit_of() { # by the processes above: the unit whose main process is one of them
  has systemctl || return 0
  above=" $PID "
  p=$PID
  for _ in 1 2 3 4 5 6 7 8; do
    s=$(cat "/proc/$p/stat" 2>/dev/null) || break
    s=${s##*) }
    set -f
    set -- $s
    set +f
    p=$2
    [ "${p:-0}" -gt 1 ] || break
    above="$above$p "
  done
  files=$(grep -lE 'sglang|vllm|ollama|llama|python' /etc/systemd/system/*.service /run/systemd/system/*.service \
    /usr/local/lib/systemd/system/*.service 2>/dev/null | sed 's,.*/,,' | sort -u | head -n 60)
  [ -n "$files" ] || return 0
  id=
  systemctl show --no-pager -p Id,MainPID $files 2>/dev/null | while IFS='=' read -r name value; do
    case $name in Id) id=$value ;; MainPID) main=$value ;; '') id= main= ;; esac
    if [ -n "$id" ] && [ -n "$main" ]; then
      case $above in *" $main "*) [ "$main" = 0 ] || { echo "$id"; break; } ;; esac
    fi
  done
}
gone() { [ -d "/proc/$PID" ] || { section gone; exit 0; }; }

collect() {
  gone
  [ -n "$UNIT" ] || UNIT=$(unit_of)
  section unit "$UNIT"
  if [ -n "$UNIT" ] && has systemctl; then
    text=$(systemctl cat --no-pager "$UNIT" 2>/dev/null | head -c 262144)
    section cat
    printf '%s\n' "$text"
    section show
    systemctl show --no-pager -p Id,MainPID,NeedDaemonReload,FragmentPath,DropInPaths,Environment,EnvironmentFiles "$UNIT" 2>/dev/null
    printf '%s\n' "$text" | sed -n 's/^[[:space:]]*EnvironmentFile=-\{0,1\}\(\/[^ ]*\)$/\1/p' | while read -r file; do
      section environment_file "$file"
      if [ -r "$file" ]; then grep -nE "^[[:space:]]*(export )?($names)[A-Za-z0-9_]*=" "$file" 2>/dev/null | head -c 65536
      elif [ -e "$file" ]; then echo '!denied'; fi
    done
    words=$(printf '%s\n' "$text" | sed -n 's/^[[:space:]]*ExecStart=[-@:+!]*\(.*\)$/\1/p' | tail -n 1)
    set -f
    set -- $words
    set +f
    for file in "$1" "$2"; do
      case $file in /*) ;; *) continue ;; esac
      [ -f "$file" ] && [ -r "$file" ] && [ "$(head -c 2 "$file" 2>/dev/null)" = '#!' ] || continue
      grep -qE 'sglang|vllm|llama|ollama' "$file" 2>/dev/null || continue
      section script "$file"
      head -c 65536 "$file"
      break
    done
  fi
  section log
  if [ -n "$UNIT" ] && has journalctl; then
    # The line that ends a start is rarely past the first hundred thousand bytes.
    journalctl -u "$UNIT" -q --no-pager -a -o short-iso --since "@${START%.*}" 2>/dev/null | head -c 1048576 |
      awk '{ print } /fired up and ready to roll|Application startup complete/ { exit }' | grep -avE 'Decode batch|Prefill batch|"(GET|POST) ' | head -c 300000
    section decode
    journalctl -u "$UNIT" -q --no-pager -a -o short-iso -n 400 --since "@${START%.*}" 2>/dev/null |
      grep -aE 'Decode batch|Engine [0-9]+: Avg|throughput' | tail -n 12
  elif [ -n "$OUTPUT" ] && [ -f "$ROOT$OUTPUT" ] && [ -r "$ROOT$OUTPUT" ]; then
    case $OUTPUT in *.log | *.out | *.txt | */log/* | */logs/*)
      head -c 1048576 "$ROOT$OUTPUT" | awk '{ print } /fired up and ready to roll|Application startup complete/ { exit }' | head -c 300000
      section decode
      tail -c 262144 "$ROOT$OUTPUT" | grep -aE 'Decode batch|Engine [0-9]+: Avg|throughput' | tail -n 12 ;;
    esac
  fi
  section metrics
  if [ -n "$PORT" ]; then
    if has curl; then curl -fs -m 3 --max-filesize 4000000 "http://127.0.0.1:$PORT/metrics"
    elif has wget; then wget -q -T 3 -O - "http://127.0.0.1:$PORT/metrics"
    fi 2>/dev/null | head -c 4000000 | grep -aE '^(sglang|vllm):' | grep -avE '_bucket\{' | head -c 200000
  fi
  gone
  section end
}
if has gzip; then printf 'gzip\n'; collect | gzip -c; else printf 'plain\n'; collect; fi
