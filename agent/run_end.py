"""Say how a run came to its end: its exit code, and a record of what made it fail."""

from __future__ import annotations

import asyncio

from agent.errors import ExitCode, LeadlineError
from agent.events import Failed
from agent.investigation import Investigation


def settle(work: Investigation, run: asyncio.Task[None], thread: str) -> BaseException | None:
    """Turn how a run stopped into the exit code, record what made it fail, and return that."""
    if run.cancelled():
        work.exit_code = ExitCode.INTERRUPTED
        return None
    error = run.exception()
    if error is None:
        return None
    if _drained(error):
        work.exit_code = ExitCode.TERMINATED
        return None
    known = isinstance(error, LeadlineError)
    work.exit_code = error.exit_code if isinstance(error, LeadlineError) else ExitCode.ERROR
    said = str(error) if known else f"{type(error).__name__}: {error}"
    failed = Failed(
        turn=work.history.last_turn,
        error=f"{said}; nothing gathered is lost: resume thread {thread}",
        exit_code=work.exit_code,
    )
    work.transcript.append(failed, durable=True)
    return error


def _drained(error: BaseException) -> bool:
    from langgraph.errors import GraphDrained

    return isinstance(error, GraphDrained)
