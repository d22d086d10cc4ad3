"""The commands on investigations of this machine: names, flags and help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agent.surfaces.options import JsonOption, SessionArgument, TranscriptArgument

sessions = typer.Typer(no_args_is_help=True, help="Investigations on this machine.")


class ExportForm(StrEnum):
    """Forms in which an investigation is given away."""

    MD = "md"
    HTML = "html"
    JSON = "json"
    TAR = "tar"


@sessions.command("list")
def sessions_list(
    host: Annotated[str | None, typer.Option(help="Only those of this host.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the N newest.")] = None,
    json_: JsonOption = False,
) -> None:
    """List investigations, newest first: outcome, age, size, hosts, symptom.

    Example: leadline sessions list --host gpu1 --limit 5
    """
    from agent.surfaces.sessions_list import list_sessions

    list_sessions(host=host, limit=limit, as_json=json_)


@sessions.command("show")
def sessions_show(session: SessionArgument, json_: JsonOption = False) -> None:
    """Print the case file of an investigation as Markdown, or as JSON."""
    from agent.surfaces.records import show_session

    show_session(session, as_json=json_)


@sessions.command("export")
def sessions_export(
    session: SessionArgument,
    form: Annotated[
        ExportForm, typer.Option("--format", "-f", help="tar holds the case, its transcript and its outputs.")
    ] = ExportForm.MD,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: standard output.")
    ] = None,
) -> None:
    """Write an investigation for somebody else, secrets masked once more.

    Example: leadline sessions export 20260131-142530-9f3a --format tar --out case.tar
    """
    from agent.surfaces.sessions_export import export

    export(session, form.value, out)


@sessions.command("rm")
def sessions_rm(
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="The investigations, as `leadline sessions list` shows them."),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also where a change stands that only its record can take back.")
    ] = False,
) -> None:
    """Delete investigations with their outputs; what is at work, or has a change that stands, is refused.

    Example: leadline sessions rm 20260131-142530-9f3a
    """
    from agent.surfaces.sessions_remove import remove

    remove(ids, force=force)


@sessions.command("validate")
def sessions_validate(transcript: TranscriptArgument) -> None:
    """Check a transcript, or that of a folder, against the schema; name line and field of what is wrong."""
    from agent.surfaces.records import validate

    validate(transcript)
