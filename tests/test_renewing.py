"""Recordings are made again with their command, and only kept when they still show what they are kept for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from agent.errors import LeadlineError, UsageError
from evals import recordings, renewing

FINE = "healthy-fine"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one recording of the product, one of another agent, and a stray artifact."""
    made = tmp_path / "transcripts"
    shutil.copytree(recordings.FOLDER / recordings.ARTIFACTS, made / recordings.ARTIFACTS)
    for name in (FINE, "shell-right"):
        for end in (".jsonl", ".yaml"):
            shutil.copy(recordings.FOLDER / f"{name}{end}", made)
    return made


@pytest.fixture
def ran(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let each command leave the very thread that was recorded; return the commands."""
    commands: list[list[str]] = []

    def run(words: list[str], state: Path, root: Path) -> Path:
        commands.append(words)
        recordings.unpack_to(FINE, state / "thread", folder)
        return state / "thread"

    monkeypatch.setattr(renewing, "_run", run)
    return commands


def test_only_what_the_product_made_is_made_again(folder: Path) -> None:
    assert renewing.renewable(folder) == [FINE]
    with pytest.raises(UsageError, match="shell-right cannot be made again: baseline:scripted"):
        renewing.renew("shell-right", folder)


def test_a_recording_is_made_again_with_its_symptom(folder: Path, ran: list[list[str]]) -> None:
    before = recordings.about(FINE, folder)
    symptom = recordings.load(FINE, folder).started.symptom
    assert renewing.renew(FINE, folder) == folder / f"{FINE}.jsonl"
    assert ran == [["ask", "lab:kimi-k26-pp8-healthy", symptom, "--mode", "propose"]]
    assert recordings.about(FINE, folder) == before


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("outcome", "diagnosed", "came to configuration_fine, not diagnosed"),
        ("expect", {"success": 0.0}, "success is 1, expected 0"),
    ],
)
def test_what_came_out_otherwise_is_not_kept(
    folder: Path, ran: list[list[str]], field: str, value: object, says: str
) -> None:
    path = folder / f"{FINE}.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {field: value}))
    before = (folder / f"{FINE}.jsonl").read_bytes()
    with pytest.raises(LeadlineError, match=says):
        renewing.renew(FINE, folder)
    assert (folder / f"{FINE}.jsonl").read_bytes() == before


def test_artifacts_that_nothing_needs_are_swept_away(folder: Path) -> None:
    stray = folder / recordings.ARTIFACTS / ("0" * 64)
    stray.write_bytes(b"left")
    gone = renewing.sweep(folder)
    assert stray in gone and not stray.exists()
    assert renewing.sweep(folder) == []
    assert recordings.load(FINE, folder).events
