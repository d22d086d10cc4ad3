"""``leadline cases``, ``playbooks`` and ``audit``: what is read of what was found, known and done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.surfaces import cases_search
from agent.surfaces.options import JsonOption, PlaybookArgument, SessionArgument

cases = typer.Typer(no_args_is_help=True, help="Case files: what was found, in a form that anyone can check.")
playbooks = typer.Typer(no_args_is_help=True, help="Known causes that the built-in model follows.")
audit = typer.Typer(no_args_is_help=True, help="What was done on hosts: sealed records, and their check.")
cases_search.register(cases)


@cases.command("list")
def cases_list(json_: JsonOption = False) -> None:
    """List the case files, newest first, with the path of each page."""
    from agent.surfaces.records import list_cases

    list_cases(as_json=json_)


@cases.command("show")
def cases_show(session: SessionArgument, json_: JsonOption = False) -> None:
    """Print a case file as Markdown, or as JSON."""
    from agent.surfaces.records import show_session

    show_session(session, as_json=json_)


@cases.command("open")
def cases_open(
    session: SessionArgument,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in a web browser.")] = False,
) -> None:
    """Write the HTML page of an investigation anew and print its path."""
    from agent.surfaces.records import open_case

    open_case(session, browser=browser)


@playbooks.command("list")
def playbooks_list(json_: JsonOption = False) -> None:
    """List the playbooks with what each is for."""
    from agent.surfaces.records import list_playbooks

    list_playbooks(as_json=json_)


@playbooks.command("show")
def playbooks_show(name: PlaybookArgument) -> None:
    """Print one playbook."""
    from agent.surfaces.records import show_playbook

    show_playbook(name)


@audit.command("verify")
def audit_verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A file or folder of an audit; default: ours.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Check the audit: exit 1 with the first record that was edited, deleted, moved or cut off.

    Example: leadline audit verify --json
    """
    from agent.surfaces.audit_command import verify

    verify(file, as_json=json_)


@audit.command("show")
def audit_show(
    host: Annotated[str | None, typer.Option(help="Only records of this host.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="30m, 2h, 7d, or an ISO date.")] = None,
    json_: JsonOption = False,
) -> None:
    """Print what was done on hosts and decided about changes, oldest first.

    Example: leadline audit show --host gpu1 --since 2h
    """
    from agent.surfaces.audit_command import show

    show(host, since, as_json=json_)
