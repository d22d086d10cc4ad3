"""A checkpoint that somebody else wrote: nothing in it runs; the thread comes back from its transcript."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from agent.config import pin_libraries
from agent.errors import UsageError
from agent.events import ToolFinished, TurnTaken
from agent.session import Session
from agent.surfaces.opening import resume as resume_session
from agent.threads import folder_of
from tests.scripted_parts import STORY, ScriptedModel, again, begin, make_settings, run

Bomb = tuple[str, bytes]
"""The type that a stored value claims to be of, and its bytes."""


class _Order:
    """An object whose unpickling runs a command."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.canary}",)


def _constructor(place: list[str], order: str) -> bytes:
    """Return the text by which langchain asks for an object to be made."""
    return json.dumps(
        {"lc": 2, "type": "constructor", "id": place, "method": None, "args": [order], "kwargs": {}}
    ).encode()


def bombs(canary: Path) -> dict[str, Bomb]:
    """Return hostile values, by what would have to go wrong for one of them to run."""
    order = f"touch {canary}"
    found: dict[str, Bomb] = {
        "pickle": ("pickle", pickle.dumps(_Order(canary))),
        "pickle called msgpack": ("msgpack", pickle.dumps(_Order(canary))),
        "json constructor": ("json", _constructor(["os", "system"], order)),
        "json module": ("json", _constructor(["subprocess", "getoutput"], order)),
        "unknown type": ("yaml", b"!!python/object/apply:os.system [touch x]"),
        "no type": ("", b"\xff\xfe"),
        "not what it says": ("msgpack", b"\xc1\xc1\xc1"),
    }
    shapes: dict[int, Any] = {
        0: ("os", "system", order),
        1: ("os", "system", [order]),
        2: ("os", "system", {"command": order}),
        3: ("os", "system", order, "__call__"),
        4: ("subprocess", "getoutput", {"cmd": order}, "run"),
        5: ("subprocess", "getoutput", {"cmd": order}, "model_validate"),
    }
    for code, shape in shapes.items():
        found[f"msgpack extension {code}"] = (
            "msgpack",
            ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(shape))),
        )
    return found


def planted(path: Path, bomb: Bomb, where: str) -> int:
    """Put a value into every row of a kind; return how many rows there are."""
    kind, data = bomb
    with closing(sqlite3.connect(path)) as base, base:
        if where == "writes":
            return base.execute("update writes set type = ?, value = ?", (kind, data)).rowcount
        if where == "metadata":
            return base.execute("update checkpoints set metadata = ?", (data,)).rowcount
        if where == "checkpoint":
            return base.execute("update checkpoints set type = ?, checkpoint = ?", (kind, data)).rowcount
        rows = base.execute("select rowid, checkpoint from checkpoints").fetchall()
        value = ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext)
        for row, blob in rows:
            checkpoint = ormsgpack.unpackb(blob)
            checkpoint["channel_values"] |= {"turn": value, "route": value}
            packed = ormsgpack.packb(checkpoint)
            base.execute("update checkpoints set checkpoint = ? where rowid = ?", (packed, row))
        return len(rows)


async def cut_short(root: Path) -> Session:
    """Return a closed session that was interrupted in its second turn."""
    session = begin(root, STORY, thread="one")
    async for event in session.ask():
        if isinstance(event, TurnTaken) and event.turn == 2:
            session.cancel()
    await session.close()
    return session


@pytest.mark.threat(17)
@pytest.mark.parametrize("where", ["writes", "metadata", "checkpoint", "channel"])
async def test_nothing_in_a_hostile_checkpoint_runs(
    tmp_path: Path, where: str, record_property: Callable[[str, object], None]
) -> None:
    canary, cases = tmp_path / "canary", 0
    for number, (name, bomb) in enumerate(bombs(canary).items()):
        if where == "channel" and not name.startswith("msgpack extension"):
            continue  # only what can stand inside a readable checkpoint
        root = tmp_path / str(number)
        session = await cut_short(root)
        assert planted(session.folder / "checkpoints.sqlite", bomb, where), (name, where)
        more = again(root, STORY, "one")
        await run(more)
        assert not canary.exists(), (name, where)
        assert more.ended is not None and more.ended.outcome == "diagnosed", (name, where)
        ids = [event.tool_call_id for event in more.events if isinstance(event, ToolFinished)]
        assert len(ids) == len(set(ids)), (name, where)
        cases += 1
    record_property("cases", cases)


@pytest.mark.threat(17)
async def test_a_checkpoint_of_another_thread_or_a_later_step_is_not_followed(tmp_path: Path) -> None:
    session = await cut_short(tmp_path)
    path = session.folder / "checkpoints.sqlite"
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("update checkpoints set thread_id = 'another'")
        base.execute("update writes set thread_id = 'another'")
    more = again(tmp_path, STORY, "one")
    await run(more)
    assert more.ended is not None and more.ended.outcome == "diagnosed"


@pytest.mark.threat(17)
@pytest.mark.parametrize(
    "name",
    [
        "../one",
        "..",
        "one/../../etc",
        "/etc/passwd",
        "one\0",
        "one\n",
        "ONE",
        "",
        "a",
        "-one",
        "one checkpoint_id=1",
        "o" * 65,
    ],
)
async def test_no_id_leads_out_of_the_state_folder(tmp_path: Path, name: str) -> None:
    settings = make_settings(tmp_path)
    (tmp_path / "one").mkdir()
    for refuse in (
        partial(folder_of, settings, name),
        partial(Session.resume, settings, name, ScriptedModel(STORY), {}),
        partial(resume_session, name, settings, {}),
    ):
        with pytest.raises(UsageError, match="not a thread id"):
            refuse()
    if name:
        with pytest.raises(UsageError, match="not a thread id"):
            begin(tmp_path, STORY, thread=name)


@pytest.mark.threat(17)
@pytest.mark.parametrize("name", ["../one", "/etc/passwd", "one checkpoint_id=1"])
def test_the_command_line_takes_no_such_id(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    words = [str(Path(sys.executable).with_name("leadline")), "ask", "local", "--resume", name]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, (done.stdout, done.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.threat(17)
async def test_a_thread_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    session = await cut_short(tmp_path)
    link = session.folder.parent / "two"
    link.symlink_to(session.folder)
    with pytest.raises(UsageError, match="no thread two"):
        again(tmp_path, STORY, "two")


@pytest.mark.threat(17)
def test_the_strict_reading_of_checkpoints_is_pinned_before_langgraph_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "false")
    code = (
        "from agent.config import pin_libraries; pin_libraries()\n"
        "import langgraph.checkpoint.serde._msgpack as found; print(found.STRICT_MSGPACK_ENABLED)"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root, timeout=60
    )
    assert done.stdout == "True\n"
    assert pin_libraries.__doc__ is not None
