"""Options of ``leadline eval``: what each is called, and what its help says."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class WayChoice(StrEnum):
    """How a run comes about."""

    SCORE = "score"
    REPLAY = "replay"
    SOLVE = "solve"
    CONTINUE = "continue"


WaysArgument = Annotated[
    list[WayChoice] | None,
    typer.Argument(
        metavar="[WAY]...",
        help="score rates recordings as they are; replay drives the state machine with them again; "
        "solve works on cases from scratch on their lab host; continue works on from a turn of a "
        "recording. Default: all four.",
    ),
]
CaseOption = Annotated[
    str,
    typer.Option("--case", "-c", help="Only cases and recordings whose name matches, such as 'kimi*'."),
]
JudgeModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Let a model say how right each conclusion is: a column of its own, which decides nothing.",
    ),
]
JudgeUrlOption = Annotated[
    str | None, typer.Option(help="Endpoint of that model. Default: --base-url. Key: LEADLINE_API_KEY.")
]
SamplesOption = Annotated[
    int, typer.Option("--samples", "-n", min=1, help="How often each case is solved; a model varies.")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Labs side by side. Default: one a core.")
]
ShellAgentOption = Annotated[
    bool, typer.Option("--baseline", help="Let a plain shell agent solve the cases, for comparison.")
]
ReportOption = Annotated[
    Path | None, typer.Option(help="Write one HTML page: table, timelines, why each score is what it is.")
]
ResumeRunOption = Annotated[
    str | None, typer.Option(help="Go on with a run: what is missing is done, and what did not count.")
]
CompareOption = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="ID ID", help="Compare two runs on the cases they share, with paired intervals."),
]
GateOption = Annotated[
    bool, typer.Option("--gate", help="Fail when a score is below evals/baseline.json, and say which.")
]
SaveBaselineOption = Annotated[
    bool, typer.Option("--save-baseline", help="Store the scores of this run as that baseline.")
]
CasesOption = Annotated[
    Path | None, typer.Option(help="Folder of your own cases, one YAML file each, instead of ours.")
]
TranscriptsOption = Annotated[
    Path | None, typer.Option(help="Folder of your own recordings, instead of ours.")
]
ListRunsOption = Annotated[bool, typer.Option("--list", help="List the runs there are.")]
