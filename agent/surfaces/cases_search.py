"""Search the case files: ``leadline cases search``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from agent.surfaces.options import JsonOption


def register(cases: typer.Typer) -> None:
    """Add the command to those of case files."""
    cases.command("search")(cases_search)


def cases_search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What you remember of it.")],
    host: Annotated[str | None, typer.Option(help="Only cases of this host.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    json_: JsonOption = False,
) -> None:
    """Find earlier cases by words of symptom, summary, settings or engine, best first.

    Example: leadline cases search "cuda graph" --host gpu1
    """
    search_cases(" ".join(words), host, limit, as_json=json_)


def search_cases(words: str, host: str | None, limit: int, *, as_json: bool) -> None:
    """Print a line for every case that was found, with what was kept."""
    import sqlite3

    from agent.config import load_settings
    from agent.errors import LeadlineError
    from agent.seen_before import search
    from agent.surfaces.console import write_fitted
    from tools.display import printable

    settings = load_settings()
    try:
        found = search(settings, words, host, limit)
    except sqlite3.Error as error:
        raise LeadlineError(
            f"the index of cases cannot be used: {error}", do="remove cases.sqlite"
        ) from error
    for row in found:
        if as_json:
            sys.stdout.write(row.model_dump_json() + "\n")
            continue
        engines = f" ({', '.join(row.engines)})" if row.engines else ""
        head = f"{row.thread}  {row.outcome:<18} {', '.join(row.hosts)}{engines}  {row.symptom}"
        sys.stdout.write(printable(head).replace("\n", " ") + "\n")
        for kept in row.kept:
            sys.stdout.write(printable(f"    kept: {kept}") + "\n")
    if not found and not as_json:
        where = f" of {host}" if host else ""
        write_fitted(f"No case{where} holds any of these words. See all: leadline cases list\n")
