"""Run one investigation from the command line: progress on stderr, the answer on stdout, files beside it."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent import threads
from agent.config import Settings
from agent.errors import ExitCode, LeadlineError, UsageError
from agent.events import ApprovalAsked, Failed, Live, SystemNote
from agent.given_log import give
from agent.models.select import PLAYBOOK, model_of
from agent.surfaces.approving import decide, refuse_unattended
from agent.surfaces.ending import finish, go_on, told
from agent.surfaces.going_on import NO_HOST, meant
from agent.surfaces.holding import Holding
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.opening import give_back, open_hosts, resume, settings_of, start
from agent.surfaces.result import nothing_began, print_result, result_of
from agent.surfaces.stdin_log import Log, may_hold_a_log, read_log
from agent.surfaces.targets import say
from tools.display import visible_json
from tools.redact import redact

if TYPE_CHECKING:
    from agent.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions(OpenOptions):
    """Hold what the command line asked for."""

    symptom: str
    last: bool = False
    approve: bool
    out: Path | None
    output: str
    quiet: bool
    exit_code: bool


def run(options: AskOptions) -> None:
    """Investigate, print, and leave with the exit code of the outcome."""
    asking = Asking(options)
    try:
        code = asyncio.run(asking.run())
    except LeadlineError as error:
        if options.output != "text":
            print_result(asking.ended_by(error))
        raise
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


class Asking:
    """Drive one investigation from the command line."""

    def __init__(self, options: AskOptions) -> None:
        self.options = options
        self.session: Session | None = None

    async def run(self) -> ExitCode:
        """Investigate; return the code to leave with."""
        options = self.options = _meant(self.options)
        log = _given(options)
        settings = settings_of(options)
        if options.resume is not None and options.symptom and settings.model == PLAYBOOK:
            raise UsageError(
                "the built-in playbooks hear nothing beyond the symptom",
                do="say nothing to go on, or name a model that listens: --model NAME --base-url URL",
            )
        _check_approve(options, settings)
        async with AsyncExitStack() as stack:
            session = self.session = await _open(options, settings, stack, log=log is not None)
            stack.push_async_callback(session.close)
            if log is not None:
                _hand_over(options, session, log)
            await self._drive(session)
            code = finish(options, session)
            if session.ended is not None:
                give_back(session.folder, settings)
            return code

    async def _drive(self, session: Session) -> None:
        options = self.options
        view = _view(options)
        failed: list[Failed] = []

        def show(event: Live) -> None:
            if isinstance(event, Failed) and options.output == "text":
                failed.append(event)  # what made it fail is raised as well, and told once
            else:
                view(event)

        show(session.events[0] if options.resume is None else session.events[-1])
        said = options.symptom if options.resume is not None else ""
        try:
            with Holding(session, show) as holding:
                _end_at_sigterm(session, holding)
                events: AsyncIterator[Live] | None = session.ask(said or None)
                while events is not None:
                    async for event in events:
                        holding.show(event)
                    await holding.answered()
                    events = await _next(session, options)
        except LeadlineError as error:
            failed.clear()
            error.args = (told(error, options, session),)
            raise
        except asyncio.CancelledError:
            sys.stderr.write(f"\ninterrupted; what was gathered is kept; {go_on(options, session)}\n")
            if options.output != "text":
                print_result(result_of(session, ExitCode.INTERRUPTED, [], why="interrupted"))
            raise
        finally:
            for one in failed:
                view(one)

    def ended_by(self, error: LeadlineError) -> dict[str, Any]:
        """Return the object for what an error ended."""
        why = redact(str(error).encode("utf-8", "replace")).decode("utf-8", "replace")
        if self.session is None:
            return nothing_began(error.exit_code, why)
        return result_of(self.session, error.exit_code, [], stopped="error", why=why)


def _meant(options: AskOptions) -> AskOptions:
    """Return the options with the thread that is meant, and what is said to it."""
    example = 'leadline ask local "decode is slow: 24 tok/s"'
    found = meant(options.host, options.symptom, options.resume, last=options.last, example=example)
    return dataclasses.replace(options, host=found.host, symptom=found.text, resume=found.thread)


def _given(options: AskOptions) -> Log | None:
    """Return the log on standard input, if one is given; raise `UsageError` for what cannot be asked."""
    if options.resume is not None:
        return None
    if not options.symptom:
        if " " in options.host:
            raise UsageError(
                f"{options.host!r} is no host; the host comes first",
                do=f'for example: leadline ask local "{options.host}"',
            )
        example = (
            '- "why did it die" < FILE' if options.host == NO_HOST else 'HOST "decode is slow: 24 tok/s"'
        )
        raise UsageError("say what is wrong", do=f"for example: leadline ask {example}")
    alone = options.host == NO_HOST
    if alone and options.mode != "read-only":
        raise UsageError(f"mode {options.mode} needs a host", do="name one in place of the -")
    log = read_log(_progress(options)) if may_hold_a_log() else None
    if alone and log is None:
        raise UsageError(
            "no log comes on standard input",
            do='for example: journalctl -u sglang | leadline ask - "why did it die"',
        )
    return log


def _hand_over(options: AskOptions, session: Session, log: Log) -> None:
    """Give the log to the session, and say what can be told from it where there is no host."""
    if options.host == NO_HOST:
        from prompts.render import render

        session.work.transcript.append(SystemNote(turn=0, text=render("note_log_only")))
        if not options.quiet:
            say("no host: only the log is judged, not what runs, with which flags, by which source")
    ref = give(session.work, log.captured, log.why_cut)
    cut = "" if ref.complete else "; not all of it: its head and its tail, or what came by then"
    if not options.quiet:
        say(f"the log on standard input is {ref.handle}: {log.captured.total:,} bytes, secrets masked{cut}")


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


async def _open(options: AskOptions, settings: Settings, stack: AsyncExitStack, *, log: bool) -> Session:
    # The model is chosen first: a wrong one is told before a host is started or reached.
    model_of(settings)
    if options.host == NO_HOST and options.resume is None:
        return start(options, settings, {}, options.symptom, log=log)
    hosts = await open_hosts(options, settings, stack, _progress(options))
    if options.resume is not None:
        return resume(options.resume, settings, hosts)
    return start(options, settings, hosts, options.symptom, log=log)


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


def _end_at_sigterm(session: Session, holding: Holding) -> None:
    """Let SIGTERM end the investigation after the step that runs."""

    def end() -> None:
        holding.close()
        session.drain()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)


async def _next(session: Session, options: AskOptions) -> AsyncIterator[Live] | None:
    """Return what follows a stop: the model hears what was said, or a plan is decided on; None at the end."""
    if session.unheard and session.ended is None and session.exit_code is ExitCode.DONE:
        return session.ask(None)
    return await decide(session, unattended=options.approve)
