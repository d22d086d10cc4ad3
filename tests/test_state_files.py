"""Files of the state folder when disk or folder fail for a moment: nothing is lost, nothing is crossed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agent.audit_files import Chain
from agent.errors import TranscriptError
from agent.events import Started, UserMessage
from agent.executions import Executions
from agent.transcript import Transcript, as_it_is
from tests.audit_parts import filled, lines
from tools.contract import ToolError

STARTED = Started(thread="x", product="0", recorded="playbook", symptom="s", hosts=["lab"], mode="propose")


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_an_audit_whose_folder_is_away_for_a_moment_writes_into_no_other_file(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    folder, away = tmp_path / "audit", tmp_path / "away"
    chain = Chain(folder)
    folder.rename(away)
    with pytest.raises(OSError), chain.locked():
        pass
    other = tmp_path / "transcript.jsonl"
    descriptor = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    away.rename(folder)
    with chain.locked():
        chain.append(b"{}", "0" * 64, durable=True)
    os.write(descriptor, b"mine\n")
    os.close(descriptor)
    chain.close()
    assert other.read_bytes() == b"mine\n" and len(lines(tmp_path)) == 4


def test_an_audit_that_cannot_be_opened_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "audit" / "installation").mkdir(parents=True)
    before = descriptors()
    for _ in range(3):
        with pytest.raises(OSError):
            Chain(tmp_path / "audit")
    assert descriptors() == before


def test_a_line_that_does_not_reach_the_disk_is_not_in_the_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "transcript.jsonl"
    transcript = Transcript(path, as_it_is)
    transcript.append(STARTED, durable=True)
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TranscriptError, match="quota"):
        transcript.append(UserMessage(turn=0, text="lost"), durable=True)
    monkeypatch.setattr(os, "fsync", real)
    transcript.append(UserMessage(turn=0, text="kept"), durable=True)
    transcript.close()
    assert [event.text for event in Transcript(path, as_it_is).events if isinstance(event, UserMessage)] == [
        "kept"
    ]


def test_a_ledger_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "executions.sqlite").mkdir()
    with pytest.raises(ToolError, match=r"execution ledger .* cannot be used"):
        Executions(tmp_path).open_on("gpu1", None)
