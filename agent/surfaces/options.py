"""Arguments and options that several commands share: one definition gives name, type and help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Output(StrEnum):
    """Forms of what a command prints on stdout."""

    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


class ModeChoice(StrEnum):
    """What an investigation may do."""

    READ_ONLY = "read-only"
    PROPOSE = "propose"
    APPLY = "apply"


HostArgument = Annotated[
    str,
    typer.Argument(metavar="HOST", help="An SSH host or alias, `local`, or `lab:NAME` for a simulated host."),
]
HostsArgument = Annotated[
    str,
    typer.Argument(
        metavar="HOST",
        help="An SSH host or alias, `local`, or `lab:NAME`; several with commas, @GROUP, role:ROLE or all.",
    ),
]
SessionArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The investigation, as `leadline sessions list` shows it.")
]
TranscriptArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The transcript.jsonl of an investigation.")
]
PlaybookArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The playbook, as `leadline playbooks list` shows it.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
ResumeOption = Annotated[
    str | None, typer.Option(help="Go on with an investigation: its id, see `leadline sessions list`.")
]
LastOption = Annotated[
    bool,
    typer.Option("--last", "--continue", "-c", help="Go on with the investigation last worked on."),
]
ModeOption = Annotated[
    ModeChoice,
    typer.Option(
        help="read-only looks; propose also writes proposals; apply tries each one that you approve."
    ),
]
ApproveOption = Annotated[
    bool, typer.Option("--approve", help="Approve every plan unattended; on lab hosts only.")
]
InFlightOption = Annotated[
    bool, typer.Option("--allow-in-flight", help="Let a change restart a server that is answering requests.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="`playbook` (built in), a \\[models.NAME] of the settings, or a model at --base-url.",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option(help="OpenAI-compatible endpoint, such as http://gpu1:30000/v1. Key: LEADLINE_API_KEY."),
]
LoadOption = Annotated[
    bool | None,
    typer.Option(
        "--allow-load/--no-load",
        help="May a benchmark send requests to the server? Default: on lab hosts only.",
    ),
]
SendRgOption = Annotated[bool, typer.Option("--send-rg", help="Send a static rg to a host that has none.")]
OutOption = Annotated[
    Path | None, typer.Option(help="Folder for case file and transcript; default: the session's.")
]
