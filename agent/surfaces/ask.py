"""Run one investigation from the command line: progress on stderr, the answer on stdout, files beside it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent import threads
from agent.config import Settings, load_settings
from agent.errors import ExitCode, UsageError
from agent.events import Ended, Live, Started
from agent.models.select import PLAYBOOK, model_of
from agent.state import Conclusion, Mode
from agent.surfaces.approving import decide, refuse_unattended
from agent.surfaces.targets import is_fresh, is_lab, open_host, release, say

if TYPE_CHECKING:
    from agent.session import Session


OWNED = "started-host"
"""File in a session's folder that names the host started for it, for `--resume` and for its end."""


@dataclass(frozen=True, slots=True)
class AskOptions:
    """Hold what the command line asked for."""

    host: str
    symptom: str
    resume: str | None
    mode: Mode
    approve: bool
    allow_in_flight: bool
    model: str | None
    base_url: str | None
    allow_load: bool | None
    send_rg: bool
    max_turns: int | None
    timeout_s: float | None
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
        raise UsageError("say what is wrong", do='for example: leadline ask HOST "decode is slow: 24 tok/s"')
    settings = _settings(options)
    _check_approve(options, settings)
    show = _view(options)
    async with AsyncExitStack() as stack:
        session = await _open(options, settings, stack)
        stack.push_async_callback(session.close)
        _handle_signals(session)
        async for event in session.ask(None):
            show(event)
        while (approval := await decide(session, unattended=options.approve)) is not None:
            async for event in session.answer(approval):
                show(event)
        code = _finish(options, session)
        if session.ended is not None:
            _give_back(session.folder, settings)
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


def _settings(options: AskOptions) -> Settings:
    named = {"model": options.model, "base_url": options.base_url}
    settings = load_settings(**{name: value for name, value in named.items() if value is not None})
    if options.base_url is not None and settings.model == PLAYBOOK:
        raise UsageError("--base-url without a model", do="name one that it serves with --model")
    tools = settings.tools.model_copy(
        update={
            "allow_load": _allow_load(options, settings),
            "allow_in_flight": options.allow_in_flight or settings.tools.allow_in_flight,
            "allow_send_rg": options.send_rg or settings.tools.allow_send_rg,
        }
    )
    limits = {"max_turns": options.max_turns, "max_wall_s": options.timeout_s}
    given = {name: value for name, value in limits.items() if value is not None}
    return settings.model_copy(update={"tools": tools, **given})


def _allow_load(options: AskOptions, settings: Settings) -> bool:
    if options.allow_load is not None:
        return options.allow_load
    return settings.tools.allow_load or is_lab(options.host)


async def _open(options: AskOptions, settings: Settings, stack: AsyncExitStack) -> Session:
    from agent.session import Session

    model = model_of(settings)
    if options.resume is None:
        host = await stack.enter_async_context(open_host(options.host, settings, _progress(options)))
        scenario = options.host.partition(":")[2].partition("#")[0] if is_lab(options.host) else None
        session = Session.start(
            settings, model, {host.name: host}, options.symptom, options.mode, scenario=scenario
        )
        if is_fresh(options.host):
            (session.folder / OWNED).write_text(host.name)
        return session
    started = threads.started(settings, options.resume)
    hosts = {}
    for name in started.hosts:
        hosts[name] = await stack.enter_async_context(open_host(name, settings, _progress(options)))
    return Session.resume(settings, options.resume, model, hosts)


def _progress(options: AskOptions) -> Callable[[str], None]:
    return (lambda text: None) if options.quiet else say


def _view(options: AskOptions) -> Callable[[Live], None]:
    if options.output == "stream-json":
        return _print_event
    if options.quiet:
        return lambda event: None
    from agent.surfaces.terminal import Terminal

    return Terminal.on_stderr().show


def _print_event(event: Live) -> None:
    sys.stdout.write(event.model_dump_json() + "\n")
    sys.stdout.flush()


def _give_back(folder: Path, settings: Settings) -> None:
    """End the host that this investigation started; one that a person started stays."""
    owned = folder / OWNED
    if owned.is_file():
        release(owned.read_text(), settings)
        owned.unlink()


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
        )
        return ExitCode.APPROVAL_NEEDED
    if ended is None:
        sys.stderr.write(f"stopped; go on with: leadline ask {options.host} --resume {session.thread}\n")
        return ExitCode.TERMINATED
    conclusion = _conclusion(session)
    _print_result(options, session, ended, conclusion, files)
    problem = ended.outcome in ("diagnosed", "needs_person")
    if session.exit_code is ExitCode.DONE and options.exit_code and problem:
        return ExitCode.PROBLEM_FOUND
    return session.exit_code


def _conclusion(session: Session) -> Conclusion | None:
    from agent.events import ConclusionChecked

    found = [event for event in session.events if isinstance(event, ConclusionChecked) and event.accepted]
    return found[-1].conclusion if found else None


def _print_result(
    options: AskOptions, session: Session, ended: Ended, conclusion: Conclusion | None, files: list[str]
) -> None:
    if options.output == "text":
        from agent.surfaces.terminal import answer

        shown = conclusion or Conclusion(outcome=ended.outcome, summary=ended.summary, claims=[])
        sys.stdout.write(answer(shown, files))
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
    sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
