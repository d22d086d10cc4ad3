# Find, or make, the folder of one change on a host, and call its program there.
# Arguments: VERB ID SIZE [ARGUMENT...]; begin and recover read the program, of SIZE bytes, from standard input.
# Sent along by transaction.py, or installed beside transaction.sh for deploy/leadline-svc. POSIX sh.
umask 077
base=/run/leadline
mkdir -p "$base" 2>/dev/null
if ! [ -O "$base" ] || ! [ -w "$base" ]; then
    base=${HOME:-/nonexistent}/.local/state/leadline
    mkdir -p "$base" || { echo "refused: no folder for the state of changes can be made"; exit 3; }
fi
verb=$1 id=$2 size=$3 dir=$base/$2
shift 3
dropin() { for found in /etc/systemd/system/*.d/90-leadline-"$1".conf; do [ ! -e "$found" ] || echo "$found"; done; }
state() { cat "$1/state" 2>/dev/null || { [ -e "$1/given_up" ] && echo given_up || echo none; }; }
expires() { sed -n 's/^expires=\([0-9]*\)$/\1/p' "$1/transaction.sh" 2>/dev/null | head -n 1; }
refuse() { echo "refused: $1"; exit 3; }
over() { case $(state "$base/$1") in rolled_back | confirmed | failed | given_up) ;; none) died "$1" ;; *) return 1 ;; esac; }
# Whether the call that was to begin a plan is gone, with nothing changed yet.
died() { starter=$(cat "$base/$1/starter" 2>/dev/null) && [ -n "$starter" ] && ! grep -q -a -F -- "$1" "/proc/$starter/cmdline" 2>/dev/null; }

# One session at a time changes this host. `leases` has a line for each session that was let in, TOKEN PLAN, with the
# token rising by one; the last one is in force until its time is up (by a clock that nobody sets) or its change is over.
# A plan whose token is not the last one any more may not begin: somebody else was let in since it was made.
lease() {
    have=$(tail -n 1 "$base/leases" 2>/dev/null) boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
    token=${have%% *} owner=${have#* } until=0
    read -r until until_boot 2>/dev/null <"$base/leases.until"
    [ "${until_boot:-}" = "$boot" ] || until=0
    read -r up _ </proc/uptime
    up=${up%%.*}
    [ "$2" != 0 ] || [ "$owner" = "$1" ] || return 0
    if [ "$owner" != "$1" ]; then
        mine=$(grep -- " $1\$" "$base/leases" 2>/dev/null | tail -n 1)
        [ -z "$mine" ] || refuse "another session was let in to change this host since: token ${mine%% *} of this plan is older than $token; make a new plan"
        for one in "$base"/unit-*.owner; do
            open=$(cat "$one" 2>/dev/null)
            case $(state "$base/$open") in
            armed | restarting | applied | rolling_back)
                one=${one##*/unit-}
                [ -z "$open" ] || refuse "transaction $open on ${one%.owner} is open; confirm it or roll it back first" ;;
            esac
        done
        [ "$up" -ge "$until" ] || over "$owner" ||
            refuse "another session, with plan $owner, is changing this host; its lease lasts $((until - up)) s more"
        token=$((${token:-0} + 1))
        printf '%s %s\n' "$token" "$1" >>"$base/leases"
    fi
    echo "$((up + ${2%%.*})) $boot" >"$base/leases.until.new" && mv -f "$base/leases.until.new" "$base/leases.until"
}
leased() {
    if command -v flock >/dev/null 2>&1; then
        exec 7>"$base/leases.lock"
        flock -w 20 7 || refuse "another session is being let in to change this host"
    fi
    lease "$@"
    exec 7>&-
}
case $verb in
lease)
    leased "$id" "$1"
    echo "token=$token"
    exit 0 ;;
release)
    leased "$id" 0
    exit 0 ;;
left) # list what lies here: ID STATE EXPIRES
    for one in "$base"/*/; do
        [ ! -d "$one" ] || echo "$(basename "$one") $(state "${one%/}") $(expires "${one%/}")"
    done
    exit 0 ;;
forget) # remove a folder whose change is over and can't be begun again
    case $(state "$dir") in rolled_back | confirmed | given_up) ;; *) echo "refused: $id is not over"; exit 3 ;; esac
    [ -z "$(dropin "$id")" ] || { echo "refused: $id is kept: $(dropin "$id") stands"; exit 3; }
    until=$(expires "$dir")
    [ "${until:-0}" -le "$(date +%s)" ] || { echo "refused: the plan $id has not expired, so its folder still guards it"; exit 3; }
    rm -rf "$dir"
    echo forgotten
    exit 0 ;;
esac
case $verb in
begin | recover)
    [ "$verb" = recover ] || [ -e "$dir" ] || leased "$id" 300
    mkdir "$dir" 2>/dev/null || { echo "refused: plan $id was applied before, or given up"; exit 3; }
    echo $$ >"$dir/starter"
    new=$dir/transaction.new
    cat >"$new"
    if [ "$(wc -c <"$new")" -ne "$size" ] || ! mv "$new" "$dir/transaction.sh"; then
        rm -rf "$dir"
        echo "refused: the program did not arrive whole"
        exit 3
    fi ;;
*)
    if [ ! -e "$dir/transaction.sh" ]; then
        for left in /etc/systemd/system/*.d/90-leadline-"$id".conf; do
            [ ! -e "${left%.conf}.pending" ] || { echo state=left; exit 0; }
            [ ! -e "$left" ] || { echo state=kept; exit 0; }
        done
        for left in /etc/systemd/system/*.d/90-leadline-*.undo-"$id"; do
            [ ! -e "$left" ] || { echo state=left; exit 0; }
        done
        # Where this folder stands, a call that is still on its way begins nothing.
        [ "$verb" != withdraw ] || { mkdir "$dir" && : >"$dir/given_up"; } 2>/dev/null
        starter=$(cat "$dir/starter" 2>/dev/null)
        if [ ! -e "$dir" ] || [ -e "$dir/given_up" ]; then echo state=none
        elif [ -z "$starter" ]; then echo state=preparing
        elif grep -q -a -F -- "$id" "/proc/$starter/cmdline" 2>/dev/null; then echo state=preparing
        else echo state=none; fi
        exit 0
    fi
    [ "$verb" != withdraw ] || verb=status ;;
esac
exec sh "$dir/transaction.sh" "$verb" "$@"
