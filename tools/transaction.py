"""Talk to the transaction program on a host: send it, call it, and read what it says."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal, cast

from tools.contract import Host, Result, ToolError
from tools.declared import Effect, declared
from tools.display import printable
from tools.redact import redact
from tools.service_types import ChangePlan, ChangeState, ChangeStatus

Verb = Literal["begin", "order", "recover", "confirm", "extend", "status", "withdraw", "lease", "release"]
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
_EFFECTS: dict[str, Effect] = {
    "status": "read",
    "withdraw": "restore",
    "order": "restore",
    "recover": "restore",
    "left": "read",
    "release": "restore",
}
"""What the verbs do to a host, where that is not a write."""

HELPER = "/usr/local/sbin/leadline-svc"
"""The root-owned program by which an unprivileged account changes what its allow file names."""

# Arguments: the helper, what its `version` has to say, the plan's digest, then those of sh -c for an account
# that may do all itself: the program that finds the folder, a name, VERB, ID, SIZE of what is sent.
# Standard input, where SIZE is not 0: a line with the plan, of which the helper makes the program; then that.
_ENTER = """
svc=$1 version=$2 digest=$3
shift 3
plan=''
[ "$5" = 0 ] || IFS= read -r plan
if [ "$(id -u)" = 0 ] || [ -w /etc/systemd/system ]; then exec sh -c "$@"; fi
if [ -x "$svc" ] && command -v sudo >/dev/null 2>&1; then
    verb=$3 id=$4 size=$5
    shift 5
    call() { sudo -n "$svc" "$@"; }
    if ! said=$(sudo -n "$svc" version 2>/dev/null </dev/null); then
        # sudo before 1.9.10 cannot check arguments: it allows the helper alone, which reads them.
        call() { { printf '%s' "$1"; shift; printf '\\t%s' "$@"; echo; cat; } | sudo -n "$svc"; }
        said=$(echo version | sudo -n "$svc" 2>/dev/null) || {
            why=$(sudo -n "$svc" version 2>&1 </dev/null | tail -n 1)
            echo "refused: $svc is there but does not run ($why); see leadline host check HOST"
            exit 3
        }
    fi
    if [ "$verb" = begin ] && [ "$said" != "$version" ]; then
        echo "refused: $svc is another version here; install ours: leadline host setup HOST --print"
        exit 3
    fi
    if [ "$size" = 0 ]; then call "$verb" "$id" "$@" </dev/null
    else printf %s "$plan" | call "$verb" "$id" "$digest"; fi
    exit $?
fi
if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then exec sudo -n sh -c "$@"; fi
echo "refused: this account may not change units: log in as root, or see leadline host setup HOST --print"
exit 3
"""


@cache
def entry() -> str:
    """Return the program that finds the folder of a change and calls its program."""
    return Path(__file__).with_name("transaction_enter.sh").read_text()


@cache
def helper_version() -> str:
    """Return what the helper's ``version`` prints when all its parts are the ones that came with us."""
    here = Path(__file__).parent
    parts = [here / name for name in ("leadline-svc", "transaction.sh", "transaction_enter.sh")]
    return " ".join(["leadline-svc 1", *(hashlib.sha256(part.read_bytes()).hexdigest() for part in parts)])


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
        "expires": str(int(plan.expires_at.timestamp() + plan.clock_skew_s)),
        "undoes": plan.undoes or "",
    }
    header = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    return f"{header}{body()}".encode()


async def call(
    host: Host,
    verb: Verb,
    plan_id: str,
    args: Sequence[str] = (),
    *,
    plan: ChangePlan | None = None,
    sent: bytes = b"",
    timeout_s: float = 60.0,
) -> Result:
    """Call the program; raise `ToolError` when it, or the account's rights, refuse.

    With the helper on the host, ``plan`` is what it makes its own program of; ``sent`` is for the other ways.
    """
    if not _ID.fullmatch(plan_id):
        raise ToolError(f"not the id of a plan: {plan_id!r}")
    inner = [entry(), "leadline", verb, plan_id, str(len(sent)), *args]
    text, digest = (plan.canonical(), plan.digest()) if plan is not None else (b"", "-")
    stdin = text + b"\n" + sent
    with declared(_EFFECTS.get(verb, "write")):
        result = await host.exec(
            ["sh", "-c", _ENTER, "leadline", HELPER, helper_version(), digest, *inner],
            timeout_s=timeout_s,
            stdin=stdin if sent else None,
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
    stranded = gone and values.get("timer") != "armed"
    if stranded:
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
        stranded=stranded or raw == "left",
        rolled_back_by=cast(Literal["readiness", "timer", "request"], by)
        if by in ("readiness", "timer", "request")
        else "",
        rollback_at=datetime.fromtimestamp(int(at), UTC) if at.isdigit() else None,
        **lists,
    )
    return status, gone
