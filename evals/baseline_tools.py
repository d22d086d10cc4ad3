"""The two tools of the baseline: a shell on the host, and the answer that ends its work."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from evals.baseline_answer import SubmitArgs
from evals.baseline_quotes import look_up
from evals.baseline_state import read_state
from tools import run
from tools.contract import Args, Tool, ToolContext
from tools.policy import Decision, judge
from tools.reshaped import reshapes, secrets_behind

SUBMIT: Final = "submit"
ANSWER: Final = "baseline:answer"
STATE: Final = "baseline:state"
"""Where the answer that was looked up, and what is in force on the host, stand in the cache of the run."""

_CUT: Final = "the middle is left out; ask for a part with sed -n, head, tail or grep"


class BashArgs(Args):
    """Say what to run."""

    command: str = Field(min_length=1, max_length=20_000, description="Run by bash -c on the host.")
    timeout_s: float = Field(default=60.0, ge=1, le=600, description="After so long it is killed.")


async def bash(ctx: ToolContext, args: BashArgs) -> dict[str, Any]:
    """Run a command whatever it does, and return a bounded view of what it printed."""
    host = ctx.host()
    told = judge(args.command)
    # Where the command can be taken apart, secrets are masked in what it makes of them, as in `run`.
    known = told.verdict == "allow" and reshapes(told)
    secrets = await secrets_behind(host, [], told) if known else set()
    result = await host.exec(["bash", "-c", args.command], timeout_s=args.timeout_s)
    view = run.view(ctx, _as_written(told, args.command), result, secrets)
    return {"id": ctx.call_id, **view, **({"cut": _CUT} if "cut" in view else {})}


def _as_written(told: Decision, command: str) -> Decision:
    """Return a decision that shows the command as it ran: it is not rendered anew here."""
    return dataclasses.replace(told, rendered=command)


async def submit(ctx: ToolContext, args: SubmitArgs) -> dict[str, Any]:
    """Look the answer's quotes up in what was printed, and read what is in force on the host now."""
    answer = ctx.cache[ANSWER] = await look_up(ctx, args)
    ctx.cache[STATE] = await read_state(ctx)
    pieces = [piece for group in (*answer.causes, *answer.ruled_out) for piece in group]
    found = sum(piece.citation is not None for piece in pieces)
    return {"accepted": True, "quotes": len(pieces), "found": found}


TOOLS: Mapping[str, Tool[Any]] = {
    "bash": Tool(
        name="bash",
        description="Run a command on the host and see what it prints. Long output is cut in the middle.",
        args=BashArgs,
        run=bash,
        read_only=False,
    ),
    SUBMIT: Tool(
        name=SUBMIT,
        description="End the work with an answer.",
        args=SubmitArgs,
        run=submit,
        read_only=False,
    ),
}
