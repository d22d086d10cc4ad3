"""Say how an investigation ended, or how to go on with it: the answer, its files, the exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from agent.errors import ExitCode, LeadlineError, ThreadGone
from agent.events import Ended
from agent.state import Change, Conclusion
from agent.surfaces.console import screen_width
from agent.surfaces.result import Stopped, conclusion_of, print_result, result_of
from agent.surfaces.wrapping import wrapped

if TYPE_CHECKING:
    from agent.session import Session
    from agent.surfaces.ask import AskOptions


def finish(options: AskOptions, session: Session) -> ExitCode:
    """Write the case file, print the answer or why there is none, and return the exit code."""
    from agent.surfaces.records import write_case

    files = write_case(session.folder, options.out or session.folder)
    ended = session.ended
    if ended is None:
        return _unfinished(options, session, files)
    code = session.exit_code
    if code is ExitCode.DONE and options.exit_code and ended.outcome in ("diagnosed", "needs_person"):
        code = ExitCode.PROBLEM_FOUND
    if options.output != "text":
        print_result(result_of(session, code, files))
        return code
    width = screen_width()
    text = answer_of(session, ended, files, width)
    sys.stdout.write(wrapped(text, width) if width is not None else text)
    return code


def _unfinished(options: AskOptions, session: Session, files: list[str]) -> ExitCode:
    """Say what it waits for, or that it was stopped."""
    how: Stopped
    if session.waiting is not None:
        code, how = ExitCode.APPROVAL_NEEDED, "approval_needed"
        why = f"an approval of {session.waiting.change} is needed; answer it at a terminal: "
        why += f"leadline ask {options.host} --resume {session.thread}"
        more = f"\nor decide with `leadline approvals show {session.approval_id}`, then run the same"
    else:
        code, how = ExitCode.TERMINATED, "stopped"
        why, more = f"stopped; {go_on(options, session)}", ""
    sys.stderr.write(f"{why}{more}\n")
    if options.output != "text":
        print_result(result_of(session, code, files, stopped=how, why=why))
    return code


def told(error: LeadlineError, options: AskOptions, session: Session) -> str:
    """Return what is said of an error: what was gathered is kept, unless that is what went."""
    if isinstance(error, ThreadGone):
        return str(error)
    return f"{error}; nothing gathered is lost, {go_on(options, session)}"


def go_on(options: AskOptions, session: Session) -> str:
    """Return how to go on with the investigation."""
    return f"go on with: leadline ask {options.host} --resume {session.thread}"


def _changes(session: Session) -> list[Change]:
    """Return the changes as they ended."""
    from agent.events import ChangeMoved

    last = {event.change.id: event.change for event in session.events if isinstance(event, ChangeMoved)}
    return list(last.values())


def answer_of(session: Session, ended: Ended, files: list[str], width: int | None = None) -> str:
    """Return the answer of a session that has ended, as a person reads it at a terminal of a width.

    Where none of its ``files`` was written now, those stand that lie in its folder since it ended.
    """
    from agent.surfaces.answer_text import answer
    from agent.surfaces.records import case_files

    plain = Conclusion(outcome=ended.outcome, summary=ended.summary, claims=[])
    files = files or case_files(session.folder)
    return answer(conclusion_of(session) or plain, files, _changes(session), width)
