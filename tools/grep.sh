# Search files and send the matching Python files along, in one run: POSIX sh (dash, busybox), nothing written.
# Standard input: sha256 of files that the caller has already. Sections of the output begin with `@@NONCE NAME`.
LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
export LC_ALL PATH
M=@@$1 ROOT=$2 TARGET=$3 PATTERN=$4 GLOB=$5 FLAGS=$6 LIMIT=$7 RG=$8
shift 8
WAIT_FOR_RG=$1 PID=$2 START=$3 DEFINITIONS=$4 PACKAGE=$5 SCOPE=$6 OUTSIDE=$7 FILES=$8
shift 8
VERSION=$1
NL='
'
say() { printf '%s %s\n' "$M" "$*"; }
has() { command -v "$1" >/dev/null 2>&1; }
known=$(cat)

if [ -n "$PID" ]; then
  s=
  { read -r s <"/proc/$PID/stat"; } 2>/dev/null
  s=${s##*) }
  set -f
  set -- $s
  set +f
  [ $# -ge 20 ] && shift 19 || set -- gone
  [ "$1" = "$START" ] || { say restarted; exit 0; }
fi

T=$ROOT$TARGET
if [ -n "$ROOT" ]; then # an absolute link in there would lead back into the host's own files
  [ -d "$ROOT/" ] || { say unreadable "$ROOT"; exit 0; }
  rest=$TARGET way=$ROOT
  while [ -n "$rest" ]; do
    rest=${rest#/}
    way=$way/${rest%%/*}
    case $rest in */*) rest=/${rest#*/} ;; *) rest= ;; esac
    [ ! -L "$way" ] || { say link "$way" "$(readlink "$way")"; exit 0; }
  done
else
  real=$(readlink -f "$T") && say real "$real"
fi
if [ -d "$T" ]; then [ -r "$T" ] && [ -x "$T" ] || { say unreadable "$TARGET"; exit 0; }
elif [ -f "$T" ]; then [ -r "$T" ] || { say unreadable "$TARGET"; exit 0; }
elif [ -e "$T" ]; then say special "$TARGET"; exit 0
else
  # What lies in a folder that may not be searched is not known to be absent.
  above=${T%/*}
  while [ -n "$above" ] && [ ! -d "$above" ]; do above=${above%/*}; done
  if [ -x "${above:-/}" ]; then say missing "$TARGET"; else say unreadable "$TARGET"; fi
  exit 0
fi

if [ -z "$RG" ]; then
  RG=$(command -v rg)
  [ -n "$RG" ] || [ -z "$WAIT_FOR_RG" ] || { say norg; exit 0; }
fi

with_rg() {
  { "$RG" --json --no-config --no-ignore --hidden $FLAGS ${GLOB:+--glob "$GLOB"} -e "$PATTERN" -- "$T" </dev/null
    echo "$M rc $?" >&2; } | head -c "$LIMIT"
}
with_grep() {
  mode=-E
  case $FLAGS in *F*) mode=-F ;; esac
  case $FLAGS in *i*) mode="$mode -i" ;; esac
  echo x | grep -I x >/dev/null 2>&1 && mode="$mode -I"
  grep $mode -e "$PATTERN" /dev/null
  [ $? -lt 2 ] || { echo "$M rc 2" >&2; return; }
  { find "$T" -type f ${GLOB:+-name "$GLOB"} -exec grep -nH $mode -e "$PATTERN" {} +
    echo "$M rc 0" >&2; } | head -c "$LIMIT"
}

set -f
if [ -n "$RG" ]; then
  [ -n "$VERSION" ] || VERSION=$("$RG" --version 2>/dev/null)
  say engine "${VERSION%%"$NL"*}"
  out=$(with_rg)
  list=$(printf '%s\n' "$out" | sed -n 's/^{"type":"begin","data":{"path":{"text":"\(.*\)"}}}$/\1/p')
else
  say engine grep
  out=$(with_grep)
  list=$(printf '%s\n' "$out" | sed -n 's/^\(\/[^:]*\.py\):[0-9][0-9]*:.*/\1/p' | uniq)
fi
say output
printf '%s\n' "$out"
if [ -n "$RG" ] && [ -z "$list" ]; then # an absence is only worth something with the number of files looked at
  say searched "$("$RG" --files --no-config --no-ignore --hidden ${GLOB:+--glob "$GLOB"} -- "$T" 2>/dev/null | wc -l | tr -d ' ')"
fi

if [ -n "$OUTSIDE" ]; then
  say outside
  if [ -n "$RG" ]; then (cd "$ROOT$PACKAGE" && "$RG" -n --no-heading --no-config --no-ignore -g '*.py' -e "$OUTSIDE" -- "${SCOPE:-.}" </dev/null)
  else (cd "$ROOT$PACKAGE" && find "${SCOPE:-.}" -name '*.py' -exec grep -nHE -e "$OUTSIDE" {} +)
  fi 2>/dev/null | head -c 1000000
fi

# A name with a backslash was escaped for JSON: its content is left out, its matches are not.
IFS=$NL
set --
n=0
for f in ${DEFINITIONS:+"$ROOT$DEFINITIONS"} $list; do
  case $f in *\\*) continue ;; *.py) ;; *) continue ;; esac
  case $NL$seen$NL in *"$NL$f$NL"*) continue ;; esac
  seen=$seen$NL$f
  n=$((n + 1))
  [ "$n" -gt "$FILES" ] || [ ! -r "$f" ] || set -- "$@" "$f"
done
if [ $# -gt 0 ]; then
  sizes=$(wc -c "$@" 2>/dev/null)
  set --
  unset IFS
  while read -r size name; do
    case $name in /*) ;; *) continue ;; esac
    if [ "$size" -le 2097152 ]; then set -- "$@" "$name"; fi
  done <<EOF
$sizes
EOF
fi
if [ $# -gt 0 ]; then
  sums=
  if has sha256sum; then sums=$(sha256sum "$@" 2>/dev/null); fi
  IFS=$NL
  say digests
  printf '%s\n' "$sums"
  set --
  for line in $sums; do
    case $NL$known$NL in *"$NL${line%% *}$NL"*) ;; *) set -- "$@" "${line#*  }" ;; esac
  done
  if [ -z "$sums" ]; then
    unset IFS
    while read -r size name; do
      case $name in /*) [ "$size" -gt 2097152 ] || set -- "$@" "$name" ;; esac
    done <<EOF
$sizes
EOF
  fi
  unset IFS
  if [ $# -gt 0 ]; then
    say sizes
    wc -c "$@"
    say data
    cat "$@"
  fi
fi
