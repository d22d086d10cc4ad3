"""Investigations of a machine: listed in columns that fit, given away masked, deleted without a loss."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent import threads
from agent.errors import TranscriptError, UsageError
from agent.executions import Executions
from agent.forking import outputs_of
from agent.kept import find_kept
from agent.session import Session
from agent.standing_changes import standing
from agent.surfaces.ages import age, size_of
from agent.surfaces.changes_kept import open_undo
from agent.surfaces.going_on import meant
from agent.surfaces.sessions_export import archive
from agent.surfaces.sessions_list import lines_of
from agent.surfaces.wrapping import cells
from agent.threads import ThreadSummary, create
from agent.transcript import check_order, read_events
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import (
    STORY,
    LocalHost,
    ScriptedModel,
    begin,
    call,
    conclusion,
    make_settings,
    run,
    turn,
)
from tests.terminal_fixtures import environment
from tests.trial_parts import go, moves, open_session, ports, redact, tools

LEADLINE = str(Path(sys.executable).with_name("leadline"))


def leadline(root: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    own = environment(str(root))
    argv = [LEADLINE, *words]
    return subprocess.run(
        argv, env=own, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )


async def two(root: Path) -> None:
    await run(begin(root, STORY, thread="20260131-142530-aaaa"))
    await run(begin(root, [turn(conclusion(outcome="inconclusive"))], thread="20260131-142531-bbbb"))


def test_ages_and_sizes_are_short() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    spans = {5: "5s", 150: "2m", 7200: "2h", 86400 * 9: "9d", 86400 * 800: "2y", -5: "0s"}
    assert {s: age(now - timedelta(seconds=s), now) for s in spans} == spans
    sizes = {0: "0B", 999: "999B", 2048: "2.0K", 20_000: "20K", 3_500_000: "3.3M", 5 << 30: "5.0G"}
    assert {count: size_of(count) for count in sizes} == sizes


@pytest.mark.parametrize("width", [40, 80, 200])
async def test_a_list_fits_its_terminal(tmp_path: Path, width: int) -> None:
    await two(tmp_path)
    found = threads.list_threads(make_settings(tmp_path))
    odd = [
        ThreadSummary(
            **{
                **{name: getattr(one, name) for name in ThreadSummary.__slots__},
                "symptom": "遅い: デコードが二十四トークン毎秒しか出ない \x1b[2J\n" * 4,
            }
        )
        for one in found
    ]
    lines = list(lines_of([*found, *odd], datetime.now(UTC), width))
    assert all(cells(line) <= width for line in lines) and "\x1b" not in "".join(lines)
    assert len(lines) == (8 if width < 72 else 4)
    assert "diagnosed" in "".join(lines) and "20260131-142530-aaaa" in "".join(lines)


async def test_a_list_says_what_is_at_work_and_filters(tmp_path: Path) -> None:
    await two(tmp_path)
    session = begin(tmp_path, STORY, thread="20260131-142532-cccc")
    rows = [json.loads(line) for line in leadline(tmp_path, "sessions", "list", "--json").stdout.splitlines()]
    await session.close()
    assert [row["session_id"][-4:] for row in rows] == ["cccc", "bbbb", "aaaa"]
    assert [row["at_work"] for row in rows] == [True, False, False]
    assert [row["outcome"] for row in rows] == [None, "inconclusive", "diagnosed"]
    assert all(row["bytes"] > 1000 and row["last_at"] >= row["started_at"] for row in rows)
    shown = leadline(tmp_path, "sessions", "list", "--limit", "1").stdout.decode()
    assert shown.split()[:2] == ["20260131-142532-cccc", "unfinished"] and shown.count("\n") == 1
    none = leadline(tmp_path, "sessions", "list", "--host", "other").stdout.decode()
    assert none == "No investigations of other.\n"


async def test_a_symptom_of_any_length_is_one_short_line_also_through_a_pipe(tmp_path: Path) -> None:
    settings, model = make_settings(tmp_path), ScriptedModel(STORY)
    session = Session.start(settings, model, {"here": LocalHost()}, "slow " * 40_000, thread="one")
    await session.close()
    shown = leadline(tmp_path, "sessions", "list").stdout.decode()
    assert shown.count("\n") == 1 and cells(shown.strip()) <= 200 and "slow slow" in shown
    (row,) = leadline(tmp_path, "sessions", "list", "--json").stdout.splitlines()
    assert json.loads(row)["symptom"] == "slow " * 40_000


async def test_what_is_done_with_is_removed_whole(tmp_path: Path) -> None:
    await two(tmp_path)
    done = leadline(tmp_path, "sessions", "rm", "20260131-142530-aaaa", "20260131-142531-bbbb")
    assert done.returncode == 0 and done.stdout.count(b"removed ") == 2, done.stderr
    assert list((tmp_path / "threads").iterdir()) == []
    again = leadline(tmp_path, "sessions", "rm", "20260131-142530-aaaa")
    assert again.returncode == 2 and b"no thread 20260131-142530-aaaa" in again.stderr


async def test_nothing_is_removed_when_one_of_several_is_refused(tmp_path: Path) -> None:
    await two(tmp_path)
    session = begin(tmp_path, STORY, thread="20260131-142532-cccc")
    words = ("20260131-142530-aaaa", session.thread)
    for more in ((), ("--force",)):
        done = leadline(tmp_path, "sessions", "rm", *words, *more)
        assert done.returncode == 2 and b"in use by another process" in done.stderr
    await session.close()
    assert len(list((tmp_path / "threads").iterdir())) == 3
    assert leadline(tmp_path, "sessions", "rm", "../threads").returncode == 2


async def kept(root: Path) -> FakeService:
    service = FakeService(FileHost(root / "host.json"))
    session = open_session(root, service, moves())
    await go(session)
    await session.close()
    return service


async def test_a_kept_change_holds_its_record_until_it_is_taken_back(tmp_path: Path) -> None:
    service = await kept(tmp_path)
    done = leadline(tmp_path, "sessions", "rm", "one")
    assert done.returncode == 2
    assert b"one/C1: --disable-cuda-graph of engine.service on here was kept" in done.stderr
    assert b"take it back first, or add --force" in done.stderr
    settings = make_settings(tmp_path)
    more: dict[str, Any] = {"tools": tools(service), "redact": redact, "ports": ports(service)}
    undo = open_undo(settings, find_kept(settings, "one/C1"), LocalHost(), **more)
    await go(undo)
    await undo.close()
    assert standing(settings, undo.thread, undo.events) == []
    assert leadline(tmp_path, "sessions", "rm", "one").returncode == 0


async def test_force_says_what_is_lost(tmp_path: Path) -> None:
    await kept(tmp_path)
    done = leadline(tmp_path, "sessions", "rm", "one", "--force")
    assert done.returncode == 0 and b"lost with it: C1, --disable-cuda-graph of engine.service" in done.stdout
    assert not (tmp_path / "threads" / "one").exists()


async def test_a_plan_that_waits_holds_its_record(tmp_path: Path) -> None:
    session = open_session(tmp_path, FakeService(FileHost(tmp_path / "host.json")), moves())
    async for _ in session.ask(None):
        pass
    await session.close()
    done = leadline(tmp_path, "sessions", "rm", "one")
    assert done.returncode == 2 and b"one/C1: it waits for a decision" in done.stderr
    assert b"go on with it first (--resume), or add --force" in done.stderr


async def test_a_change_with_no_known_end_holds_its_record(tmp_path: Path) -> None:
    await kept(tmp_path)
    settings = make_settings(tmp_path)
    plan = find_kept(settings, "one/C1").plan
    Executions(tmp_path).begin(plan.model_copy(update={"id": "20260131t142530-9f3a1c"}), "one")
    events = read_events(tmp_path / "threads" / "one" / "transcript.jsonl")
    found = {one.change: one for one in standing(settings, "one", events)}
    assert list(found) == ["C1", "20260131t142530-9f3a1c"]
    assert found["C1"].undoable and not found["20260131t142530-9f3a1c"].undoable
    done = leadline(tmp_path, "sessions", "rm", "one")
    assert done.returncode == 2 and b"begun on here, with no known end" in done.stderr


async def test_an_export_is_whole_masked_and_can_be_read_again(tmp_path: Path) -> None:
    secret = "Gr8-secret-pass-of-ours"
    story = [
        turn(call("look", text=f"postgres://me:{secret}@db/x")),
        turn(conclusion(outcome="inconclusive")),
    ]
    session = begin(tmp_path, story, thread="one")
    await run(session)
    (session.folder / "artifacts" / ("0" * 64)).write_bytes(b"nobody names me")
    from tools.redact import redact as real

    assert secret in (session.folder / "transcript.jsonl").read_text()
    with tarfile.open(fileobj=io.BytesIO(archive(session.folder, real, zipped=False))) as tar:
        names = tar.getnames()
        data = {name: tar.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    assert not any(secret.encode() in one for one in data.values())
    assert [name for name in names if "artifacts" not in name] == [
        "one/case.md",
        "one/case.json",
        "one/case.html",
        "one/transcript.jsonl",
        "one/masked.json",
    ]
    assert len(names) == 7 and len(json.loads(data["one/masked.json"])["masked_anew"]) == 1
    path = tmp_path / "again.jsonl"
    path.write_bytes(data["one/transcript.jsonl"])
    check_order(read_events(path), path)


async def test_no_file_outside_a_thread_is_given_away_with_it(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(call("look")), turn(conclusion(outcome="inconclusive"))], thread="one")
    await run(session)
    from tools.redact import redact as real

    (outside := tmp_path / "outside").write_text("not of this thread")
    path = session.folder / "transcript.jsonl"
    named = sorted(outputs_of(read_events(path)))[0]
    (kept := session.folder / "artifacts" / named).unlink()
    kept.symlink_to(outside)
    assert b"not of this thread" not in archive(session.folder, real, zipped=False)
    text = path.read_text()
    path.write_text(text.replace(f'"sha256":"{named}"', '"sha256":"../../../outside"'))
    assert path.read_text() != text
    assert b"not of this thread" not in archive(session.folder, real, zipped=False)
    path.write_text("")
    with pytest.raises(TranscriptError, match="is empty"):
        archive(session.folder, real, zipped=False)
    path.unlink()
    path.mkdir()
    assert threads.list_threads(make_settings(tmp_path)) == [], "one that is damaged hides no other"


async def test_each_form_is_exported_and_no_file_is_overwritten(tmp_path: Path) -> None:
    await two(tmp_path)
    name = "20260131-142530-aaaa"
    for form, begins in (("md", b"# "), ("html", b"<!"), ("json", b"{")):
        done = leadline(tmp_path, "sessions", "export", name, "--format", form)
        assert done.returncode == 0 and done.stdout.lower().startswith(begins), done.stdout[:50]
    out = tmp_path / "case.tgz"
    done = leadline(tmp_path, "sessions", "export", name, "-f", "tar", "-o", str(out))
    assert done.returncode == 0 and out.stat().st_mode & 0o777 == 0o600
    with tarfile.open(out) as tar:
        assert f"{name}/transcript.jsonl" in tar.getnames()
    done = leadline(tmp_path, "sessions", "export", name, "-f", "tar", "-o", str(out))
    assert done.returncode == 2 and b"exists; name another file" in done.stderr


async def test_the_last_one_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    with pytest.raises(UsageError, match="there is no investigation yet"):
        meant("", "", None, last=True, example="x")
    await two(tmp_path)
    await run(begin(tmp_path, STORY, thread="undo-20260131"))
    os.utime(tmp_path / "threads" / "20260131-142530-aaaa")
    found = meant("", "", None, last=True, example="x")
    assert (found.host, found.text, found.thread) == ("here", "", "20260131-142531-bbbb")
    assert meant("and why is that?", "", None, last=True, example="x").text == "and why is that?"
    assert meant("why?", "", None, last=True, example="x").text == "why?"
    assert meant("here", "slow", "20260131-142530-aaaa", last=False, example="x").text == ""
    assert meant("", "", "20260131-142530", last=False, example="x").thread == "20260131-142530-aaaa"
    with pytest.raises(UsageError, match="2 threads begin with 2026: 20260131-142530-aaaa, 20260131-142531-"):
        meant("", "", "2026", last=False, example="x")
    with pytest.raises(UsageError, match="both name an investigation"):
        meant("", "", "20260131-142530-aaaa", last=True, example="x")
    with pytest.raises(UsageError, match="name a host; for example: x"):
        meant("", "", None, last=False, example="x")
    assert meant("gpu1", "slow", None, last=False, example="x").thread is None


def test_of_two_that_draw_the_same_id_each_gets_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(["20260131-142530-9f3a", "20260131-142530-9f3a", "20260131-142530-9f3b"])
    monkeypatch.setattr(threads, "new_id", lambda: next(drawn))
    made = [create(make_settings(tmp_path)).name for _ in range(2)]
    assert made == ["20260131-142530-9f3a", "20260131-142530-9f3b"]
    with pytest.raises(UsageError, match="exists"):
        create(make_settings(tmp_path), made[0])
