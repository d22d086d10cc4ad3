"""A checkpoint that somebody else wrote builds no object, runs nothing, and cannot lead past a review."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import ormsgpack
import pytest

from agent import threads
from agent.driver import checkpoints
from agent.errors import UsageError
from agent.events import ActionStarted, ApprovalGiven
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import make_settings
from tests.trial_parts import moves, open_session

TARGETS = [
    ("os", "system", "touch {canary}"),
    ("os", "popen", "touch {canary}"),
    ("subprocess", "getoutput", "touch {canary}"),
    ("builtins", "eval", "open('{canary}', 'w')"),
    ("builtins", "exec", "open('{canary}', 'w')"),
    ("pathlib", "Path", "{canary}", "touch"),
    ("langchain_core.messages", "HumanMessage", "{canary}"),
]
EXTENSIONS = range(8)
"""Codes under which langgraph's serializer may build objects of any module."""


class Opens:
    """Pickle as a call of `open`."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.canary), "w")


def payloads(canary: Path) -> list[tuple[str, bytes]]:
    """Return stored values, each with the kind that says how it is read."""
    found: list[tuple[str, bytes]] = []
    for code in EXTENSIONS:
        for target in TARGETS:
            order = [part.format(canary=canary) for part in target]
            for shape in (order, [*order[:2], order[2:]], [*order[:2], {"command": order[2]}]):
                evil = ormsgpack.Ext(code, ormsgpack.packb(tuple(shape)))
                found.append(("msgpack", ormsgpack.packb({"turn": evil, "route": evil})))
    for target in TARGETS:
        order = [part.format(canary=canary) for part in target]
        built = {"lc": 2, "type": "constructor", "id": order[:2], "args": order[2:], "kwargs": {}}
        found.append(("json", json.dumps({"turn": built, "route": built}).encode()))
    found.append(("pickle", pickle.dumps(Opens(canary))))
    found.append(("bytes", b"\x80\x05\x95"))
    return found


def rewrite(path: Path, kind: str, value: bytes) -> int:
    """Put a value into every stored checkpoint and every pending write; return how many."""
    base = sqlite3.connect(path)
    inner = ormsgpack.unpackb(value, ext_hook=ormsgpack.Ext) if kind == "msgpack" else None
    rows = base.execute("select rowid, checkpoint from checkpoints").fetchall()
    for row, blob in rows:
        if inner is not None:  # inside an otherwise sound checkpoint
            whole = ormsgpack.unpackb(blob)
            whole["channel_values"] |= inner
            base.execute(
                "update checkpoints set checkpoint = ? where rowid = ?", (ormsgpack.packb(whole), row)
            )
        else:
            base.execute(
                "update checkpoints set type = ?, checkpoint = ? where rowid = ?", (kind, value, row)
            )
    base.execute("update writes set type = ?, value = ?", (kind, value))
    base.commit()
    base.close()
    return len(rows)


@pytest.mark.threat(17)
async def test_a_forged_value_is_not_built(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What reads a thread's checkpoints is given each forgery as a stored value."""
    canary = tmp_path / "canary"
    tried = payloads(canary)
    async with checkpoints(tmp_path / "checkpoints.sqlite") as saver:
        for kind, value in tried:
            try:
                read = saver.serde.loads_typed((kind, value))
            except (ValueError, TypeError, NotImplementedError, ImportError):
                continue
            finally:
                assert not canary.exists(), (kind, value)
            # Paths are among the few types that are built; a path does nothing by being one.
            plain = (str, bytes, int, float, list, dict, tuple, type(None), PurePath)
            values = read.values() if isinstance(read, dict) else [read]
            assert all(isinstance(one, plain) for one in values), (kind, value, read)
    record_property("cases", len(tried))


ROUTES = ["experiment", "act", "review", "conclude", "end", "no such node"]


@pytest.mark.threat(17)
@pytest.mark.parametrize("route", ROUTES)
async def test_a_forged_route_does_not_lead_past_the_review(tmp_path: Path, route: str) -> None:
    """Who can write the state of the graph can name a node and a digest; the record has no approval."""
    host = FileHost(tmp_path / "host.json")
    session = open_session(tmp_path, FakeService(host), moves())
    [event async for event in session.ask()]
    asked = session.waiting
    assert asked is not None
    await session.close()
    forged = {"route": route, "approved": asked.digest, "turn": 3, "branch:to:experiment": None}
    rewrite(session.folder / "checkpoints.sqlite", "msgpack", ormsgpack.packb(forged))
    again_ = open_session(tmp_path, FakeService(host), moves(), resume=True)
    try:
        [event async for event in again_.ask()]
    except (UsageError, ValueError, KeyError):
        pass
    finally:
        await again_.close()
    assert host.read()["restarts"] == 0 and host.read()["plans"] == {}
    assert not [event for event in again_.events if isinstance(event, ActionStarted | ApprovalGiven)]


@pytest.mark.threat(17)
@pytest.mark.parametrize(
    "name",
    ["../one", "/etc", "one/../one", "", ".", "..", "one\0", "one\n", "link", "a" * 300, "checkpoint_ns"],
)
def test_an_id_from_outside_names_no_other_folder(tmp_path: Path, name: str) -> None:
    """A thread is named by its id alone; no id of a checkpoint is taken from anybody."""
    settings = make_settings(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "transcript.jsonl").write_text("{}\n")
    (tmp_path / "threads").mkdir()
    (tmp_path / "threads" / "link").symlink_to(outside)
    with pytest.raises(UsageError):
        threads.find(settings, name)
