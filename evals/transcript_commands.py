"""The commands ``leadline transcripts ...``: keep, look at, check, replay and export recordings."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agent.errors import LeadlineError
    from agent.models.replay import Recording

app = typer.Typer(
    help="Recordings that cases are rated by: list, check, show, replay, export and keep.",
    no_args_is_help=True,
    add_completion=False,
)


class Format(StrEnum):
    """Formats that a recording can be exported to."""

    ATIF = "atif"


_Name = Annotated[str, typer.Argument(metavar="NAME", help="The recording, as `list` shows it.")]
_Any = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A recording, or the folder or transcript of a thread of one's own."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


@app.command("list")
def list_(as_json: _Json = False) -> None:
    """Show the recordings and what each is kept for."""
    from evals import recordings

    for name in recordings.names():
        about = recordings.about(name)
        if as_json:
            row = {"name": name, **about.model_dump(mode="json")}
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(
                f"{name}  ({about.recorded}, {about.outcome}, case {about.case})\n    {about.says}\n"
            )


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Recordings; all when none is named.")] = None,
    as_json: _Json = False,
) -> None:
    """Read recordings whole and make sure that no source of a package stands in them."""
    from agent.errors import ExitCode
    from agent.surfaces.targets import say
    from evals import recordings
    from evals.recording_check import problems

    wanted = names or []
    found = list(problems(wanted, progress=say))
    count = len(wanted or recordings.names())
    if as_json:
        sys.stdout.write(json.dumps({"recordings": count, "problems": found}) + "\n")
    else:
        verdict = f"{len(found)} problems" if found else "sound"
        sys.stdout.write("".join(f"{text}\n" for text in found) + f"{count} recordings: {verdict}\n")
    if found:
        raise typer.Exit(int(ExitCode.ERROR))


@app.command()
def show(
    name: _Any,
    artifact: Annotated[str | None, typer.Option(help="Print this raw output instead, such as t4.1.")] = None,
    as_json: _Json = False,
) -> None:
    """Print the case file of a recording, or one of its outputs as it was recorded."""
    from agent.casefile import build, to_json, to_markdown
    from agent.errors import UsageError
    from evals import recordings

    recording = _recording(name)
    if artifact is None:
        case = build(recording.events, recording.store)
        sys.stdout.write((to_json(case) if as_json else to_markdown(case)) + "\n")
        return
    refs = {ref.handle: ref for event in recording.events for _, ref in recordings.references(event)}
    if artifact not in refs:
        raise UsageError(f"{name} has no artifact {artifact}", do=f"there are: {', '.join(refs)}")
    sys.stdout.buffer.write(recording.store.get(refs[artifact].sha256))


@app.command()
def replay(name: _Name, as_json: _Json = False) -> None:
    """Investigate again from a recording, on no host, and compare how it goes with what was recorded."""
    from agent.surfaces.replay import compare
    from evals import recordings

    compare(recordings.load(name), as_json=as_json)


@app.command()
def unpack(
    name: _Name, folder: Annotated[Path, typer.Argument(help="A new folder, for `leadline replay`.")]
) -> None:
    """Write a recording as an investigation's own folder holds it: transcript.jsonl and artifacts/."""
    from evals import recordings

    try:
        count = recordings.unpack_to(name, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    sys.stdout.write(f"{folder / 'transcript.jsonl'}: {count} events\n")


@app.command()
def export(
    name: _Any,
    format_: Annotated[Format, typer.Option("--format", help="ATIF is read by other tools.")] = Format.ATIF,
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
) -> None:
    """Write a recording, or a thread of one's own, as one trajectory for other tools."""
    from evals.atif import to_atif

    text = json.dumps(to_atif(_recording(name).events), ensure_ascii=False, indent=1) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise _unwritable(out, error) from error
        sys.stdout.write(f"{out}\n")


@app.command()
def save(
    thread: Annotated[
        str, typer.Argument(help="Its id, as `leadline sessions list` shows it, or its folder.")
    ],
    name: Annotated[str, typer.Argument(help="Name of the recording.")],
    case: Annotated[str, typer.Option(help="The case that it is rated against.")],
    says: Annotated[str, typer.Option(help="Why it is kept, in a sentence.")],
    how: Annotated[str, typer.Option(help="The command or the script that made it.")] = "",
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="SCORE=BOUNDS", help="Expected score, such as fix=0.5 or evidence=0.5..1."),
    ] = None,
) -> None:
    """Keep a finished investigation as a recording: redacted again, package source replaced by references."""
    from evals import recordings

    path = recordings.save(
        _thread(thread), name, case=case, says=says, how=how, expect=dict(map(_bounds, expect or []))
    )
    sys.stdout.write(f"{path}\n")


@app.command()
def renew(
    names: Annotated[
        list[str] | None, typer.Argument(help="Recordings; without one, all that the product made.")
    ] = None,
) -> None:
    """Make recordings again with the command of each, as after a change of prompts or of a tool.

    A new one that comes to another outcome, or to a score that is not expected of it, is not kept.
    """
    from agent.errors import ExitCode, LeadlineError
    from agent.surfaces.targets import say
    from evals import renewing

    failed = 0
    for name in names or renewing.renewable():
        try:
            sys.stdout.write(f"{renewing.renew(name, say=say)}\n")
        except LeadlineError as error:
            failed += 1
            say(str(error))
    for path in renewing.sweep():
        say(f"removed {path}: no recording needs it")
    if failed:
        raise typer.Exit(int(ExitCode.ERROR))


def _recording(name: str) -> Recording:
    from agent.models.replay import Recording
    from evals import recordings

    path = Path(name)
    if path.is_dir():
        path /= "transcript.jsonl"
    return Recording.load(path) if path.is_file() else recordings.load(name)


def _unwritable(path: Path, error: OSError) -> LeadlineError:
    from agent.errors import LeadlineError

    return LeadlineError(f"cannot write {error.filename or path}: {error.strerror}", do="name another place")


def _thread(name: str) -> Path:
    from agent import threads
    from agent.config import load_settings

    if Path(name).exists():
        return Path(name)
    settings = load_settings()
    return threads.find(settings, threads.named(settings, name))


def _bounds(text: str) -> tuple[str, float | tuple[float, float]]:
    from agent.errors import UsageError

    name, _, value = text.partition("=")
    low, dots, high = value.partition("..")
    try:
        return name, (float(low), float(high)) if dots else float(low)
    except ValueError:
        raise UsageError(f"not a bound: {text!r}", do="write fix=0.5 or evidence=0.5..1") from None
