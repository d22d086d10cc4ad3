"""The command ``leadline record``: a person investigates with the tools of a model, and it is recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.surfaces.open_options import OpenOptions
from agent.surfaces.options import (
    ApproveOption,
    HostArgument,
    InFlightOption,
    JsonOption,
    LoadOption,
    ModeChoice,
    ModeOption,
    OutOption,
    ResumeOption,
)

if TYPE_CHECKING:
    from agent.config import Settings
    from agent.errors import ExitCode
    from agent.events import Live
    from agent.models.demonstration import Ask
    from agent.session import Session

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions(OpenOptions):
    """Hold what the command line asked for."""

    symptom: str
    script: Path | None
    approve: bool
    out: Path | None
    as_json: bool
    quiet: bool


@app.command()
def record(
    host: HostArgument,
    symptom: Annotated[str, typer.Argument(help="What is wrong, in your words.")] = "",
    script: Annotated[
        Path | None,
        typer.Option("--from", help="Take the turns from a file of JSON lines instead of asking."),
    ] = None,
    resume: ResumeOption = None,
    mode: ModeOption = ModeChoice.READ_ONLY,
    approve: ApproveOption = False,
    allow_in_flight: InFlightOption = False,
    allow_load: LoadOption = None,
    out: OutOption = None,
    json_: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
) -> None:
    """Investigate by hand with the tools and under the guards of a model, and keep it as a demonstration.

    Example: leadline record lab:kimi-k26-pp8 "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"
    """
    import asyncio

    from agent.errors import ExitCode

    options = RecordOptions(
        host=host,
        symptom=symptom,
        script=script,
        resume=resume,
        mode=mode.value,
        model=None,
        approve=approve,
        allow_in_flight=allow_in_flight,
        allow_load=allow_load,
        out=out,
        as_json=json_,
        quiet=quiet,
    )
    code = asyncio.run(_run(options))
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def _run(options: RecordOptions) -> ExitCode:
    from agent.errors import UsageError
    from agent.models.demonstration import DemonstrationStopped
    from agent.surfaces.approving import decide, refuse_unattended
    from agent.surfaces.opening import give_back, settings_of

    if not options.symptom and options.resume is None:
        raise UsageError(
            "say what is wrong", do='for example: leadline record HOST "decode is slow: 24 tok/s"'
        )
    if options.approve:
        refuse_unattended([options.host])
    settings = settings_of(options)
    ask = _ask(options)
    async with AsyncExitStack() as stack:
        session = await _open(options, settings, ask, stack)
        stack.push_async_callback(session.close)
        show = _view(options)
        show(session.events[-1])
        try:
            async for event in session.ask(None):
                show(event)
        except DemonstrationStopped as error:
            again = f"leadline record {options.host} --resume {session.thread}"
            raise DemonstrationStopped(error.what, do=f"go on with: {again}") from error
        while (events := await decide(session, unattended=options.approve)) is not None:
            async for event in events:
                show(event)
        code = _finish(options, session)
        if session.ended is not None:
            give_back(session.folder, settings)
        return code


def _ask(options: RecordOptions) -> Ask:
    """Return who takes the turns; a script is read before a host is reached."""
    if options.script is not None:
        from agent.models.demonstration import from_script, read_script

        return from_script(read_script(options.script))
    from evals.record_prompt import HELP, Person, lines_of_terminal

    if not options.quiet:
        sys.stderr.write(HELP)
    return Person(lines_of_terminal())


async def _open(options: RecordOptions, settings: Settings, ask: Ask, stack: AsyncExitStack) -> Session:
    from agent.models.demonstration import DemonstrationModel
    from agent.surfaces.opening import open_hosts, resume, start
    from agent.surfaces.targets import say

    model = DemonstrationModel(ask)
    hosts = await open_hosts(options, settings, stack, (lambda text: None) if options.quiet else say)
    if options.resume is not None:
        return resume(options.resume, settings, hosts, model)
    return start(options, settings, hosts, options.symptom, model)


def _view(options: RecordOptions) -> Callable[[Live], None]:
    """Return what shows events; a person is shown each result whole, to cite from it."""
    if options.quiet:
        return lambda event: None
    from agent.events import ToolFinished
    from agent.models.replay import view_of
    from agent.surfaces.by_hand import render
    from agent.surfaces.terminal import Terminal

    terminal = Terminal.on_stderr()

    def show(event: Live) -> None:
        terminal.show(event)
        if isinstance(event, ToolFinished) and options.script is None:
            sys.stderr.write(f"{event.call}: {render(view_of(event.view), as_json=False)}")

    return show


def _finish(options: RecordOptions, session: Session) -> ExitCode:
    from agent.errors import ExitCode
    from agent.surfaces.ending import answer_of
    from agent.surfaces.records import write_case

    ended = session.ended
    if ended is None:
        again = f"leadline record {options.host} --resume {session.thread}"
        sys.stderr.write(f"not ended; go on with: {again}\n")
        return ExitCode.APPROVAL_NEEDED if session.waiting is not None else ExitCode.TERMINATED
    files = write_case(session.folder, options.out or session.folder)
    if options.as_json:
        row = {
            "session_id": session.thread,
            "outcome": ended.outcome,
            "result": ended.summary,
            "files": files,
        }
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(answer_of(session, ended, files))
        keep = f"leadline transcripts save {session.thread} NAME --case CASE --says WHY"
        sys.stdout.write(f"Keep it as a recording: {keep}\n")
    return session.exit_code
