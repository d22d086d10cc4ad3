"""Print and write what is kept: sessions, case files, playbooks, settings."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent import threads
from agent.config import Settings, load_settings
from agent.errors import UsageError
from agent.surfaces.console import write_fitted
from tools.display import printable
from tools.wrong_fields import near_or_all

if TYPE_CHECKING:
    from agent.casefile import CaseFile
    from agent.events import Event


def show_session(session: str, *, as_json: bool) -> None:
    """Print the case file of one investigation."""
    from agent.casefile import to_json, to_markdown

    settings = load_settings()
    case = _case(threads.find(settings, threads.named(settings, session)))
    sys.stdout.write((to_json(case) if as_json else to_markdown(case)) + "\n")


def write_case(folder: Path, out: Path) -> list[str]:
    """Write the case file of a session's folder as Markdown, JSON and HTML; return the paths."""
    from agent.casefile import to_json, to_markdown

    case = _case(folder)
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "case.md", out / "case.json", out / "case.html"]
    paths[0].write_text(to_markdown(case) + "\n", encoding="utf-8")
    paths[1].write_text(to_json(case) + "\n", encoding="utf-8")
    paths[2].write_text(_page(folder, case), encoding="utf-8")
    if out != folder:
        shutil.copyfile(folder / "transcript.jsonl", out / "transcript.jsonl")
        shutil.copytree(folder / "artifacts", out / "artifacts", dirs_exist_ok=True)
    return [str(path) for path in [*paths, out / "transcript.jsonl"]]


def case_files(folder: Path) -> list[str]:
    """Return the files of a case that lie in a session's folder."""
    paths = [folder / name for name in ("case.md", "case.json", "case.html")]
    return [str(path) for path in paths if path.is_file()]


def case_text(folder: Path, form: str, events: Sequence[Event] | None = None) -> str:
    """Return the case file of a session's folder as ``md``, ``json`` or ``html``.

    ``events`` stand in for those of its transcript, as where secrets in them were masked anew.
    """
    from agent.casefile import build, to_json, to_markdown
    from agent.casefile_html import to_html
    from agent.transcript import read_events
    from tools.artifacts import ArtifactStore

    found = events if events is not None else read_events(folder / "transcript.jsonl")
    store = ArtifactStore(folder / "artifacts")
    case = build(found, store)
    if form == "html":
        return to_html(case, found, store)
    return (to_json(case) if form == "json" else to_markdown(case)) + "\n"


def _case(folder: Path) -> CaseFile:
    from agent.casefile import build
    from agent.transcript import read_events
    from tools.artifacts import ArtifactStore

    return build(read_events(folder / "transcript.jsonl"), ArtifactStore(folder / "artifacts"))


def _page(folder: Path, case: CaseFile) -> str:
    from agent.casefile_html import to_html
    from agent.transcript import read_events
    from tools.artifacts import ArtifactStore

    return to_html(case, read_events(folder / "transcript.jsonl"), ArtifactStore(folder / "artifacts"))


def list_cases(*, as_json: bool) -> None:
    """Print a line for each investigation that has a page, newest first: its outcome, symptom and page."""
    settings = load_settings()
    found = [one for one in threads.list_threads(settings) if _page_of(settings, one.thread).is_file()]
    for one in found:
        page = str(_page_of(settings, one.thread))
        if as_json:
            row = {"session_id": one.thread, "outcome": one.outcome, "symptom": one.symptom, "page": page}
            sys.stdout.write(json.dumps(row) + "\n")
        else:
            outcome = one.outcome or "unfinished"
            sys.stdout.write(printable(f"{one.thread}  {outcome:<18} {one.symptom}") + f"\n    {page}\n")
    if not found and not as_json:
        write_fitted("No case files yet. Start an investigation: leadline ask HOST SYMPTOM\n")


def open_case(session: str, *, browser: bool) -> None:
    """Write the page of an investigation as its transcript stands, print its path, and open it if asked."""
    settings = load_settings()
    folder = threads.find(settings, threads.named(settings, session))
    page = _page_of(settings, folder.name)
    page.write_text(_page(folder, _case(folder)), encoding="utf-8")
    sys.stdout.write(f"{page}\n")
    if browser:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            raise UsageError("no browser could be started", do=f"open {page} yourself")


def _page_of(settings: Settings, session: str) -> Path:
    return threads.folder_of(settings, session) / "case.html"


def validate(path: Path) -> None:
    """Read a whole transcript; raise `TranscriptError` that names line and field."""
    from agent.transcript import check_order, read_events

    if path.is_dir():
        path /= "transcript.jsonl"
    events = read_events(path)
    check_order(events, path)
    sys.stdout.write(f"{path}: {len(events)} events, schema v1, valid\n")


def list_playbooks(*, as_json: bool) -> None:
    """Print every playbook with its description."""
    from prompts.playbooks import load_all

    for book in load_all():
        if as_json:
            sys.stdout.write(json.dumps({"name": book.name, "description": book.description}) + "\n")
        else:
            write_fitted(f"{book.name}: {book.description}\n")


def show_playbook(name: str) -> None:
    """Print the file of one playbook."""
    from prompts.playbooks import paths

    found = {path.stem: path for path in paths()}
    if name not in found:
        raise UsageError(f"no playbook {name}", do=near_or_all(name, list(found)))
    sys.stdout.write(found[name].read_text())
