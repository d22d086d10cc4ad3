"""A plan whose value a person edits: never run, planned anew, approved by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.approvals import ApprovalRefused
from agent.events import ApprovalVoided, PlanMade
from agent.session import Session
from tests.file_host import FakeService, FileHost
from tests.trial_parts import decision, moves, open_session, propose, results

DEPTH = propose(setting="--pp-async-batch-depth", from_value=None, to_value="1")


async def waits(root: Path) -> tuple[Session, FakeService]:
    service = FakeService(FileHost(root / "host.json"))
    session = open_session(root, service, moves(DEPTH))
    async for _ in session.ask():
        pass
    return session, service


async def test_an_edited_value_is_another_plan_that_is_approved_by_itself(tmp_path: Path) -> None:
    session, _ = await waits(tmp_path)
    old = decision(session)
    session.revise("C1", old.digest, "2", "ada")
    assert session.waiting is None
    async for _ in session.ask():
        pass
    asked = session.waiting
    assert asked is not None and asked.digest != old.digest
    with pytest.raises(ApprovalRefused, match="another plan"):
        async for _ in session.answer(old):
            pass
    assert not any(event.type == "action_started" for event in session.events)
    async for _ in session.answer(decision(session)):
        pass
    (view,) = results(session)
    assert view["result"] == "kept" and session.change("C1").to_value == "2"
    assert any("ada edited the value: 1 was proposed" in one for one in session.change("C1").cautions)
    plans = [event.digest for event in session.events if isinstance(event, PlanMade)]
    assert [event.digest for event in session.events if isinstance(event, ApprovalVoided)] == plans[:1]
    await session.close()


@pytest.mark.parametrize("value", ["", " 2", "2\n3", "\x1b[2J", "2\u202e", "x" * 501, "1"])
async def test_a_value_that_is_none_or_changes_nothing_is_refused(tmp_path: Path, value: str) -> None:
    session, _ = await waits(tmp_path)
    asked = decision(session)
    with pytest.raises(ApprovalRefused):
        session.revise("C1", asked.digest, value, "ada")
    assert session.waiting is not None and session.waiting.digest == asked.digest
    await session.close()


async def test_only_the_plan_that_waits_is_edited(tmp_path: Path) -> None:
    session, _ = await waits(tmp_path)
    asked = decision(session)
    for change, digest in (("C2", asked.digest), ("C1", "0" * 64)):
        with pytest.raises(ApprovalRefused):
            session.revise(change, digest, "2", "ada")
    async for _ in session.answer(decision(session, "denied")):
        pass
    with pytest.raises(ApprovalRefused, match="does not wait"):
        session.revise("C1", asked.digest, "2", "ada")
    await session.close()


async def test_a_second_edit_says_what_the_model_proposed(tmp_path: Path) -> None:
    session, _ = await waits(tmp_path)
    told = []
    for value in ("2", "3", "1"):
        session.revise("C1", decision(session).digest, value, "ada")
        async for _ in session.ask():
            pass
        edits = [one for one in session.change("C1").cautions if "edited the value" in one]
        told.append([one.rpartition(": ")[2] for one in edits])
    assert told == [
        [f"1 was proposed by the model, and the effect predicted for that; ada made it {value}"]
        for value in ("2", "3")
    ] + [[]]
    await session.close()


async def test_an_edit_survives_a_death_before_the_new_plan(tmp_path: Path) -> None:
    session, service = await waits(tmp_path)
    session.revise("C1", decision(session).digest, "2", "ada")
    await session.close()
    session = open_session(tmp_path, service, moves(DEPTH), resume=True)
    async for _ in session.ask():
        pass
    assert session.waiting is not None and session.plan("C1").to_value == "2"
    await session.close()
