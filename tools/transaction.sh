# One change to one systemd unit, as a transaction: armed, applied, then confirmed or rolled back.
#
# Sent along by service.py with a header that sets: plan_id unit port digest plan_json preimage dropin
# dropin_text rollback_after readiness restarts_needed expires undoes. Kept in its own folder, which holds all
# state: the timer, the worker and every later call run this same file. POSIX sh; needs systemctl, systemd-run,
# flock. Where undoes names an earlier plan, the change is to take that plan's drop-in away: it lies beside its
# place, under a name that systemd does not read, until the change is confirmed.
#
# Fault points, in order; death or a lost link right there leaves the host so:
#   saved       old state, nothing armed, nothing touched
#   written     old state; a .tmp beside the drop-ins, which systemd does not read
#   armed       old state; the timer will find nothing to restore
#   touched     old state; the timer removes what there is
#   renamed     old processes, new text on disk; the timer restores
#   reloaded    old processes, new text loaded; the timer restores
#   restarted   new processes, not verified; the timer restores
#   ready       new processes, verified, not yet noted; the timer restores
#   applied     new state, verified; the timer restores unless confirmed
#   restoring   text still new; the timer, or the next call of rollback, goes on
#   removed     text old, processes new; the timer, or the next call of rollback, goes on
#   undone      text and processes old, not yet verified; the timer, or the next call of rollback, goes on
#   confirmed   new state kept; a timer that fires now sees that and does nothing
set -u
umask 077
LC_ALL=C
PATH=${PATH:-/usr/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
unset http_proxy HTTP_PROXY https_proxy all_proxy ALL_PROXY
dir=$(dirname "$0")
base=$(dirname "$dir")
folder=$(dirname "$dropin")
pending=${dropin%.conf}.pending # lies beside a change that nobody confirmed yet; outlives a restart of the host
aside=${dropin%.conf}.undo-$plan_id # what was taken away, and is put back unless that is confirmed; outlives it too
calm=/run/systemd/system/$unit.d/zz-leadline-$plan_id.conf # while a start is not verified: systemd tries it once
fatal='Scheduler hit an exception|Received sigquit from a child process|EngineDeadError|Segmentation fault|CUDA error|out of memory|Address already in use'
budget=6
window=1800

point() { printf '%s\n' "$1" >"$dir/point"; }
# Seconds that no setting of the clock moves.
now() { read -r up _ </proc/uptime && echo "${up%%.*}"; }
holds() { [ "$(cat "$1" 2>/dev/null; echo .)" = "$dropin_text." ]; }
have() { command -v "$1" >/dev/null 2>&1; }
state() { cat "$dir/state" 2>/dev/null || echo preparing; }
put() { printf '%s\n' "$2" >"$dir/$1.new" && mv -f "$dir/$1.new" "$dir/$1"; }
say() { printf '%s\n' "$1" >>"$dir/progress"; }
note() { printf '%s\n' "$1" >>"$dir/notes"; }
kept() { cat "$dir/$1" 2>/dev/null; }
flush() { sync "$@" 2>/dev/null || sync; }
nap() { sleep 0.4 2>/dev/null || sleep 1; }

# Nothing was changed yet: leave nothing behind, so that the same plan may be tried again.
refuse() {
    disarm
    [ -e "$dir/touched" ] || rm -f "$dropin.tmp"
    [ -e "$dir/made_folder" ] && rmdir "$folder" 2>/dev/null
    rm -rf "$dir"
    # Nobody has to wait for a plan that came to nothing.
    [ "$(tail -n 1 "$base/leases" 2>/dev/null | cut -d ' ' -f 2)" != "$plan_id" ] || rm -f "$base/leases.until"
    printf 'refused: %s\n' "$1"
    exit 3
}

seen() {
    { systemctl cat -- "$unit" && printf 'drop-ins %s\n' "$(systemctl show -p DropInPaths --value -- "$unit")"; } \
        2>/dev/null | sha256sum | cut -d ' ' -f 1
}

look() {
    shown=$(systemctl show -p ActiveState,SubState,InvocationID,NRestarts,Result,ExecMainStatus -- "$unit" 2>/dev/null)
    active=$(field ActiveState) sub=$(field SubState) invocation=$(field InvocationID)
    restarts=$(field NRestarts) result=$(field Result) code=$(field ExecMainStatus)
}
field() { printf '%s\n' "$shown" | sed -n "s/^$1=//p"; }

healthy() {
    case $(http_code /health) in
    2??) return 0 ;;
    404) case $(http_code /v1/models) in 2??) return 0 ;; esac ;; # Ollama has no /health
    esac
    return 1
}
steadily_healthy() { healthy || { nap && healthy; } || { nap && healthy; }; }
http_code() {
    if have curl; then
        curl -s -m 5 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port$1"
    else
        wget -q -S -T 5 -O /dev/null "http://127.0.0.1:$port$1" 2>&1 | sed -n 's/^ *HTTP[^ ]* \([0-9]*\).*/\1/p' | tail -n 1
    fi 2>/dev/null
}

# Ask for a few tokens; print the status code, 000 when there was no answer.
smoke() {
    model=$(get /v1/models | grep -o '"id" *: *"[^"]*"' | head -n 1 | sed 's/^"id" *: *//')
    body="{\"model\": ${model:-\"default\"}, \"prompt\": \"1, 2, 3,\", \"max_tokens\": 2, \"temperature\": 0}"
    url=http://127.0.0.1:$port/v1/completions
    if have curl; then
        curl -s -m "$1" -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d "$body" "$url"
    elif wget -q -T "$1" -O /dev/null --header 'Content-Type: application/json' --post-data "$body" "$url"; then
        printf 200
    else
        printf 000
    fi 2>/dev/null
}
get() { if have curl; then curl -fs -m 5 "http://127.0.0.1:$port$1"; else wget -q -T 5 -O - "http://127.0.0.1:$port$1"; fi 2>/dev/null; }

cursor() { journalctl -n 1 -q -o cat --no-pager --show-cursor 2>/dev/null | sed -n 's/^-- cursor: //p'; }
since() { journalctl -u "$unit" --after-cursor="$1" -q -o cat --no-pager 2>/dev/null; }
# The last thing the unit itself said, not systemd about it.
last_words() {
    since "$(kept cursor)" | grep -a -v -E "^($unit: |Started |Starting |Stopped |Stopping |Failed to start )" | tail -n 1
}

arm() {
    count=$(($(kept count || echo 0) + 1))
    # Counted first: a name that a call which died has used is never tried again.
    put count "$count" || return 1
    timer=leadline-rollback-$plan_id-$count
    old=$(kept timer)
    systemd-run --quiet --collect --on-active="$1" --timer-property=AccuracySec=200ms --unit="$timer" \
        sh "$dir/transaction.sh" rollback timer >"$dir/arm.log" 2>&1 || return 1
    put timer "$timer"
    put rollback_at "$(($(date +%s) + ${1%%.*}))"
    [ -z "$old" ] || systemctl stop "$old.timer" >/dev/null 2>&1
    return 0
}
disarm() {
    timer=$(kept timer) || return 0
    systemctl stop "$timer.timer" >/dev/null 2>&1
    rm -f "$dir/timer" "$dir/rollback_at"
}
armed() { timer=$(kept timer) && systemctl is-active --quiet "$timer.timer"; }

release() { [ "$(cat "$base/unit-$unit.owner" 2>/dev/null)" != "$plan_id" ] || rm -f "$base/unit-$unit.owner"; }
hold() {
    exec 8>"$dir/lock"
    flock -w 600 8
}
let_go() { exec 8>&-; }

# --- before anything changes ------------------------------------------------------------------------------

begin() {
    printf '%s' "$plan_json" >"$dir/plan.json"
    [ "$(sha256sum <"$dir/plan.json" | cut -d ' ' -f 1)" = "$digest" ] || refuse "the plan is not the approved one"
    [ "$(date +%s)" -lt "$expires" ] ||
        refuse "the plan has expired by this host's clock ($(date -u +%FT%TZ)); make a new one, which reads that clock again"
    for program in systemctl systemd-run journalctl flock sha256sum; do
        have "$program" || refuse "$program is missing on this host"
    done
    have curl || have wget || refuse "neither curl nor wget is on this host, so readiness cannot be checked"
    exec 9>"$base/unit-$unit.lock"
    flock -n 9 || refuse "another transaction on $unit is starting"
    owner=$(cat "$base/unit-$unit.owner" 2>/dev/null)
    case $(cat "$base/$owner/state" 2>/dev/null) in
    armed | restarting | applied | rolling_back)
        [ -z "$owner" ] || refuse "transaction $owner on $unit is open; confirm it or roll it back first" ;;
    esac
    within_budget
    [ "$(seen)" = "$preimage" ] || refuse "$unit is not what the plan was made from; make a new plan"
    [ "$(systemctl show -p NeedDaemonReload --value -- "$unit")" != yes ] ||
        refuse "$unit was edited and not reloaded; that edit would come into force with this change"
    if [ -z "$undoes" ]; then
        [ ! -e "$dropin" ] || refuse "$dropin exists already"
    else
        holds "$dropin" || refuse "$dropin does not hold any more what was written there"
    fi
    save
    write
    verify
    arm "$rollback_after" || refuse "the rollback timer could not be armed: $(head -n 1 "$dir/arm.log")"
    printf '%s\n' "$plan_id" >"$base/unit-$unit.owner"
    put state armed || refuse "$dir cannot be written"
    say "rollback timer armed: ${rollback_after} s"
    point armed
    systemd-run --quiet --collect --unit="leadline-change-$plan_id" sh "$dir/transaction.sh" work >"$dir/work.log" 2>&1 9>&- || {
        release
        refuse "the change could not be started: $(head -n 1 "$dir/work.log")"
    }
    echo armed
}

within_budget() {
    oldest=$(($(now) - window)) used=0
    if [ -e "$base/unit-$unit.starts" ]; then
        used=$(awk -v oldest="$oldest" -v now="$((oldest + window))" \
            '$1 >= oldest && $1 <= now { n++ } END { print n + 0 }' "$base/unit-$unit.starts")
    fi
    [ $((used + restarts_needed)) -le "$budget" ] ||
        refuse "restart budget of $unit: $used of $budget in 30 minutes are used and this plan may need $restarts_needed"
}

save() {
    mkdir -p "$dir/before"
    systemctl cat -- "$unit" >"$dir/before/cat" 2>/dev/null
    systemctl show -p MainPID,NRestarts,InvocationID,DropInPaths -- "$unit" >"$dir/before/properties"
    healthy && echo yes >"$dir/before/healthy" || echo no >"$dir/before/healthy"
    smoke 60 >"$dir/before/smoke"
    [ "$(kept before/smoke)" = 200 ] ||
        note "a request for a completion answered $(kept before/smoke) before the change already, so it decides nothing"
    cursor >"$dir/before/cursor"
    point saved
}

write() {
    if [ -n "$undoes" ]; then
        point written
        return
    fi
    if [ ! -d "$folder" ]; then
        (umask 022 && mkdir "$folder") 2>"$dir/write.log" || refuse "$(head -n 1 "$dir/write.log")"
        : >"$dir/made_folder"
    fi
    (umask 022 && printf '%s' "$dropin_text" | cat >"$dropin.tmp") 2>"$dir/write.log" ||
        refuse "$dropin cannot be written: $(head -n 1 "$dir/write.log")"
    flush "$dropin.tmp"
    point written
}

# systemd only warns of a mistyped key, so any line that the unit did not cause before fails.
verify() {
    [ -z "$undoes" ] || return 0 # the text that is left was in force before
    have systemd-analyze || {
        note "systemd-analyze is missing: the text was not verified"
        return 0
    }
    mkdir -p "$dir/verify/$unit.d"
    cp "$(systemctl show -p FragmentPath --value -- "$unit")" "$dir/verify/$unit" || refuse "$unit cannot be copied"
    systemd-analyze verify --man=no "$dir/verify/$unit" >"$dir/verify.old" 2>&1
    before=$?
    cp "$dropin.tmp" "$dir/verify/$unit.d/$(basename "$dropin")"
    systemd-analyze verify --man=no "$dir/verify/$unit" >"$dir/verify.new" 2>&1
    after=$?
    problem=$(grep -v -x -F -f "$dir/verify.old" "$dir/verify.new" | head -n 1)
    [ -z "$problem" ] || refuse "systemd-analyze verify: $problem"
    [ "$after" -eq 0 ] || [ "$before" -ne 0 ] || refuse "systemd-analyze verify fails with $after"
}

# --- the change -------------------------------------------------------------------------------------------

work() {
    put worker $$
    hold
    [ "$(state)" = armed ] || exit 0
    [ "$(seen)" = "$preimage" ] || {
        undo readiness "$unit was changed by somebody else just now"
        exit 0
    }
    : >"$dir/touched"
    point touched
    [ -n "$undoes" ] || (umask 022 && : >"$pending")
    exchange 2>"$dir/exchange.log" || {
        undo readiness "$dropin cannot be changed: $(head -n 1 "$dir/exchange.log")"
        exit 0
    }
    flush "$folder"
    start_once
    point renamed
    systemctl daemon-reload 2>"$dir/reload.log" || {
        undo readiness "daemon-reload failed: $(head -n 1 "$dir/reload.log")"
        exit 0
    }
    point reloaded
    put state restarting
    start_again
    let_go
    if ready $(($(now) + ${readiness%%.*})) work; then
        point ready
        hold
        [ "$(state)" = restarting ] || exit 0
        start_freely
        systemctl daemon-reload 2>"$dir/reload.log" || {
            undo readiness "daemon-reload failed: $(head -n 1 "$dir/reload.log")"
            exit 0
        }
        # The time to measure starts now.
        arm "$rollback_after" || {
            undo readiness "the rollback timer could not be armed again"
            exit 0
        }
        put invocation "$new"
        put text "$(seen)"
        put state applied
        say "ready: healthy and answering"
        point applied
    elif [ "$why" != overtaken ]; then
        hold
        [ "$(state)" = restarting ] && undo readiness "$why"
    fi
}

exchange() { if [ -n "$undoes" ]; then mv -f "$dropin" "$aside"; else mv -f "$dropin.tmp" "$dropin"; fi; }
give_back() {
    if [ -n "$undoes" ]; then
        [ ! -e "$aside" ] || mv -f "$aside" "$dropin"
        rm -f "$pending"
    else
        rm -f "$dropin" "$pending"
    fi
}

# A new state that ends at once would be started over and over, each time with a model to load.
start_once() {
    mkdir -p "$(dirname "$calm")" 2>/dev/null && printf '[Service]\nRestart=no\n' 2>/dev/null >"$calm" ||
        note "systemd may start a state that ends more than once: $calm cannot be written"
}
start_freely() {
    rm -f "$calm"
    rmdir "$(dirname "$calm")" 2>/dev/null
}

start_again() {
    look
    put stopped "$invocation"
    put cursor "$(cursor)"
    : >"$dir/restarted"
    now >>"$base/unit-$unit.starts"
    say "restarting $unit"
    systemctl --no-block restart -- "$unit" >"$dir/restart.log" 2>&1
    point restarted
}

# Wait until the unit runs anew and answers; else say why not in $why. It may start once only.
ready() {
    limit=$1 new='' still=0 next=0 good=0 stopped=$(kept stopped) began=$(now)
    while :; do
        [ "$2" != work ] || [ "$(state)" = restarting ] || { why=overtaken; return 1; }
        look
        if [ "$invocation" = "$stopped" ]; then
            case $active in failed | inactive) still=$((still + 1)) ;; *) still=0 ;; esac
            [ "$still" -lt 12 ] || { why="$unit does not start: $result $(head -n 1 "$dir/restart.log")"; return 1; }
        elif [ -n "$invocation" ]; then
            steady || return 1
            # One good answer may be chance: a server whose health comes and goes is not ready.
            if answering; then good=$((good + 1)); else good=0; fi
            [ "$good" -lt 3 ] || return 0
            [ -z "$why" ] || return 1
        fi
        passed=$(($(now) - began))
        if [ "$(now)" -ge "$limit" ]; then
            why="$unit is not ready after $passed s"
            return 1
        fi
        if [ "$passed" -ge "$next" ]; then
            say "waiting for readiness: $passed s of $((limit - began)) s, $active"
            next=$((passed + 5))
        fi
        nap
    done
}

steady() {
    if [ "$active" = failed ] || [ "$sub" = auto-restart ] || [ "$active" = inactive ]; then
        why="$unit ended with status ${code:-?} ($result): $(last_words)"
    elif [ "${restarts:-0}" != 0 ] || [ "${new:-$invocation}" != "$invocation" ]; then
        why="$unit was started again by systemd: it ended: $(last_words)"
    elif found=$(since "$(kept cursor)" | grep -a -E -m 1 -- "$fatal"); then
        why="$unit logged: $found"
    else
        new=$invocation
        return 0
    fi
    return 1
}

answering() {
    why=''
    if [ "$active" != active ]; then return 1; fi
    [ "$(kept before/healthy)" = yes ] || [ "$do" = work ] || return 0
    healthy || return 1
    [ "$good" = 0 ] || return 0 # asked for a completion once already
    [ "$(kept before/smoke)" = 200 ] || return 0
    answer=$(smoke 60)
    case $answer in
    200) return 0 ;;
    000 | 503) ;;
    *) why="$unit is healthy but answers $answer to a request for a completion" ;;
    esac
    return 1
}

# --- its end ----------------------------------------------------------------------------------------------

# Restore; the lock is held. Every step may be done again, so whoever comes next goes on from here.
undo() {
    do=undo
    [ -n "$(kept reason)" ] || { put by "$1"; put reason "$2"; }
    put worker $$
    put state rolling_back
    say "rolling back: $2"
    [ "$1" = request ] || [ -e "$dir/lines" ] || since "$(kept cursor)" | tail -n 40 >"$dir/lines"
    point restoring
    rm -f "$dropin.tmp"
    why=''
    start_freely
    if [ -e "$dir/touched" ]; then
        give_back
        [ ! -e "$dir/made_folder" ] || rmdir "$folder" 2>/dev/null
        flush "$(dirname "$folder")"
        point removed
        reload_for_sure || why="daemon-reload failed: $(head -n 1 "$dir/reload.log")"
        if [ -n "$why" ] && [ ! -e "$dir/restarted" ] && unmoved; then
            note "daemon-reload failed here, but the old text was never replaced in systemd: $why"
            why=''
        fi
        if [ -n "$why" ]; then
            why="$why; the old text is in its place, and systemd has not read it: roll back again once it can"
        elif [ -e "$dir/restarted" ]; then
            # A unit that failed too often is refused its start until this counter is reset.
            systemctl reset-failed -- "$unit" >/dev/null 2>&1
            start_again
            point undone
            ready $(($(now) + ${readiness%%.*})) undo || :
        fi
    elif [ -e "$dir/made_folder" ]; then
        rmdir "$folder" 2>/dev/null
    fi
    [ -n "$why" ] || [ "$(seen)" = "$preimage" ] || why="$unit is not as it was: somebody else changed it meanwhile"
    disarm
    release
    if [ -n "$why" ]; then
        put failure "$why"
        say "the old state does not run: $why"
        put state failed
    else
        say "rolled back: the old state runs"
        put state rolled_back
    fi
}

reload_for_sure() { for try in 1 2 3; do systemctl daemon-reload 2>"$dir/reload.log" && return 0; sleep 1; done; return 1; }
# Whether systemd holds the old text, though it did not read it anew.
unmoved() { [ "$(seen)" = "$preimage" ] && [ "$(systemctl show -p NeedDaemonReload --value -- "$unit")" != yes ]; }

rollback() {
    hold || [ "$1" = timer ] || exit 1 # who keeps the lock for ever does not keep the timer from its work
    case $(state) in
    rolled_back | confirmed) ;;
    *)
        if [ "$1" = timer ] && [ "$(state)" = restarting ]; then
            undo timer "$unit was not ready before the rollback timer fired"
        elif [ "$1" = timer ]; then
            undo timer "nobody confirmed the change before the rollback timer fired"
        else
            undo request "asked for"
        fi
        ;;
    esac
    let_go # before a caller that reads slowly, or not at all, is written to
    status
}

# A host that restarted has lost timer and state, but not the drop-in.
recover() {
    [ -e "$pending" ] || [ -e "$aside" ] || refuse "no change of this plan is left here to take back"
    printf '%s' "$plan_json" >"$dir/plan.json"
    place=$dropin
    [ -z "$undoes" ] || place=$aside
    if [ -e "$place" ]; then
        holds "$place" || refuse "$place is not this plan's text any more"
        : >"$dir/touched"
        : >"$dir/restarted"
        mkdir -p "$dir/before"
        echo no >"$dir/before/healthy"
        [ -n "$undoes" ] || : >"$dir/made_folder"
    fi
    rollback request
}

# Roll back apart from the caller, whose link may break.
order() {
    [ "$(state)" != rolled_back ] && [ "$(state)" != confirmed ] || { status; return; }
    number=$(($(kept orders || echo 0) + 1))
    [ "$number" -le "$budget" ] || {
        echo "refused: $budget ways back of this plan were tried; a person has to look at $unit"
        exit 3
    }
    put orders "$number"
    systemd-run --quiet --collect --unit="leadline-undo-$plan_id-$number" \
        sh "$dir/transaction.sh" rollback request >"$dir/order.log" 2>&1 || {
        echo "refused: the rollback could not be started: $(head -n 1 "$dir/order.log")"
        exit 3
    }
    echo "ordered"
}

confirm() {
    hold || exit 1
    case $(state) in
    applied)
        look
        [ "$active" = active ] && [ "$invocation" = "$(kept invocation)" ] || {
            echo "refused: $unit is not the process that was verified any more; roll back"
            exit 3
        }
        if [ -n "$undoes" ]; then [ ! -e "$dropin" ] && holds "$aside"; else holds "$dropin"; fi || {
            echo "refused: $dropin does not hold what was applied any more; roll back"
            exit 3
        }
        [ "$(kept before/healthy)" != yes ] || steadily_healthy || {
            echo "refused: $unit does not answer as healthy any more; roll back"
            exit 3
        }
        [ "$(seen)" = "$(kept text)" ] ||
            note "somebody else changed the text of $unit meanwhile; that was not measured and is not in force yet"
        put state confirmed || {
            echo "refused: the decision could not be written to $dir; roll back"
            exit 3
        }
        point confirmed
        settle
        release
        say "confirmed: the change stays"
        ;;
    confirmed) settle ;;
    esac
    let_go
    status
}

# The decision is written: leave nothing that could bring the other state back.
settle() {
    rm -f "$pending" "$aside"
    [ -z "$undoes" ] || rmdir "$folder" 2>/dev/null
    disarm
}

extend() {
    hold || exit 1
    case $(state) in
    applied)
        arm "$1" || {
            echo "refused: the timer could not be set: $(head -n 1 "$dir/arm.log")"
            exit 3
        }
        ;;
    esac
    let_go
    status
}

# Whether the call that prepares the change still runs: what is to come may not be taken for nothing.
starting() { grep -q -a -F -- "$plan_id" "/proc/$(kept starter)/cmdline" 2>/dev/null; }

status() {
    worker=none
    if [ "$(state)" = preparing ] && ! starting && [ "$(state)" = preparing ]; then
        echo state=none
        return
    fi
    if [ -e "$dir/worker" ]; then
        worker=gone
        kill -0 "$(kept worker)" 2>/dev/null && worker=alive
    fi
    armed && timer_is=armed || timer_is=none
    printf 'state=%s\nworker=%s\ntimer=%s\n' "$(state)" "$worker" "$timer_is"
    for name in by reason failure rollback_at point; do
        printf '%s=%s\n' "$name" "$(kept $name | head -n 1)"
    done
    for name in progress notes lines; do
        kept $name | sed "s/^/$name: /"
    done
}

do=$1
shift
case $do in
begin | work | rollback | order | recover | confirm | extend | status) "$do" "$@" ;;
*) exit 2 ;;
esac
