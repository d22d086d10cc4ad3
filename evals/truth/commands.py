"""The commands ``python -m evals.truth make`` and ``compare``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="What the engines' own argument code makes of launch lines, and how far our evaluation agrees.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class EngineChoice(StrEnum):
    """The engines whose argument code is Python."""

    SGLANG = "sglang"
    VLLM = "vllm"


def _say(text: str) -> None:
    typer.echo(text, err=True)


@app.command()
def make(
    engine: Annotated[EngineChoice, typer.Argument()],
    versions: Annotated[list[str], typer.Argument(help="Releases, such as 0.5.11.")],
    seed: Annotated[str, typer.Option(help="What the random lines are drawn from; name a fresh one.")],
    count: Annotated[int, typer.Option("--random", min=0, help="Random lines, beside the chosen ones.")] = 80,
    transformers: Annotated[str, typer.Option(help="Its version, where the pinned one does not serve.")] = "",
) -> None:
    """Record what releases make of launch lines, by running THEIR code in an environment of its own.

    Torch for the CPU and what the engines import are installed there the first time.
    """
    from agent.config import Settings
    from agent.errors import LeadlineError
    from evals.truth.make import Asked
    from evals.truth.make import make as record

    failed = 0
    for version in versions:
        asked = Asked(engine.value, version, seed, count, Settings().cache_dir, transformers)
        try:
            typer.echo(record(asked, _say))
        except LeadlineError as error:
            _say(f"leadline: {error}")
            failed = error.exit_code
    sys.exit(failed)


@app.command()
def compare(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files of records. Default: all that were made.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes side by side. Default: one a core.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Compare one line of so many only.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
    write: Annotated[
        Path | None, typer.Option(help="Put the table into this Markdown file, between its marks.")
    ] = None,
) -> None:
    """Compare our evaluation of each recorded launch line with the record; exit with 9 when one is wrong."""
    from agent.errors import LeadlineError
    from evals.truth import comparing

    try:
        found = comparing.compared(files or [], jobs, every, sys.stderr)
        sys.stdout.write(comparing.shown(found, as_json=as_json))
        if write is not None:
            comparing.write(found, write)
    except LeadlineError as error:
        _say(f"leadline: {error}")
        sys.exit(error.exit_code)
    sys.exit(9 if any(one.pairs["wrong"] or one.refusals["wrong"] for one in found) else 0)


@app.command()
def pack(
    file: Annotated[Path, typer.Argument(help="A file of records.")],
    out: Annotated[Path, typer.Argument(help="Where the compact records go: NAME.json.gz.")],
    lines: Annotated[int, typer.Option(min=1, help="How many lines are kept, spread over the file.")] = 12,
) -> None:
    """Write a compact part of a file of records, as the tests keep it."""
    from agent.errors import LeadlineError
    from evals.truth import comparing

    try:
        comparing.pack(file, out, lines)
    except LeadlineError as error:
        _say(f"leadline: {error}")
        sys.exit(error.exit_code)
