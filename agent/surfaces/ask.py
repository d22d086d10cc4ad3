"""Run one investigation from the command line: progress on stderr, the answer on stdout, files beside it."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent import threads
from agent.config import Settings
from agent.errors import ExitCode, UsageError
from agent.events import ApprovalAsked, Ended, Live, Started
from agent.models.select import model_of
from agent.state import Change, Conclusion
from agent.surfaces.approving import decide, refuse_unattended
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.opening import give_back, open_hosts, resume, settings_of, start
from agent.surfaces.targets import say
from agent.surfaces.wrapping import wrapped
from tools.display import visible_json

if TYPE_CHECKING:
    from agent.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions(OpenOptions):
    """Hold what the command line asked for."""

    symptom: str
    approve: bool
    out: Path | None
    output: str
    quiet: bool
    exit_code: bool


def run(options: AskOptions) -> None:
    """Investigate, print, and leave with the exit code of the outcome."""
    code = asyncio.run(_run(options))
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def _run(options: AskOptions) -> ExitCode:
    if not options.symptom and options.resume is None:
        if " " in options.host:
            raise UsageError(
                f"{options.host!r} is no host; the host comes first",
                do=f'for example: leadline ask local "{options.host}"',
            )
        raise UsageError("say what is wrong", do='for example: leadline ask HOST "decode is slow: 24 tok/s"')
    settings = settings_of(options)
    _check_approve(options, settings)
    show = _view(options)
    async with AsyncExitStack() as stack:
        session = await _open(options, settings, stack)
        stack.push_async_callback(session.close)
        _handle_signals(session)
        show(session.events[-1])  # who and what; a resumed one says so
        try:
            async for event in session.ask(None):
                show(event)
            while (events := await decide(session, unattended=options.approve)) is not None:
                async for event in events:
                    show(event)
        except asyncio.CancelledError:
            sys.stderr.write(f"\ninterrupted; what was gathered is kept; {_go_on(options, session)}\n")
            raise
        code = _finish(options, session)
        if session.ended is not None:
            give_back(session.folder, settings)
        return code


def _check_approve(options: AskOptions, settings: Settings) -> None:
    """Refuse an unattended approval before anything is started."""
    if not options.approve:
        return
    if options.resume is not None:
        refuse_unattended(threads.started(settings, options.resume).hosts)
        return
    refuse_unattended([options.host])
    if options.mode != "apply":
        raise UsageError(f"--approve has no meaning in mode {options.mode}", do="add --mode apply")


async def _open(options: AskOptions, settings: Settings, stack: AsyncExitStack) -> Session:
    # The model is chosen first: a wrong one is told before a host is started or reached.
    model_of(settings)
    hosts = await open_hosts(options, settings, stack, _progress(options))
    if options.resume is not None:
        return resume(options.resume, settings, hosts)
    return start(options, settings, hosts, options.symptom)


def _progress(options: AskOptions) -> Callable[[str], None]:
    return (lambda text: None) if options.quiet else say


def _view(options: AskOptions) -> Callable[[Live], None]:
    if options.output == "stream-json":
        return _print_event
    if options.quiet:
        return lambda event: None
    return shown(unattended=options.approve)


def shown(*, unattended: bool) -> Callable[[Live], None]:
    """Return what shows events on stderr; where nobody is asked, nothing is said to wait."""
    from agent.surfaces.terminal import Terminal

    show = Terminal.on_stderr().show
    return (lambda event: None if isinstance(event, ApprovalAsked) else show(event)) if unattended else show


def _print_event(event: Live) -> None:
    sys.stdout.write(visible_json(event.model_dump_json()) + "\n")
    sys.stdout.flush()


def _handle_signals(session: Session) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, session.drain)


def _finish(options: AskOptions, session: Session) -> ExitCode:
    from agent.surfaces.records import write_case

    folder = options.out or session.folder
    files = write_case(session.folder, folder)
    ended = session.ended
    if ended is None and session.waiting is not None:
        again = f"leadline ask {options.host} --resume {session.thread}"
        sys.stderr.write(
            f"an approval of {session.waiting.change} is needed; answer it at a terminal: {again}\n"
            f"or decide with `leadline approvals show {session.approval_id}`, then run the same\n"
        )
        return ExitCode.APPROVAL_NEEDED
    if ended is None:
        sys.stderr.write(f"stopped; {_go_on(options, session)}\n")
        return ExitCode.TERMINATED
    conclusion = conclusion_of(session)
    _print_result(options, session, ended, conclusion, files)
    problem = ended.outcome in ("diagnosed", "needs_person")
    if session.exit_code is ExitCode.DONE and options.exit_code and problem:
        return ExitCode.PROBLEM_FOUND
    return session.exit_code


def _go_on(options: AskOptions, session: Session) -> str:
    return f"go on with: leadline ask {options.host} --resume {session.thread}"


def conclusion_of(session: Session) -> Conclusion | None:
    """Return the last conclusion that the verifier let pass."""
    from agent.events import ConclusionChecked

    found = [event for event in session.events if isinstance(event, ConclusionChecked) and event.accepted]
    return found[-1].conclusion if found else None


def _changes(session: Session) -> list[Change]:
    """Return the changes as they ended."""
    from agent.events import ChangeMoved

    last = {event.change.id: event.change for event in session.events if isinstance(event, ChangeMoved)}
    return list(last.values())


def answer_of(session: Session, ended: Ended, files: list[str]) -> str:
    """Return the answer of a session that has ended, as a person reads it."""
    from agent.surfaces.terminal import answer

    plain = Conclusion(outcome=ended.outcome, summary=ended.summary, claims=[])
    return answer(conclusion_of(session) or plain, files, _changes(session))


def _print_result(
    options: AskOptions, session: Session, ended: Ended, conclusion: Conclusion | None, files: list[str]
) -> None:
    if options.output == "text":
        text = answer_of(session, ended, files)
        if sys.stdout.isatty():
            text = wrapped(text, shutil.get_terminal_size().columns)
        sys.stdout.write(text)
        return
    started = session.events[0]
    assert isinstance(started, Started)
    result: dict[str, Any] = {
        "schema_version": 1,
        "type": "result",
        "subtype": ended.outcome,
        "is_error": session.exit_code not in (ExitCode.DONE, ExitCode.PROBLEM_FOUND),
        "result": ended.summary,
        "session_id": session.thread,
        "num_turns": max(event.turn for event in session.events),
        "duration_ms": round((ended.at - started.at).total_seconds() * 1000),
        "conclusion": conclusion.model_dump(mode="json") if conclusion else None,
        "files": files,
    }
    sys.stdout.write(visible_json(json.dumps(result, ensure_ascii=False)) + "\n")
