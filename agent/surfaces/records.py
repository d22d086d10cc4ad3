"""Print and write what is kept: sessions, case files, playbooks, settings."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent import threads
from agent.config import config_files, load_settings
from agent.errors import UsageError

if TYPE_CHECKING:
    from agent.casefile import CaseFile


def list_sessions(*, as_json: bool) -> None:
    """Print a line for each investigation, newest first."""
    found = threads.list_threads(load_settings())
    for one in found:
        if as_json:
            row = {
                "session_id": one.thread,
                "started_at": one.started_at.isoformat(),
                "hosts": one.hosts,
                "mode": one.mode,
                "turns": one.turns,
                "outcome": one.outcome,
                "symptom": one.symptom,
            }
            sys.stdout.write(json.dumps(row) + "\n")
        else:
            sys.stdout.write(
                f"{one.thread}  {one.outcome or 'unfinished':<18} {', '.join(one.hosts)}  {one.symptom}\n"
            )
    if not found and not as_json:
        sys.stdout.write("No investigations yet. Start one: leadline ask HOST SYMPTOM\n")


def show_session(session: str, *, as_json: bool) -> None:
    """Print the case file of one investigation."""
    from agent.casefile import to_json, to_markdown

    case = _case(threads.find(load_settings(), session))
    sys.stdout.write((to_json(case) if as_json else to_markdown(case)) + "\n")


def write_case(folder: Path, out: Path) -> list[str]:
    """Write the case file of a session's folder as Markdown and JSON; return the paths."""
    from agent.casefile import to_json, to_markdown

    case = _case(folder)
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "case.md", out / "case.json"]
    paths[0].write_text(to_markdown(case) + "\n")
    paths[1].write_text(to_json(case) + "\n")
    if out != folder:
        shutil.copyfile(folder / "transcript.jsonl", out / "transcript.jsonl")
        shutil.copytree(folder / "artifacts", out / "artifacts", dirs_exist_ok=True)
    return [str(path) for path in [*paths, out / "transcript.jsonl"]]


def _case(folder: Path) -> CaseFile:
    from agent.casefile import build
    from agent.transcript import read_events
    from tools.artifacts import ArtifactStore

    return build(read_events(folder / "transcript.jsonl"), ArtifactStore(folder / "artifacts"))


def validate(path: Path) -> None:
    """Read a whole transcript; raise `TranscriptError` that names line and field."""
    from agent.transcript import read_events

    events = read_events(path)
    sys.stdout.write(f"{path}: {len(events)} events, schema v1, valid\n")


def list_playbooks(*, as_json: bool) -> None:
    """Print every playbook with its description."""
    from prompts.playbooks import load_all

    for book in load_all():
        if as_json:
            sys.stdout.write(json.dumps({"name": book.name, "description": book.description}) + "\n")
        else:
            sys.stdout.write(f"{book.name}: {book.description}\n")


def show_playbook(name: str) -> None:
    """Print the file of one playbook."""
    from prompts.playbooks import paths

    found = {path.stem: path for path in paths()}
    if name not in found:
        raise UsageError(f"no playbook {name}", do=f"there are: {', '.join(found)}")
    sys.stdout.write(found[name].read_text())


def show_config(*, as_json: bool) -> None:
    """Print the settings in force; secrets are masked by their type."""
    settings = load_settings()
    if as_json:
        sys.stdout.write(settings.model_dump_json() + "\n")
        return
    for path in config_files():
        sys.stdout.write(f"# {path}: {'read' if path.is_file() else 'not there'}\n")
    for name, value in settings.model_dump(mode="json").items():
        sys.stdout.write(f"{name} = {value!r}\n")
