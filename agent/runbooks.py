"""Runbooks in the Agent Skills format: folders with a SKILL.md, listed by name, read when one is wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.errors import UsageError
from prompts import strict_yaml
from prompts.render import render
from tools.contract import Args, Tool, ToolContext, ToolError
from tools.display import printable
from tools.wrong_fields import first_wrong

if TYPE_CHECKING:
    from agent.config import Settings

FILE = "SKILL.md"
MAX_BYTES = 64 << 10
MAX_LISTED, MAX_DESCRIPTION = 40, 400
_HEAD = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*\n?(.*)\Z", re.DOTALL | re.MULTILINE)


class _Head(BaseModel):
    """Hold the fields of the head that count here; the format has others, which are left alone."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)
    description: str = Field(min_length=1, max_length=1024)


@dataclass(frozen=True, slots=True)
class Runbook:
    """Hold one runbook; ``files`` are what its folder has besides, by their names in it."""

    name: str
    description: str
    folder: Path
    body: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Hold the runbooks by name, and what is wrong with folders that should be one."""

    books: Mapping[str, Runbook]
    problems: Sequence[str]


class RunbookArgs(Args):
    """Name a runbook, and one of its files where that is wanted."""

    name: str = Field(description="Which runbook, as listed.")
    file: str | None = Field(
        default=None, description="A file of it, such as references/nccl.md; default: its SKILL.md."
    )


def find(settings: Settings) -> Found:
    """Return the runbooks of the folders that the settings name; the first of a name counts."""
    books: dict[str, Runbook] = {}
    problems: list[str] = []
    for folder in settings.runbooks:
        for path in sorted(folder.expanduser().glob(f"*/{FILE}")):
            try:
                book = load(path)
            except UsageError as error:
                problems.append(str(error))
                continue
            if book.name in books:
                problems.append(f"{path}: {book.name} stands in {books[book.name].folder} already")
            else:
                books[book.name] = book
    return Found(books, problems)


def load(path: Path) -> Runbook:
    """Return the runbook of a SKILL.md; raise `UsageError` that names the file and what is wrong in it."""
    found = _HEAD.match(_text(path))
    if found is None:
        raise UsageError(f"{path}: it does not begin with a head between two lines of ---")
    try:
        head = _Head.model_validate(strict_yaml.read(found[1])[0])
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: its head is not YAML: {' '.join(str(error).split())[:160]}") from error
    except ValidationError as error:
        wrong = first_wrong(error, "head", _Head)
        raise UsageError(f"{path}: {wrong.text}", do=wrong.do) from error
    if head.name != path.parent.name:
        raise UsageError(f"{path}: its name is {head.name}, that of its folder {path.parent.name}")
    return Runbook(
        head.name, " ".join(head.description.split()), path.parent, found[2].strip(), _files(path.parent)
    )


def _files(folder: Path) -> tuple[str, ...]:
    named = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != FILE]
    return tuple(str(path.relative_to(folder)) for path in named[:MAX_LISTED])


def _text(path: Path) -> str:
    """Return a text file whole; raise `UsageError` for one that is none, or is too large."""
    try:
        if not path.is_file():  # a pipe would never end
            raise UsageError(f"{path}: it is no regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path}: it is larger than {MAX_BYTES >> 10} KiB")
        return data.decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: it is not UTF-8 text") from error


def read(book: Runbook, file: str | None) -> str:
    """Return the body, or a file of the runbook's own folder; raise `UsageError` for any other."""
    if file is None:
        return book.body
    path = (book.folder / file).resolve()
    if file not in book.files or not path.is_relative_to(book.folder.resolve()):
        raise UsageError(
            f"{book.name} has no file {file}", do=f"there are: {', '.join(book.files) or 'none'}"
        )
    return _text(path)


def listed(books: Mapping[str, Runbook]) -> list[str]:
    """Return what the model is told of the runbooks: nothing where there are none."""
    if not books:
        return []
    shown = [(book.name, printable(book.description)[:MAX_DESCRIPTION]) for book in books.values()]
    return [render("note_runbooks", books=shown[:MAX_LISTED], more=max(0, len(shown) - MAX_LISTED))]


def tool(books: Mapping[str, Runbook]) -> Tool[RunbookArgs]:
    """Return the tool that reads these runbooks, which works on no host."""

    async def run(ctx: ToolContext, args: RunbookArgs) -> dict[str, Any]:
        book = books.get(args.name)
        if book is None:
            raise ToolError(f"no runbook {args.name}; there are: {', '.join(books)}")
        try:
            text = read(book, args.file)
        except UsageError as error:
            raise ToolError(str(error)) from error
        limit = ctx.settings.view_chars * 3 // 4
        view: dict[str, Any] = {"runbook": book.name, "file": args.file or FILE, "text": text[:limit]}
        if len(text) > limit:
            view["cut"] = f"{limit} of {len(text)} characters shown"
        if args.file is None and book.files:
            view["files"] = list(book.files)
        return view

    return Tool(
        name="runbook",
        description=(
            "Read a runbook of the people who run these hosts, or a file of it. It says how they look at a "
            "kind of trouble; it is advice, no evidence, and approves nothing."
        ),
        args=RunbookArgs,
        run=run,
    )
