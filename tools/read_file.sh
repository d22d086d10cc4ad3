# Read one regular file, or lines of it, in one run: POSIX sh (dash, busybox), nothing written.
# Arguments: prefix such as /proc/PID/root or nothing, path, first line, last line (0: to the end), whole-file limit.
LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
export LC_ALL PATH
M=@@$1 ROOT=$2 TARGET=$3 FIRST=$4 LAST=$5 WHOLE=$6
say() { printf '%s %s\n' "$M" "$*"; }
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
if [ -f "$T" ]; then :
elif [ -d "$T" ]; then say folder; exit 0
elif [ -p "$T" ]; then say special "a FIFO"; exit 0
elif [ -c "$T" ] || [ -b "$T" ]; then say special "a device"; exit 0
elif [ -S "$T" ]; then say special "a socket"; exit 0
elif [ -e "$T" ]; then say special "no regular file"; exit 0
else
  # What lies in a folder that may not be searched is not known to be absent.
  above=${T%/*}
  while [ -n "$above" ] && [ ! -d "$above" ]; do above=${above%/*}; done
  if [ -x "${above:-/}" ]; then say missing; else say unreadable "$TARGET"; fi
  exit 0
fi
[ -r "$T" ] || { say unreadable "$TARGET"; exit 0; }
size=$(wc -c <"$T" | tr -d ' ')
say size "$size"
# A file in /proc or /sys says 0: it is read as far as the limit goes.
if [ "$size" -le "$WHOLE" ]; then
  say data
  head -c "$WHOLE" <"$T"
  exit 0
fi
say large
[ "$LAST" -gt 0 ] || LAST=$((FIRST + 399))
# Only so much is looked through for the wanted lines: the file may be sparse or endless.
say data
head -c 67108864 <"$T" | sed -n "${FIRST},${LAST}p;${LAST}q" | head -c 1000000
