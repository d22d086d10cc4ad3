"""Fifty planted secrets go through a whole investigation of a host: none comes out anywhere."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from agent.config import Settings
from agent.events import Failed, TextDelta
from agent.models import ToolSchema
from agent.session import Session
from agent.state import AssistantTurn, Message, ToolCall
from agent.surfaces.records import write_case
from tests.canaries import OWN, canaries, shown
from tests.in_process import leadline
from tests.scripted_parts import ScriptedModel, call, conclusion, turn
from tests.sshd_fixtures import any_host
from tools.registry import load_all

PART = 8
UNIT = "sglang-canary.service"
NOISE = "Nov 29 10:00:00 gpu1 engine[42]: Decode batch, #running-req: 1, gen throughput (token/s): 24.41\n"


class Listening(ScriptedModel):
    """Keep every message that the model was sent."""

    def __init__(self, moves: Sequence[AssistantTurn]) -> None:
        super().__init__(moves)
        self.heard = ""

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        self.heard += json.dumps(messages, ensure_ascii=False) + json.dumps(messages)
        return await super().next_turn(messages, tools, on_text)


def planted(folder: Path) -> Path:
    """Write a host: a folder with a file for each secret, a log and a unit with all of them."""
    files = folder / "files"
    files.mkdir(parents=True)
    for number, canary in enumerate(canaries()):
        (files / f"{number}.txt").write_text(f"{NOISE}{canary.text}\n{NOISE}")
    everything = NOISE.join(canary.text.replace("\0", " ") + "\n" for canary in canaries())
    programs = folder / "bin"
    programs.mkdir()
    (programs / "log").write_text(_as_journal(everything))
    (programs / "unit").write_text(
        f"# /etc/systemd/system/{UNIT}\n[Service]\n"
        + "".join(f"Environment={c.text}\n" for c in canaries() if "\n" not in c.text and "\0" not in c.text)
        + "ExecStart=/opt/venv/bin/python -m sglang.launch_server --api-key "
        + canaries()[0].cores[0]
        + " --port 1\n"
    )
    for name, body in (
        ("journalctl", f"cat {programs}/log; cat {programs}/log >&2"),
        (
            "systemctl",
            f'case "$1" in list-units) echo "{UNIT} loaded active running Test" ;; '
            f'cat) cat {programs}/unit ;; show) echo "Id={UNIT}"; echo "ActiveState=active" ;; esac',
        ),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    return files


def _as_journal(text: str) -> str:
    stamp = "2026-11-29T13:00:00+0000 gpu1 sglang[42]: "
    return "".join(stamp + line + "\n" for line in text.splitlines())


def moves(files: Path) -> list[AssistantTurn]:
    """Return what a hostile model asks for: each file whole, in parts, by search, and words of its own."""
    all_of = list(enumerate(canaries()))
    return [
        turn(*_numbered(call("read_file", path=f"{files}/{n}.txt") for n, _ in all_of), text="reading"),
        turn(*_numbered(call("run", command=f"tail -n 2 {files}/{n}.txt") for n, _ in all_of)),
        turn(
            *_numbered(call("grep", pattern=c.cores[0][-5:], path=str(files), fixed=True) for _, c in all_of)
        ),
        turn(
            *_numbered(
                [
                    call("journal", unit=UNIT, boot=False, last=5000),
                    call("journal", unit=UNIT, boot=False, pattern="[A-Za-z0-9]{12}", fold=False),
                    call("run", command=f"cat {files}/1.txt {files}/6.txt"),
                    call("run", command=f"cut -c 1-200 {files}/6.txt"),
                    call("facts"),
                    call("settings", names=["disable_cuda_graph"]),
                ]
            )
        ),
        turn(
            *_numbered(call("read_file", path=f"/absent/\n{c.text}"[:3000]) for _, c in all_of),
            text="\n".join(c.text for _, c in all_of),
        ),
        turn(*_numbered(call("run", command=c.text) for _, c in all_of)),
        turn(conclusion(quote="Decode batch", outcome="inconclusive")),
    ]


def _numbered(calls: Iterable[ToolCall]) -> list[ToolCall]:
    return [c.model_copy(update={"id": f"{c.id}_{number}"}) for number, c in enumerate(calls)]


async def investigate(kind: str, root: Path, settings: Settings, files: Path) -> tuple[Listening, str, str]:
    """Let the model work, speak to it as a person would, and return it, what was yielded, and the thread."""
    model = Listening(moves(files))
    said = "decode is slow\n" + "\n".join(canary.text for canary in canaries())
    yielded = ""
    async with any_host(kind, root) as host:  # type: ignore[arg-type]
        session = Session.start(settings, model, {host.name: host}, said, tools=load_all())
        try:
            async for event in session.ask(said):
                if not isinstance(event, TextDelta):  # a model's own words, which knows no secret
                    yielded += repr(event)
            assert session.ended is not None
            assert not [event for event in session.events if isinstance(event, Failed)]
        finally:
            await session.close()
    return model, yielded, session.thread


@pytest.mark.slow
@pytest.mark.threat(2)
@pytest.mark.parametrize("kind", ["local", "asyncssh"])
def test_no_planted_secret_reaches_any_sink(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    files = planted(tmp_path / "host")
    monkeypatch.setenv("PATH", str(tmp_path / "host/bin"), prepend=os.pathsep)
    for name, value in {
        "STATE_DIR": tmp_path / "state",
        "CACHE_DIR": tmp_path / "cache",
        "API_KEY": OWN,
    }.items():
        monkeypatch.setenv(f"LEADLINE_{name}", str(value))
    settings = Settings(max_turns=12)
    (tmp_path / "ssh").mkdir()
    model, yielded, thread = asyncio.run(investigate(kind, tmp_path / "ssh", settings, files))
    write_case(settings.state_dir / "threads" / thread, tmp_path / "case")
    printed = "".join(_printed(thread, files))
    texts = {"messages": model.heard, "events": yielded, "printed": printed}
    sinks = texts | {
        str(path.relative_to(tmp_path)): path.read_bytes().decode("utf-8", "replace")
        for folder in ("state", "cache", "case")
        for path in (tmp_path / folder).rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    assert {"messages", "events", "printed", "case/case.md", "case/case.json", "case/case.html"} <= set(sinks)
    assert any(name.endswith("checkpoints.sqlite") for name in sinks)
    assert len([name for name in sinks if "/artifacts/" in name]) > 50
    assert model.heard.count("<masked:") > 200
    record_property("cases", len(canaries()))
    assert _leaks(sinks) == []


def _printed(thread: str, files: Path) -> list[str]:
    """Return what the command line prints of it, and what a call by hand prints, errors included."""
    commands = [
        ("sessions", "show", thread),
        ("sessions", "list", "--json"),
        ("cases", "show", thread),
        ("cases", "show", thread, "--json"),
        ("tool", "local", "run", json.dumps({"command": f"cat {files}/1.txt {files}/6.txt {files}/49.txt"})),
        ("tool", "local", "read_file", json.dumps({"path": f"{files}/47.txt"})),
        ("tool", "local", "grep", json.dumps({"path": str(files), "pattern": "[A-Za-z0-9]{12}"})),
        *(("tool", "local", "run", json.dumps({"command": canary.text})) for canary in canaries()[:20]),
    ]
    done = [leadline(*words) for words in commands]
    assert [one.returncode for one in done[:4]] == [0, 0, 0, 0], done
    assert all(one.returncode == 0 and "<masked:" in one.stdout for one in done[4:7]), done[4:7]
    return [one.stdout + one.stderr for one in done]


def _leaks(sinks: dict[str, str]) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for name, text in sinks.items():
        for canary in canaries():
            if any(core[start : start + PART] in text for core in canary.cores for start in _starts(core)):
                found.append((name, canary.kind, shown(canary, text, least=PART) or ""))
    return found


def _starts(core: str) -> range:
    return range(max(1, len(core) - PART + 1))


@pytest.mark.threat(2)
def test_what_is_searched_for_would_be_found() -> None:
    """The search itself finds each of the fifty where nothing masks it."""
    kinds = {canary.kind for canary in canaries()}
    assert {kind for _, kind, _ in _leaks({"raw": "".join(c.text for c in canaries())})} == kinds
