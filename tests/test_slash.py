"""Slash commands answered from the record of a session, without a terminal."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.events import Compacted, ModelChosen, ToolFinished
from agent.session import Session
from agent.surfaces import slash
from agent.surfaces.slash_types import Desk, Enter, ModelTaken, PutOnClipboard
from tests.scripted_parts import (
    STORY,
    ScriptedModel,
    again,
    begin,
    call,
    conclusion,
    make_settings,
    run,
    turn,
)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    """A session that has come to its end."""
    found = begin(tmp_path, STORY, thread="one")
    async for _ in found.ask(None):
        pass
    yield found
    await found.close()


def desk(session: Session | None, root: Path) -> Desk:
    return Desk(make_settings(root), session)


def text(session: Session, line: str) -> str:
    return slash.answer(Desk(session.work.settings, session), line).text


def test_help_lists_every_command_and_one_when_asked(tmp_path: Path) -> None:
    shown = slash.answer(desk(None, tmp_path), "/help").text
    for name in slash.names():
        assert f"\n{name}" in f"\n{shown}" or name == "/help", name
    assert slash.answer(desk(None, tmp_path), "/help fork").text.startswith("/fork N")
    assert "no command /nope" in slash.answer(desk(None, tmp_path), "/help nope").text
    assert "/log [HOST] [N]  every command" in shown
    assert "\ny, n, e, d " in shown and "\nH 1?3+2- " in shown


def test_a_mistyped_command_names_the_nearest(tmp_path: Path) -> None:
    assert slash.answer(desk(None, tmp_path), "/hypothesis").text.startswith(
        "no command /hypothesis; nearest: /hypotheses"
    )
    assert slash.answer(desk(None, tmp_path), "/mode aply").text == "no mode aply; nearest: apply"


def test_every_command_has_help(tmp_path: Path) -> None:
    for name, command in slash.COMMANDS.items():
        assert command.usage.startswith(name) and command.help


async def test_context_counts_what_is_sent_by_tool(session: Session) -> None:
    shown = text(session, "/context")
    head, *rows = shown.splitlines()
    assert head.endswith("of 100,000 tokens, estimated from bytes")
    sizes = {row[:13].strip(): int(row.split()[-1]) for row in rows[1:] if "%" in row}
    assert sizes["look"] == 2 and sizes["grep"] == 1 and sizes["facts"] == 1 and sizes["you"] == 1
    figures = [int(row.rsplit("%", 1)[0].split()[-2].replace(",", "")) for row in rows[1:] if "%" in row]
    total = int(head.split()[0].replace(",", ""))
    assert abs(sum(figures) - total) <= len(figures), "the parts make up the whole, but for rounding"


async def test_compact_folds_and_a_resumed_thread_stays_folded(tmp_path: Path) -> None:
    long = call("look", text="x" * 4000)
    session = begin(tmp_path, [turn(long), turn(call("grep", text="two")), turn(conclusion())], thread="one")
    async for _ in session.ask(None):
        pass
    before = text(session, "/show t2")
    assert "2 results are folded to a line each" in text(session, "/compact")
    assert "nothing to fold" in text(session, "/compact")
    assert text(session, "/show t2") == before, "the record keeps what the model is not sent"
    assert "2 results are folded to a line" in text(session, "/context")
    sent = list(session.work.messages.list)
    await session.close()
    (event,) = [one for one in session.events if isinstance(one, Compacted)]
    assert event.tokens_before - event.tokens_after > 900 and len(event.calls) == 2
    resumed = again(tmp_path, STORY, "one")
    assert resumed.work.messages.list == sent
    await resumed.close()


async def test_the_built_in_method_keeps_its_results_and_its_place(session: Session) -> None:
    session.work.model = ScriptedModel(STORY)
    session.work.model.name = "playbook"
    assert "send nothing" in text(session, "/compact")
    assert "is what a model would be sent" in text(session, "/context")
    assert "begin another chat without --model" in text(session, "/model playbook")


async def test_model_shows_and_chooses_for_the_next_turn(session: Session) -> None:
    assert "scripted took 5 turns" in text(session, "/model")
    assert "needs an endpoint: /model other URL" in text(session, "/model other")
    reply = slash.answer(Desk(session.work.settings, session), "/model other http://127.0.0.1:9/v1")
    assert reply.text == "the next turn is taken by openai:other at http://127.0.0.1:9/v1"
    assert reply.then == ModelTaken("openai:other") and session.work.model.name == "openai:other"
    assert [e.model for e in session.events if isinstance(e, ModelChosen)] == ["openai:other"]


async def test_hosts_tells_what_was_seen(session: Session) -> None:
    assert text(session, "/hosts").splitlines() == ["here: connected", "   as seen by t1: /show t1"]


async def test_copy_gives_the_last_answer_or_an_output(session: Session) -> None:
    def then(line: str) -> PutOnClipboard:
        found = slash.answer(Desk(session.work.settings, session), line).then
        assert isinstance(found, PutOnClipboard)
        return found

    assert then("/copy").text.startswith("diagnosed: Graphs are off.")
    assert then("/copy t1.1").text == "--disable-cuda-graph\n--pp-size\n8\n"
    assert '"flags"' in then("/copy 1").text
    assert "t99 is not a call" in text(session, "/copy t99")
    head, first, *_ = text(session, "/show").splitlines()
    assert head.startswith("which one? /show t1") and first.startswith("  t1  ")


async def test_save_and_export_write_the_case(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert text(session, "/save notes.txt").startswith("notes.txt is no form")
    assert "written: " in text(session, "/save mine.md")
    assert (tmp_path / "mine.md").stat().st_mode & 0o777 == 0o600
    assert "Graphs are off." in (tmp_path / "mine.md").read_text()
    assert text(session, "/save mine.md") == "mine.md exists; name another file"
    for _ in range(2):
        for form in ("md", "html", "json"):
            assert "written: " in text(session, f"/export {form}")
    assert json.loads((tmp_path / "leadline-one.json").read_text())["thread"] == "one"
    assert text(session, "/export pdf") == "no form pdf; there are: md, html, json"
    assert "cannot write" in text(session, "/save absent/x.md")


async def test_fork_begins_where_the_other_stood(session: Session, tmp_path: Path) -> None:
    before = (session.folder / "transcript.jsonl").read_bytes()
    reply = slash.answer(Desk(session.work.settings, session), "/fork 2")
    assert isinstance(reply.then, Enter) and "one stays as it is" in reply.text
    assert (session.folder / "transcript.jsonl").read_bytes() == before
    fork = again(tmp_path, STORY, reply.then.thread)
    assert fork.ended is None and fork.work.history.last_turn == 2
    assert [call.name for call in fork.work.history.turns[2].tool_calls] == ["look", "look", "grep"]
    spent = fork.work.budget.wall_s
    assert spent < session.work.budget.wall_s + 0.5, "the time since then is nobody's work"
    for event in fork.events:
        if isinstance(event, ToolFinished):
            assert all(fork.work.store.get(ref.sha256) for ref in event.artifacts)
    await run(fork)
    assert fork.ended is not None and fork.ended.outcome == "diagnosed"


@pytest.mark.parametrize("turn", ["6", "99"])
async def test_fork_refuses_a_turn_that_is_not_there(session: Session, turn: str) -> None:
    assert text(session, f"/fork {turn}") == f"no turn {turn}; there are 0 to 5"
    head, *turns = text(session, "/fork").splitlines()
    assert head.endswith("there are 0 to 5") and turns[2] == "  2  look, look, grep"
    assert "there are 0 to 5" in text(session, "/fork -1")


async def test_resume_lists_and_names_other_threads(session: Session, tmp_path: Path) -> None:
    await run(begin(tmp_path, STORY, thread="two-a"))
    await run(begin(tmp_path, [turn(conclusion(outcome="inconclusive"))], thread="two-b"))
    await run(begin(tmp_path, STORY, thread="undo-20260131"))
    rows = text(session, "/resume").splitlines()
    assert [row.split("  ")[:2] for row in rows] == [["two-b", "inconclusive"], ["two-a", "diagnosed"]]
    assert text(session, "/resume one") == "this is one"
    assert text(session, "/resume two").startswith("2 threads begin with two: two-a, two-b")
    assert text(session, "/resume x") == "no thread x; see /resume"
    assert slash.answer(Desk(session.work.settings, session), "/resume two-a").then == Enter("two-a")
    assert slash.answer(desk(None, tmp_path), "/resume two-b").then == Enter("two-b")


async def test_what_changes_the_session_waits_until_nothing_is_under_way(session: Session) -> None:
    busy = Desk(session.work.settings, session, idle=False)
    for line in ("/fork 2", "/resume two-a", "/undo"):
        reply = slash.answer(busy, line)
        assert "when nothing is under way: wait" in reply.text and reply.then is None
    assert "two" not in slash.answer(busy, "/resume").text, "it lists at any time"
    assert "no change of this session stands" in text(session, "/undo")


async def test_completion_knows_commands_and_their_arguments(session: Session, tmp_path: Path) -> None:
    on = Desk(session.work.settings, session)

    def words(typed: str, at: Desk = on) -> list[str]:
        return [one.word for one in slash.complete(at, typed)]

    assert words("/co") == ["/cost", "/context", "/compact", "/copy"]
    assert words("/evidence ") == ["E1"] and words("/evidence e1") == ["E1"]
    assert words("/show t1") == ["t1", "t1.1"]
    assert words("/export h") == ["html"]
    assert words("/fork ") == ["0", "1", "2", "3", "4", "5"]
    assert words("/log ") == ["here"] and words("/frob ") == [] and words("why?") == []
    assert words("/help") == ["/help"] and words("!") == []
    assert words("/evidence ", desk(None, tmp_path)) == []
    (cost,) = slash.complete(on, "/cost")
    assert cost.help == "turns, tokens, money and time used"
    assert all(dataclasses.astuple(one)[1] for one in slash.complete(on, "/"))


async def test_a_key_goes_to_no_endpoint_but_its_own(tmp_path: Path) -> None:
    named = {"big": {"base_url": "http://127.0.0.1:8/v1", "api_key": "of-big"}}
    session = begin(
        tmp_path, STORY, base_url="http://127.0.0.1:9/v1", api_key="of-nine", model="x", models=named
    )

    def key() -> str | None:
        held = session.work.settings.api_key
        return held.get_secret_value() if held is not None else None

    text(session, "/model other")
    assert (session.work.settings.base_url, key()) == ("http://127.0.0.1:9/v1", "of-nine")
    text(session, "/model other http://127.0.0.1:7/v1")
    assert (session.work.settings.base_url, key()) == ("http://127.0.0.1:7/v1", None)
    assert "openai:big at http://127.0.0.1:8/v1" in text(session, "/model big")
    assert key() == "of-big"
    assert "base_url of its own" in text(session, "/model big http://127.0.0.1:7/v1")
    offered = [one.word for one in slash.complete(Desk(session.work.settings, session), "/model ")]
    assert set(offered) == {"big"}
    await session.close()
