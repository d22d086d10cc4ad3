from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from agent.errors import UsageError
from agent.events import Resumed, ToolFinished, TurnTaken
from agent.session import Session
from tests.scripted_parts import STORY, Move, ScriptedModel, again, begin, call, conclusion, plain, run, turn

HERE = Path(__file__).parent


async def python(*argv: str) -> tuple[int, str, str]:
    child = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=-1, stderr=-1)
    out, err = await asyncio.wait_for(child.communicate(), 120)
    return child.returncode or 0, out.decode(), err.decode()


async def test_killed_after_any_event_it_resumes_to_the_same_end(tmp_path: Path) -> None:
    code, out, err = await python(str(HERE / "killed_run.py"), str(tmp_path))
    assert code == 0, err
    *cuts, whole, write = [json.loads(line) for line in out.splitlines()]
    assert len(cuts) > 20
    assert whole["codes"] == [0] and whole["most"] == 1
    for cut in cuts:
        assert cut["codes"][0] == -9 and cut["codes"][-1] == 0, (cut["codes"], err)
        assert cut["most"] == 1
        assert cut["essence"] == whole["essence"]
    assert write["codes"] == [-9, 0]
    assert (tmp_path / "touched").read_text() == "touched\n"
    assert any("whether it was done is unknown" in event for event in write["essence"])


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY, thread="one")
    script = (
        f"import sys; sys.path.insert(0, {str(HERE.parent)!r})\n"
        "from pathlib import Path; from tests.scripted_parts import *\n"
        f"again(Path({str(tmp_path)!r}), STORY, 'one')"
    )
    code, _, err = await python("-c", script)
    assert code == 1 and "thread one is in use by another process" in err
    await session.close()
    code, _, err = await python("-c", script)
    assert code == 0, err


async def test_one_run_at_a_time_inside_a_process(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(call("look", wait_s=5))])
    async for event in session.ask():
        if isinstance(event, TurnTaken):
            with pytest.raises(UsageError, match="at work"):
                await anext(session.ask())
            session.cancel()
    await session.close()


async def cut_short(root: Path, thread: str) -> Session:
    """Return a closed session that was interrupted in its second turn."""
    session = begin(root, STORY, thread=thread)
    async for event in session.ask():
        if isinstance(event, TurnTaken) and event.turn == 2:
            session.cancel()
    await session.close()
    return session


async def ends_well(root: Path, thread: str, moves: Any = STORY) -> None:
    session = again(root, moves, thread)
    await run(session)
    assert session.ended is not None and session.ended.outcome == "diagnosed"
    ids = [event.tool_call_id for event in session.events if isinstance(event, ToolFinished)]
    turns = [event.turn for event in session.events if isinstance(event, TurnTaken)]
    assert len(set(ids)) == len(ids) and turns == list(range(len(turns)))


async def test_resumes_without_its_checkpoints(tmp_path: Path) -> None:
    session = await cut_short(tmp_path, "one")
    for path in session.folder.glob("checkpoints*"):
        path.unlink()
    await ends_well(tmp_path, "one")


@pytest.mark.threat(17)
async def test_resumes_when_the_checkpoint_is_ahead_of_the_transcript(tmp_path: Path) -> None:
    session = await cut_short(tmp_path, "one")
    path = session.folder / "transcript.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if b'"turn":1' in line)
    path.write_bytes(b"".join(lines[:first]))
    await ends_well(tmp_path, "one")


async def test_walks_over_recorded_turns_when_the_checkpoint_lags(tmp_path: Path) -> None:
    early = await cut_short(tmp_path / "early", "one")
    late = begin(tmp_path / "late", STORY, thread="one")
    async for event in late.ask():
        if isinstance(event, TurnTaken) and event.turn == 4:
            late.cancel()
    await late.close()
    for path in late.folder.glob("checkpoints*"):
        path.unlink()
    shutil.copy(early.folder / "checkpoints.sqlite", late.folder)
    model = ScriptedModel(STORY)
    await ends_well(tmp_path / "late", "one", model.moves)
    session = again(tmp_path / "late", STORY, "one")
    await session.close()
    assert sum(isinstance(event, Resumed) for event in session.events) == 2


def poison(path: Path, canary: Path) -> None:
    """Make every stored value one that langgraph's default would turn into a shell command."""
    order = ormsgpack.packb(("os", "system", f"touch {canary}"))
    evil = ormsgpack.Ext(0, order)
    base = sqlite3.connect(path)
    rows = base.execute("select rowid, checkpoint from checkpoints").fetchall()
    for row, blob in rows:
        checkpoint = ormsgpack.unpackb(blob)
        checkpoint["channel_values"]["turn"] = evil
        packed = ormsgpack.packb(checkpoint)
        base.execute("update checkpoints set checkpoint = ? where rowid = ?", (packed, row))
    base.execute("update writes set value = ?, type = 'msgpack'", (ormsgpack.packb(evil),))
    base.commit()
    base.close()
    assert rows


@pytest.mark.threat(17)
async def test_a_hostile_checkpoint_runs_nothing(tmp_path: Path) -> None:
    session = await cut_short(tmp_path, "one")
    poison(session.folder / "checkpoints.sqlite", tmp_path / "canary")
    await ends_well(tmp_path, "one")
    assert not (tmp_path / "canary").exists()


@pytest.mark.threat(17)
async def test_a_damaged_checkpoint_store_is_set_aside(tmp_path: Path) -> None:
    session = await cut_short(tmp_path, "one")
    (session.folder / "checkpoints.sqlite").write_bytes(b"\0garbage" * 1000)
    await ends_well(tmp_path, "one")
    assert (session.folder / "checkpoints.damaged").exists()


async def test_a_thread_resumed_for_other_hosts_is_refused(tmp_path: Path) -> None:
    session = await cut_short(tmp_path, "one")
    with pytest.raises(UsageError, match="needs host here"):
        Session.resume(session._work.settings, "one", ScriptedModel(STORY), {}, tools={}, redact=plain)
    await ends_well(tmp_path, "one")


def stored(folder: Path) -> dict[str, int]:
    artifacts = sum(path.stat().st_size for path in (folder / "artifacts").rglob("*") if path.is_file())
    checkpoints = sum(path.stat().st_size for path in folder.glob("checkpoints*"))
    return {
        "transcript": (folder / "transcript.jsonl").stat().st_size,
        "artifacts": artifacts,
        "checkpoints": checkpoints,
    }


async def test_what_is_stored_grows_linearly(tmp_path: Path) -> None:
    sizes = []
    for turns in (100, 200):
        moves: list[Move] = [turn(call("look", text=f"{place:04}" * 500)) for place in range(turns)]
        moves.append(turn(conclusion(outcome="inconclusive")))
        session = begin(tmp_path / str(turns), moves, max_turns=300)
        await run(session)
        sizes.append(stored(session.folder))
    for kind, size in sizes[1].items():
        assert size < 2.2 * sizes[0][kind], (kind, sizes)
