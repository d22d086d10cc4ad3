"""Threads as people find them again: by the beginning of an id, the last one, forks in their place."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent import threads
from agent.errors import UsageError
from agent.events import Forked
from agent.forking import fork
from agent.kept import find_kept
from agent.surfaces.ending import answer_of
from agent.surfaces.records import write_case
from agent.transcript import read_events
from tests.scripted_parts import STORY, begin, make_settings, run
from tests.test_sessions import kept, leadline, two

ONE, OTHER = "20260131-142530-aaaa", "20260131-142531-bbbb"


async def test_the_beginning_of_an_id_will_do_where_no_other_begins_so(tmp_path: Path) -> None:
    await two(tmp_path)
    for words in (("show",), ("export",)):
        done = leadline(tmp_path, "sessions", *words, "20260131-142530")
        assert done.returncode == 0 and ONE.encode() in done.stdout, done
        many = leadline(tmp_path, "sessions", *words, "2026")
        assert many.returncode == 2 and f"2 threads begin with 2026: {ONE}, {OTHER}".encode() in many.stderr
    page = leadline(tmp_path, "cases", "open", "20260131-142531").stdout.decode()
    assert Path(page.strip()) == tmp_path / "threads" / OTHER / "case.html"
    assert leadline(tmp_path, "sessions", "rm", "2").returncode == 2
    gone = leadline(tmp_path, "sessions", "rm", "20260131-142530", ONE)
    assert gone.returncode == 0 and gone.stdout.startswith(f"removed {ONE} ".encode()), gone
    assert [path.name for path in (tmp_path / "threads").iterdir()] == [OTHER]


async def test_a_whole_id_is_itself_though_another_begins_so(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    for thread in ("undo-x1", "undo-x1-2"):
        await run(begin(tmp_path, STORY, thread=thread))
    assert threads.named(settings, "undo-x1") == "undo-x1"
    with pytest.raises(UsageError, match="no thread undo-y"):
        threads.named(settings, "undo-y")
    for odd in ("../x", "", "A", "-x", "x/y"):
        with pytest.raises(UsageError, match="not a thread id"):
            threads.named(settings, odd)
    with pytest.raises(UsageError, match="no thread undo-"):
        threads.find(settings, "undo-")  # what a program keeps is whole


async def test_a_kept_change_is_named_by_its_thread_which_is_no_change_itself(tmp_path: Path) -> None:
    await kept(tmp_path)
    settings = make_settings(tmp_path)
    assert find_kept(settings, "o/C1").ref == "one/C1"
    how = "name THREAD/C1, or the id of its plan"
    with pytest.raises(UsageError, match=f"one is an investigation, not a change; {how}"):
        find_kept(settings, "one")
    with pytest.raises(UsageError, match=f"no change with the plan 20260101t000000-abcdef .*; {how}"):
        find_kept(settings, "20260101t000000-abcdef")


async def test_the_last_is_the_one_that_was_let_go_of_last(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    waits = begin(tmp_path, STORY, thread="waits")
    await run(begin(tmp_path, STORY, thread="ended"))
    assert threads.latest(settings) == "ended"
    await waits.close()
    assert threads.latest(settings) == "waits"
    first, other = threads.list_threads(settings)
    assert (first.thread, other.thread) == ("ended", "waits") and other.last_at > first.last_at
    for odd in ("", "yesterday", "2026-01-31T14:25:30"):
        (waits.folder / "left-at").write_text(odd)
        assert threads.latest(settings) == "ended", odd


async def test_a_fork_begins_when_it_was_forked(tmp_path: Path) -> None:
    await run(begin(tmp_path, STORY, thread="one"))
    await run(begin(tmp_path, STORY, thread="two"))
    settings = make_settings(tmp_path)
    events = read_events(tmp_path / "threads" / "one" / "transcript.jsonl")
    new = fork(settings, "one", events, 1)
    assert [one.thread for one in threads.list_threads(settings)] == [new, "two", "one"]
    folder = tmp_path / "threads" / new
    *_, end = read_events(folder / "transcript.jsonl")
    assert isinstance(end, Forked)
    write_case(folder, folder)
    assert f"`{new}`, {end.at.isoformat(timespec='seconds')}, Leadline" in (folder / "case.md").read_text()
    assert threads.begun_at(events) == events[0].at < end.at <= datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.parametrize(
    "words", ["sessions list", "cases list", "playbooks list", "case list", "transcripts list", "audit show"]
)
async def test_a_list_in_json_is_an_object_a_line(tmp_path: Path, words: str) -> None:
    for thread in ("one", "two"):
        session = begin(tmp_path, STORY, thread=thread)
        await run(session)
        write_case(session.folder, session.folder)
    leadline(tmp_path, "tool", "local", "facts")  # something for the audit
    done = leadline(tmp_path, *words.split(), "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(rows) > 1 and all(isinstance(row, dict) for row in rows), done


async def test_an_answer_that_is_shown_again_names_the_case_file_that_lies_there(tmp_path: Path) -> None:
    session = begin(tmp_path, STORY, thread="one")
    async for _ in session.ask(None):
        pass
    assert session.ended is not None
    assert "Case file" not in answer_of(session, session.ended, [])
    write_case(session.folder, session.folder)
    assert f"Case file: {session.folder / 'case.md'}" in answer_of(session, session.ended, [])
    await session.close()
