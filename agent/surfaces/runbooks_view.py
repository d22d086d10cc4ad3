"""Print runbooks: what ``leadline runbooks list`` and ``show`` do."""

from __future__ import annotations

import json
import sys

from agent.config import load_settings
from agent.errors import UsageError
from agent.runbooks import find, read
from agent.surfaces.console import write_fitted
from tools.display import printable
from tools.wrong_fields import near_or_all


def list_runbooks(*, as_json: bool) -> None:
    """Print a line for every runbook; what is wrong with others goes to stderr."""
    settings = load_settings()
    found = find(settings)
    for book in found.books.values():
        if as_json:
            row = {"name": book.name, "description": book.description, "folder": str(book.folder)}
            sys.stdout.write(json.dumps(row | {"files": list(book.files)}) + "\n")
        else:
            write_fitted(f"{book.name}: {printable(book.description)}\n")
    if not found.books and not as_json:
        folders = ", ".join(str(folder) for folder in settings.runbooks)
        write_fitted(f"No runbooks in {folders}. One is a folder there: NAME/SKILL.md\n")
    for problem in found.problems:
        sys.stderr.write(f"leadline: left out: {printable(problem)}\n")


def show_runbook(name: str, file: str | None) -> None:
    """Print one runbook, or a file of it."""
    books = find(load_settings()).books
    if name not in books:
        raise UsageError(f"no runbook {name}", do=near_or_all(name, list(books)))
    sys.stdout.write(printable(read(books[name], file)) + "\n")
