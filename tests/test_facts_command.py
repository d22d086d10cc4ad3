"""`leadline facts` on a real shell over SSH: a row a host, one that is down among them, what changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config import load_settings
from agent.errors import UsageError
from agent.looks import Seen
from agent.surfaces import facts_shown
from agent.surfaces.facts_shown import FactsOptions, interval, run
from agent.surfaces.facts_table import told
from evals.lab.hosts import Lab
from tests.lab_fixtures import lab_settings, running, said
from tools.history_store import HistoryStore
from tools.text_table import table

DOWN = "127.0.0.1:1"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Bring up the smallest host with an engine, in the state folder that the command uses."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    settings = lab_settings(tmp_path).model_copy(update={"state_dir": tmp_path / "leadline"})
    with running("ollama-cpu-quota", settings) as found:
        yield found


def test_hosts_stand_side_by_side_and_one_that_is_down_says_so(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        run(FactsOptions([lab.name, DOWN]))
    assert left.value.code == 6
    out = capsys.readouterr().out
    assert any(DOWN in line and "not reached" in line for line in out.splitlines())
    assert any(lab.name in line and "ollama" in line and " ok " in line for line in out.splitlines())
    before = said(lab, "systemctl show -p DropInPaths --value ollama.service").strip()
    assert "changed since" not in out, before
    said(lab, "mkdir -p /etc/systemd/system/ollama.service.d")
    said(lab, "printf '[Service]\\nNice=3\\n' > /etc/systemd/system/ollama.service.d/90-nice.conf")
    said(lab, "systemctl daemon-reload")
    run(FactsOptions([lab.name]))
    again = capsys.readouterr().out
    assert "changed since" in again
    assert "dropin /etc/systemd/system/ollama.service.d/90-nice.conf: sha256:" in again
    run(FactsOptions([lab.name], as_json=True))
    answer = json.loads(capsys.readouterr().out)
    assert answer["hosts"][lab.name]["changed"] == []
    assert answer["hosts"][lab.name]["facts"]["ollama.service health"] == "ok"
    settings = load_settings()
    store = HistoryStore(settings.state_dir / "fact-history", lambda data: data)
    assert store.past(lab.name, None).states[-1].facts["ollama.service engine"] == "ollama"


def test_a_watch_prints_what_changed_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    looks = iter(
        [[Seen("gpu1", flat={"kernel": "a"})], [Seen("gpu1")], [Seen("gpu1", changed=["kernel: a -> b"])]]
    )

    async def look_at(*_: object, **__: object) -> list[Seen]:
        found = next(looks, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    async def at_once(_: float) -> None:
        return None

    monkeypatch.setattr(facts_shown, "look_at", look_at)
    monkeypatch.setattr(asyncio, "sleep", at_once)
    run(FactsOptions(["gpu1"], watch=True))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("HOST")
    assert [line.split(" ", 1)[1] for line in lines[2:]] == ["gpu1: kernel: a -> b"]


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("1h", 3600)])
def test_intervals(text: str, seconds: int) -> None:
    assert interval(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "1s", "-5m", "10 days", "9" * 9 + "m"])
def test_intervals_that_cannot_be(text: str) -> None:
    with pytest.raises(UsageError, match="write 30s"):
        interval(text)


def test_a_table_lines_up_and_hides_nothing_a_terminal_would_obey() -> None:
    text = table(("A", "B"), [("gpu1", "\x1b[2Jred"), ("主机", "x" * 99)])
    head, first, second = text.splitlines()
    assert "\x1b" not in text
    assert head.index("B") == first.index("\\") == 6
    assert second.endswith("…")


def test_the_same_settings_are_told_in_one_line() -> None:
    one = {"a.service flag x": "1"}
    text = told([Seen("gpu1", flat=one), Seen("gpu2", flat=one)])
    assert "Settings are the same on gpu1, gpu2." in text
    other = told([Seen("gpu1", flat=one), Seen("gpu2", flat={"a.service flag x": "2"})])
    assert "flag x: 1 on gpu1; 2 on gpu2" in other
