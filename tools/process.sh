# Describe one inference engine process in one run: POSIX sh (dash, busybox), nothing written, no root needed.
# Arguments: PID or nothing (then it is looked for), and a prefix such as /proc/PID/root or nothing.
# Output lines: `NAME ENCODED`, base64, or hex where there is no base64.
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
PID=$1
ROOT=$2
NL='
'
has() { command -v "$1" >/dev/null 2>&1; }
if has base64; then enc() { base64 | tr -d '\n'; }; echo 'encoding base64'
else enc() { od -An -v -tx1 | tr -d ' \n'; }; echo 'encoding hex'
fi
send() { printf '%s ' "$1"; printf %s "$2" | enc; echo; }
pipe() { printf '%s ' "$1"; enc; echo; }
words() { tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null; }
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
through() { # LINK PID: what a link of another user's process names
  answer=$(svc "$@") || return 1
  case $answer in refused:* | '') return 1 ;; esac
  printf '%s\n' "$answer"
}
parent() { s=$(cat "/proc/$1/stat" 2>/dev/null) || return; s=${s##*) }; set -f; set -- $s; set +f; echo "$2"; }

# A process in a PID namespace below ours has a number in each; where that cannot be read, it is taken for none.
nested() { grep -qE '^NSpid:[[:space:]]*[0-9]+[[:space:]]+[0-9]' "/proc/$1/status" 2>/dev/null; }

is_engine() {
  argv=$(words "$1")
  first=${argv%%"$NL"*}
  case ${first##*/} in *python* | sglang | vllm | ollama | llama-server) ;; *) return 1 ;; esac
  case $NL$argv$NL in
    *"$NL"sglang.launch_server"$NL"* | */sglang/launch_server.py"$NL"* | *[/"$NL"]sglang"$NL"serve"$NL"*) ENGINE=sglang ;;
    *"$NL"vllm.entrypoints* | *[/"$NL"]vllm"$NL"serve"$NL"*) ENGINE=vllm ;;
    *[/"$NL"]ollama"$NL"serve"$NL"*) ENGINE=ollama ;;
    *"$NL"llama_cpp.server"$NL"* | *[/"$NL"]llama-server"$NL"*) ENGINE=llama.cpp ;;
    *) return 1 ;;
  esac
}

ENGINE=
if [ -n "$PID" ]; then
  [ -d "/proc/$PID" ] || { echo 'gone -'; exit 0; }
  is_engine "$PID"
else
  own=
  inside=
  # Engines whose source can be read come first, and the host's own before those in containers.
  for names in 'sglang|vllm' 'ollama|llama'; do
    found=
    for f in $(grep -laE "$names" /proc/[0-9]*/cmdline 2>/dev/null); do
      p=${f#/proc/}
      p=${p%/cmdline}
      is_engine "$p" && found="$found $p"
    done
    for p in $(printf '%s\n' $found | sort -n); do
      case " $found " in *" $(parent "$p") "*) continue ;; esac
      if nested "$p"; then inside="$inside $p"; else own="$own $p"; fi
    done
    [ -z "$own" ] || break
  done
  set -- $own $inside
  PID=$1
  [ -n "$PID" ] || { echo 'none -'; exit 0; }
  send mains "$*"
  send inside "$inside"
  is_engine "$PID"
fi

send pid "$PID"
send engine "$ENGINE"
pipe stat <"/proc/$PID/stat"
pipe cmdline <"/proc/$PID/cmdline"
EXE=$(readlink "/proc/$PID/exe" || through exe "$PID") || echo 'denied exe'
CWD=$(readlink "/proc/$PID/cwd" || through cwd "$PID") || echo 'denied cwd'
send exe "$EXE"
send cwd "$CWD"
grep -E '^Uid:' "/proc/$PID/status" | pipe status
PYPATH=
VENV=
environ_of() {
  tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" && return
  answer=$(svc environ "$1" | tr '\0' '\n')
  case $answer in refused:* | '') return 1 ;; esac
  printf '%s\n' "$answer"
}
if environ=$(environ_of "$PID"); then
  names='CUDA|NCCL|GLOO|VLLM|SGL|OMP|MKL|HF_|HUGGINGFACE|TORCH|PYTORCH|TRITON|FLASHINFER|LD_PRELOAD|LD_LIBRARY_PATH|PYTHON|VIRTUAL_ENV|NVIDIA|UCX|OLLAMA|LLAMA|GGML'
  printf '%s\n' "$environ" | grep -E "^($names)[A-Z0-9_]*=" | pipe environ
  VENV=$(printf '%s\n' "$environ" | sed -n 's/^VIRTUAL_ENV=//p' | head -n 1)
  PYPATH=$(printf '%s\n' "$environ" | sed -n 's/^PYTHONPATH=//p' | head -n 1)
else
  echo 'denied environ'
fi
[ -n "$ENGINE" ] || exit 0

argv=$(words "$PID")
first=${argv%%"$NL"*}
case $first in
  /*) PY=$first ;;
  */*) PY=$CWD/$first ;;
  *) # started by name: the file is the base interpreter, the environment says which venv
    PY=$EXE
    [ -z "$VENV" ] || [ ! -d "$ROOT$VENV/bin" ] || PY=$VENV/bin/$first
    ;;
esac
send python "$PY"
[ -z "$ROOT" ] || [ -d "$ROOT/" ] || echo 'denied root'

SITES=
for python in "$PY" "$EXE"; do
  [ -n "$python" ] || continue
  bin=${python%/*}
  for site in "$ROOT${bin%/*}"/lib/python3*/site-packages "$ROOT${bin%/*}"/lib64/python3*/site-packages \
    "$ROOT${bin%/*}"/lib/python3*/dist-packages "$ROOT${bin%/*}"/local/lib/python3*/dist-packages; do
    [ -d "$site" ] && SITES="$SITES$site$NL"
  done
  [ -z "$SITES" ] || break
done

PACKAGE=
SITE=
take() { # FOLDER: use the package below it
  case $ENGINE in sglang | vllm) ;; *) return 1 ;; esac # the others keep no settings in Python
  [ -z "$PACKAGE" ] && [ -f "$1/$ENGINE/__init__.py" ] && PACKAGE=$1/$ENGINE
}
case $NL$argv$NL in *"$NL-m$NL"*) [ -z "$CWD" ] || take "$ROOT${CWD%/}" ;; esac
IFS=:
set -f
for folder in $PYPATH; do
  case $folder in '') ;; /*) take "$ROOT$folder" ;; *) take "$ROOT$CWD/$folder" ;; esac
done
set +f
IFS=$NL
for site in $SITES; do
  take "$site"
done
for site in $SITES; do # editable installs
  [ -z "$PACKAGE" ] || break
  for file in "$site"/__editable__*"$ENGINE"*.pth "$site"/easy-install.pth "$site/$ENGINE.egg-link"; do
    [ -f "$file" ] || continue
    while IFS= read -r folder; do case $folder in /*) take "$ROOT$folder" ;; esac; done <"$file"
  done
  for file in "$site"/__editable___*"$ENGINE"*_finder.py; do
    [ -f "$file" ] || continue
    folder=$(sed -n "s/.*'$ENGINE': *'\([^']*\)'.*/\1/p" "$file" | head -n 1)
    [ -z "$folder" ] || take "$ROOT${folder%/"$ENGINE"}"
  done
  for file in "$site/$ENGINE"-*.dist-info/direct_url.json; do
    [ -f "$file" ] || continue
    folder=$(sed -n 's/.*"url": *"file:\/\/\([^"]*\)".*/\1/p' "$file" | head -n 1)
    [ -z "$folder" ] || { take "$ROOT$folder/python"; take "$ROOT$folder"; }
  done
  [ -z "$PACKAGE" ] || SITE=$site
done
unset IFS
if [ -n "$PACKAGE" ]; then
  send package_root "${PACKAGE#"$ROOT"}"
  [ -r "$PACKAGE" ] || echo 'denied package_root'
  for info in "${PACKAGE%/*}/$ENGINE"-*.dist-info "${SITE:-/nowhere}/$ENGINE"-*.dist-info; do
    [ -d "$info" ] || continue
    info=${info##*/}
    info=${info#"$ENGINE"-}
    send version "${info%.dist-info}"
    break
  done
  for file in "$PACKAGE/version.py" "$PACKAGE/_version.py"; do
    [ ! -f "$file" ] || sed -n "s/^ *\(__version__ *=\|version *= *__version__ *=\) *['\"]\([^'\"]*\)['\"].*/\2/p" "$file" | head -n 1 | pipe written
  done
fi

case $ENGINE in
  sglang) PORT=30000 ;;
  vllm) PORT=8000 ;;
  llama.cpp) PORT=8080 ;;
  ollama)
    PORT=11434
    host=$(printf '%s\n' "$environ" | sed -n 's/^OLLAMA_HOST=//p' | sed 's,/*$,,' | head -n 1)
    case ${host##*:} in '' | *[!0-9]*) ;; *) PORT=${host##*:} ;; esac
    ;;
esac
given=$(printf '%s\n' "$argv" | sed -n -e 's/^--port=\([0-9][0-9]*\)$/\1/p' -e '/^--port$/{n;s/^\([0-9][0-9]*\)$/\1/p;}' | tail -n 1)
PORT=${given:-$PORT}
send port "$PORT"
ask() { # PATH: print the answer and a last line with the status
  url=http://127.0.0.1:$PORT$1
  if has curl; then curl -s -m 2 --max-filesize 2000000 -w '\n%{http_code}' "$url"
  elif has wget; then wget -q -T 2 -O - "$url" 2>/dev/null && printf '\n200'
  elif [ -x "$PY" ]; then
    "$PY" -I -S -c 'import sys,urllib.request as u;r=u.build_opener(u.ProxyHandler({})).open(sys.argv[1],timeout=2);print(r.read(2000000).decode(),r.status,sep="\n",end="")' "$url" 2>/dev/null
  else echo 'noclient -' >&2; printf 'noclient'; fi
}
# A server may send without end: what is longer than any real answer is cut, and then not believed.
answer=
case $ENGINE in sglang | vllm) answer=$(ask /server_info | head -c 2000000) ;; esac
case $answer in
  *"${NL}404" | *"${NL}405") answer=$(ask /get_server_info | head -c 2000000) ;;
esac
printf '%s' "$answer" | pipe server_info
