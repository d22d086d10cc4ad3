# Send files of a package: POSIX sh (dash, busybox), nothing written. Names set before: PACKAGE (with its root), ROOT,
# MARK, LIMIT (bytes of all files), asked: lines `W GLOB` (a file), `G WORD` (Python files that hold the word), `A`
# (names of all Python files), `H PREFIX` (of a sha256 that the caller has). Output: `MARK files gzip|plain`, then,
# perhaps compressed: `L PATH` for every Python file, `F DIGEST SIZE SENT PATH` for every file chosen (SENT: 1 sent,
# 0 known, `big`, `over` the limit), an empty line, and the content of the files sent.
NL='
'
digests() { if command -v sha256sum >/dev/null 2>&1; then sha256sum "$@"; else cksum "$@" | sed 's/^\([0-9]*\) [0-9]* /-\1  /'; fi 2>/dev/null; }
plain() { # FILE: a regular file; a link only on the host's own root, and only to another Python file
  [ -f "$1" ] && [ -r "$1" ] || return 1
  [ -L "$1" ] || return 0
  [ -z "$ROOT" ] || return 1
  case $(readlink -f "$1") in *.py) ;; *) return 1 ;; esac
}
mentioning() {
  words=$(printf '%s\n' "$asked" | sed -n 's/^G //p')
  [ -n "$words" ] || return 0
  if command -v rg >/dev/null 2>&1; then
    printf '%s\n' "$words" | rg -l -F --no-config --no-ignore --hidden -g '*.py' -g '!__pycache__' -f - -- .
  else
    find . -name __pycache__ -prune -o -type f -name '*.py' -exec grep -lF -e "$words" {} +
  fi 2>/dev/null
}
everything() {
  case $NL$asked$NL in *"${NL}A$NL"*) find . -name __pycache__ -prune -o -name '.?*' -prune -o -type f -name '*.py' -print ;; esac
}
chosen() {
  IFS=$NL
  set -f
  for glob in $(printf '%s\n' "$asked" | sed -n 's/^W //p'); do
    case $glob in
      /* | *..*) continue ;;
      *'**'*) find "./${glob%%/\*\*}" -name __pycache__ -prune -o -type f -name '*.py' -print 2>/dev/null ;;
      *'*'*) set +f; for file in ./$glob; do ! plain "$file" || echo "$file"; done; set -f ;;
      *) ! plain "./$glob" || echo "./$glob" ;;
    esac
  done
  mentioning
}
frames() {
  everything | sed 's,^\./,L ,'
  IFS=$NL
  set -f
  set -- $(chosen | awk '!seen[$0]++' | head -n 1200)
  [ $# -gt 0 ] || { echo; return; }
  sizes=$(wc -c "$@" 2>/dev/null | sed -n 's/^ *\([0-9]*\) \(\.\/.*\)$/\1 \2/p')
  sums=$(digests "$@")
  left=$LIMIT
  plan=$(printf '%s\n==\n%s\n==\n%s\n' "$sizes" "$(printf '%s\n' "$asked" | sed -n 's/^H //p')" "$sums" | awk -v left="$LIMIT" '
    $0 == "==" { part++; next }
    part == 0 { size[substr($0, index($0, " ") + 1)] = $1 }
    part == 1 { known[$1] = 1 }
    part == 2 {
      at = index($0, "  "); sum = substr($0, 1, at - 1); name = substr($0, at + 2)
      if (substr(name, 1, 2) != "./" || !(name in size)) next
      sent = 1
      if (substr(sum, 1, 16) in known) sent = 0
      else if (size[name] > 4194304) sent = "big"
      else if (size[name] > left) sent = "over"
      else left -= size[name]
      print "F " sum " " size[name] " " sent " " substr(name, 3)
    }')
  printf '%s\n\n' "$plan"
  set --
  for line in $plan; do
    line=${line#F * * }
    case $line in '1 '*) set -- "$@" "./${line#1 }" ;; esac
  done
  [ $# -eq 0 ] || cat "$@" 2>/dev/null
}
if [ -n "$ROOT" ]; then # an absolute link in there would lead back into the host's own files
  rest=${PACKAGE#"$ROOT"} way=$ROOT
  while [ -n "$rest" ]; do
    rest=${rest#/}
    way=$way/${rest%%/*}
    case $rest in */*) rest=/${rest#*/} ;; *) rest= ;; esac
    [ ! -L "$way" ] || { printf '%s link %s\n' "$MARK" "$way"; exit 0; }
  done
fi
cd "$PACKAGE" 2>/dev/null || { printf '%s closed %s\n' "$MARK" "$PACKAGE"; exit 0; }
if command -v gzip >/dev/null 2>&1; then
  printf '%s files gzip\n' "$MARK"
  frames | gzip -c
else
  printf '%s files plain\n' "$MARK"
  frames
fi
