"""Talk to the transaction program on a host: send it, call it, and read what it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal, cast

from tools.contract import Host, Result, ToolError
from tools.display import printable
from tools.redact import redact
from tools.service_types import ChangePlan, ChangeState, ChangeStatus

Verb = Literal["begin", "order", "recover", "confirm", "extend", "status", "withdraw"]
REFUSED = 3
"""Exit code of the program when it did nothing; its last line says why."""

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_STATES: dict[str, ChangeState] = {
    "preparing": "armed",
    "armed": "armed",
    "restarting": "armed",
    "rolling_back": "armed",
    "applied": "applied",
    "confirmed": "confirmed",
    "rolled_back": "rolled_back",
    "failed": "failed",
    "none": "none",
    "left": "unknown",
    "kept": "confirmed",
}
_DETAILS = {
    "preparing": "the change is being prepared",
    "armed": "armed; about to change",
    "restarting": "changed; waiting for readiness",
    "rolling_back": "rolling back",
    "applied": "the new state runs and answers; the rollback timer is armed",
    "confirmed": "the new state is kept",
    "rolled_back": "the old state is back and runs",
    "failed": "the old state was restored but does not run",
    "none": "this host knows nothing of the plan",
    "kept": "the new state is kept; this host was restarted since",
    "left": "this host was restarted meanwhile: the change is there, without a timer; roll it back",
}
_LISTS = ("progress", "notes", "lines")

_ENTER = """
if [ "$(id -u)" = 0 ] || [ -w /etc/systemd/system ]; then exec sh -c "$@"; fi
if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then exec sudo -n sh -c "$@"; fi
echo "refused: this account may not change units: log in as root, or allow it sudo without a password"
exit 3
"""
_FIND = """
umask 077
base=/run/leadline
mkdir -p "$base" 2>/dev/null
if ! [ -O "$base" ] || ! [ -w "$base" ]; then
    base=${HOME:-/nonexistent}/.local/state/leadline
    mkdir -p "$base" || { echo "refused: no folder for the state of changes can be made"; exit 3; }
fi
verb=$1 id=$2 size=$3 dir=$base/$2
shift 3
case $verb in
begin | recover)
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
"""


@cache
def body() -> str:
    """Return the program without its header."""
    return (Path(__file__).parent / "transaction.sh").read_text()


def program(plan: ChangePlan) -> bytes:
    """Return the program for one plan, as it is sent along."""
    values = {
        "plan_id": plan.id,
        "unit": plan.unit,
        "port": str(plan.port),
        "digest": plan.digest(),
        "plan_json": plan.canonical().decode(),
        "preimage": plan.preimage_sha256,
        "dropin": plan.dropin_path,
        "dropin_text": plan.dropin_text,
        "rollback_after": f"{plan.rollback_after_s:g}",
        "readiness": f"{plan.readiness_s:g}",
        "restarts_needed": str(plan.restarts_needed),
        "expires": str(int(plan.expires_at.timestamp())),
    }
    header = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    return f"{header}{body()}".encode()


async def call(
    host: Host,
    verb: Verb,
    plan_id: str,
    args: Sequence[str] = (),
    *,
    sent: bytes = b"",
    timeout_s: float = 60.0,
) -> Result:
    """Call the program; raise `ToolError` when it, or the account's rights, refuse."""
    if not _ID.fullmatch(plan_id):
        raise ToolError(f"not the id of a plan: {plan_id!r}")
    inner = ["leadline", verb, plan_id, str(len(sent)), *args]
    result = await host.exec(
        ["sh", "-c", _ENTER, "leadline", _FIND, *inner],
        timeout_s=timeout_s,
        stdin=sent or None,
        retry=verb in ("status", "withdraw"),
    )
    if result.outcome == "exited" and result.exit_code == REFUSED:
        said = result.stdout.data.decode(errors="replace").strip().splitlines()
        refusal = next(
            (line for line in reversed(said) if line.startswith("refused: ")), "refused: no reason given"
        )
        raise ToolError(printable(refusal.removeprefix("refused: ")))
    return result


def no_answer(result: Result) -> ChangeStatus:
    """Return the status that a call without a usable answer leaves."""
    error = result.stderr.data.decode(errors="replace").strip().splitlines()
    why = result.detail or (error[-1] if error else f"{result.outcome} {result.exit_code}")
    return ChangeStatus(state="unknown", detail=f"the host gave no answer: {printable(why)}")


def is_preparing(found: ChangeStatus) -> bool:
    """Tell whether the call that begins a change still checks and writes, with nothing armed yet."""
    return found.detail == _DETAILS["preparing"]


def parse(output: bytes) -> tuple[ChangeStatus, bool]:
    """Return the status that the program printed, and whether its worker is gone before its end."""
    values: dict[str, str] = {}
    lists: dict[str, list[str]] = {name: [] for name in _LISTS}
    for line in redact(output).decode(errors="replace").splitlines():
        name, separator, text = line.partition(": ")
        if separator and name in lists:
            lists[name].append(printable(text))
            continue
        name, _, text = line.partition("=")
        values.setdefault(name, text)
    raw = values.get("state", "")
    state, detail = _STATES.get(raw, "unknown"), _DETAILS.get(raw, "the host's answer makes no sense")
    gone = raw in ("armed", "restarting", "rolling_back") and values.get("worker") == "gone"
    if gone and values.get("timer") != "armed":
        state, detail = "unknown", f"{detail}, but the program has ended and no timer is armed; roll back"
    reason = values.get("reason", "")
    if raw == "rolled_back" and reason:
        detail = f"{detail}: {printable(reason)}"
    if raw == "failed":
        detail = f"{detail}: {printable(values.get('failure', ''))}"
        reason = f"{reason}; then: {values.get('failure', '')}"
    by = values.get("by", "")
    at = values.get("rollback_at", "")
    status = ChangeStatus(
        state=state,
        detail=detail,
        reason=printable(reason),
        rolled_back_by=cast(Literal["readiness", "timer", "request"], by)
        if by in ("readiness", "timer", "request")
        else "",
        rollback_at=datetime.fromtimestamp(int(at), UTC) if at.isdigit() else None,
        **lists,
    )
    return status, gone
