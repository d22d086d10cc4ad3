# List, or remove, what was left on this host: POSIX sh.
# Arguments: list, or remove and the KIND NAME pairs to remove; the helper comes first.
# Output lines: `KIND STATE NAME`; STATE is over (may go), open (still needed), kept (a change that stays).
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
svc=$1 entry=$2 do=$3
shift 3
has() { command -v "$1" >/dev/null 2>&1; }
say() { printf '%s %s %s\n' "$1" "$2" "$3"; }
private=${XDG_RUNTIME_DIR:-/tmp}/leadline-$(id -u)

# States of changes: root's own, those that the helper tells, or an account's own.
changes() {
    if [ "$(id -u)" = 0 ]; then sh -c "$entry" leadline "$@"
    elif [ -x "$svc" ] && has sudo; then
        verb=$1 id=$2
        if [ "$verb" = left ]; then set -- left; else set -- "$verb" "$id"; fi
        sudo -n "$svc" "$@" 2>/dev/null </dev/null ||
            { printf '%s' "$1"; shift; [ $# = 0 ] || printf '\t%s' "$@"; echo; } | sudo -n "$svc" 2>/dev/null
    elif has sudo && sudo -n true 2>/dev/null; then sudo -n sh -c "$entry" leadline "$@"
    elif [ -d "${HOME:-/nonexistent}/.local/state/leadline" ]; then sh -c "$entry" leadline "$@"
    else ! [ -d /run/leadline ]
    fi
}
state_of() { printf '%s\n' "$states" | sed -n "s/^$1 \([a-z_]*\).*/\1/p" | head -n 1; }
moving() { case $1 in preparing | armed | restarting | applied | rolling_back) return 0 ;; esac; return 1; }

list() {
    for file in "$private"/rg-*; do
        if [ -f "$file" ] && [ -O "$file" ]; then say rg over "$file"; fi
    done
    states=$(changes left - 0) || say unread - "the states of changes in /run/leadline are not permitted"
    printf '%s\n' "$states" | while read -r id state expires; do
        case $state in
        rolled_back | given_up) [ "${expires:-0}" -le "$(date +%s)" ] && say state over "$id" || say state open "$id" ;;
        confirmed)
            set -- /etc/systemd/system/*.d/90-leadline-"$id".conf
            if [ ! -e "$1" ] && [ "${expires:-0}" -le "$(date +%s)" ]; then say state over "$id"; fi ;;
        '') ;;
        *) say state open "$id" ;;
        esac
    done
    for file in /etc/systemd/system/*.d/90-leadline-*; do
        [ -e "$file" ] || continue
        name=${file##*/90-leadline-}
        id=${name%%.*}
        case $file in
        *.conf) if [ -e "${file%.conf}.pending" ]; then say drop-in open "$file"; else say drop-in kept "$file"; fi ;;
        *.pending) [ -e "${file%.pending}.conf" ] || orphan "$id" "$file" ;;
        *.undo-*) moving "$(state_of "${file##*.undo-}")" || say aside open "$file" ;;
        *) orphan "$id" "$file" ;;
        esac
    done
    if has systemctl; then
        systemctl list-units --all --plain --no-legend --no-pager 'leadline-rollback-*' 'leadline-change-*' 'leadline-undo-*' \
            2>/dev/null | while read -r unit _ active _; do
            id=$(printf %s "$unit" | sed -n 's/^leadline-[a-z]*-\([0-9]\{8\}t[0-9]\{6\}-[0-9a-f]\{6\}\).*/\1/p')
            if moving "$(state_of "$id")"; then say timer open "$unit"
            elif [ -n "$unit" ]; then say timer over "$unit"; fi
        done
    fi
    # A command whose link died belongs to process 1; one that a session still runs does not.
    for file in $(grep -lsaF LEADLINE_RUN= /proc/[0-9]*/environ 2>/dev/null); do
        pid=${file#/proc/}
        pid=${pid%/environ}
        [ "$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$pid/stat" 2>/dev/null)" = 1 ] || continue
        say process over "$pid $(tr '\0\n' '  ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c 1-80)"
    done
    say end - yes
}
orphan() { if moving "$(state_of "$1")"; then say file open "$2"; else say file over "$2"; fi; }

remove() { # KIND NAME: what the list called over; each is looked at again
    case $1 in
    rg) case $2 in "$private"/rg-*) [ -f "$2" ] && [ -O "$2" ] && rm -f "$2"; rmdir "$private" 2>/dev/null ;; esac ;;
    state) changes forget "$2" 0 ;;
    file) case $2 in /etc/systemd/system/*.d/90-leadline-*.conf) ;; /etc/systemd/system/*.d/90-leadline-*) rm -f "$2" ;; esac ;;
    timer) systemctl stop "$2" ;;
    process) kill "${2%% *}" ;;
    esac
}

if [ "$do" = list ]; then list; exit 0; fi
before=$(list)
while [ $# -ge 2 ]; do
    if printf '%s\n' "$before" | grep -qxF -- "$1 over $2"; then remove "$1" "$2" >/dev/null 2>&1; fi
    shift 2
done
list
