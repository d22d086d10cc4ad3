# Say what a host itself tells of its past: when unit files, packages and services changed. Reads only, writes nothing.
# Argument 1: seconds since 1970 from when on; then words UNIT=NAME, FILE=PATH, PACKAGE=FOLDER.
LC_ALL=C
export LC_ALL
since=$1
shift
for word in "$@"; do
  case $word in
    FILE=*) stat -c 'file %y %n' "${word#FILE=}" 2>/dev/null || echo "unread ${word#FILE=}" ;;
    PACKAGE=*)
      root=${word#PACKAGE=}
      for d in "${root%/*}/${root##*/}"-*.dist-info; do
        if [ -d "$d" ]; then stat -c 'package %y %n' "$d"; fi
      done ;;
    UNIT=*)
      said=$(journalctl -u "${word#UNIT=}" --since "@$since" -o short-iso --no-pager 2>&1) || true
      case $said in
        *'not seeing messages from other users'* | *ermission*denied*) echo "unread journal of ${word#UNIT=}" ;;
      esac
      printf '%s\n' "$said" | grep -E ' systemd(\[1\])?: ' | tail -n 40 | sed 's/^/journal /' ;;
  esac
done
for log in /var/log/dpkg.log /var/log/dpkg.log.1; do
  [ -e "$log" ] || continue
  if [ -r "$log" ]; then grep -E ' (install|upgrade|remove) ' "$log" | tail -n 60 | sed 's/^/dpkg /'
  else echo "unread $log"; fi
done
echo end
