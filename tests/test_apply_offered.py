"""What becomes a plan in mode apply, and what a person is asked about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import UsageError
from agent.events import ChangeMoved, Measured, PlanMade
from agent.host_lock import HostBusy, host_lock
from agent.transcript import read_events
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, turn
from tests.trial_parts import decision, fixed, go, moves, open_session, propose, results, tried


async def test_a_launch_line_that_the_engine_would_refuse_never_becomes_a_plan(tmp_path: Path) -> None:
    result, session, host = await tried(tmp_path, "graphs", line_refused="no option --x; the nearest is --y")
    assert result["result"] == "not_applied" and "the nearest is --y" in json.dumps(result)
    events = read_events(session.folder / "transcript.jsonl")
    assert not [event for event in events if isinstance(event, PlanMade)] and host.read()["restarts"] == 0


async def test_what_the_check_of_a_launch_line_tells_is_approved_with_the_plan(tmp_path: Path) -> None:
    _, session, _ = await tried(tmp_path, "graphs", line_told=["--x is deprecated"])
    (made,) = [e for e in read_events(session.folder / "transcript.jsonl") if isinstance(e, PlanMade)]
    assert made.plan["blast_radius"] == ["--x is deprecated", "requests in flight end"]


async def test_a_proposal_that_nobody_could_read_is_refused(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    script = moves(propose(to_value="A" * 1_000_000), outcome="inconclusive", changes=[])
    session = open_session(tmp_path, FakeService(host), script)
    await go(session)
    await session.close()
    (result,) = results(session)
    assert "longer than 8000 characters" in result["error"]
    assert not any(isinstance(event, ChangeMoved | PlanMade) for event in session.events)


async def test_the_other_modes_only_propose(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    session = open_session(tmp_path, service, moves(outcome="diagnosed"), mode="propose")
    await go(session)
    await session.close()
    assert results(session) == [
        {"change": "C1", "status": "proposed", "host": "here", "setting": "--disable-cuda-graph"}
    ]
    assert service.calls == [] and not any(isinstance(event, PlanMade) for event in session.events)


@pytest.mark.parametrize(
    ("set_", "says"),
    [
        ({"running_requests": 3}, "--allow-in-flight"),
        ({"secret": "sk-hunter2"}, "looks like a secret"),
        ({"secret": "a\u202eb"}, "does not show"),
    ],
)
async def test_some_plans_are_not_even_offered(tmp_path: Path, set_: dict[str, Any], says: str) -> None:
    result, session, host = await tried(tmp_path, "graphs", **set_)
    assert result["result"] == "not_applied" and says in result["why"]
    assert not any(isinstance(event, PlanMade) for event in session.events)
    assert b"hunter2" not in (session.folder / "transcript.jsonl").read_bytes()
    assert host.read()["restarts"] == 0


async def test_an_unknown_unit_and_an_ungrounded_change_are_told(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    script = moves(propose(unit="no.service"), propose(hypotheses=["H9"]), outcome="diagnosed")
    session = open_session(tmp_path, FakeService(host), script)
    await go(session)
    await session.close()
    unknown, ungrounded = results(session)
    assert unknown["result"] == "not_applied" and "no engine of here runs in no.service" in unknown["why"]
    assert "there is no hypothesis H9" in ungrounded["error"]


async def test_words_instead_of_an_answer_withdraw_the_question(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    script = [turn(HYPOTHESIS), turn(EVIDENCE), turn(propose()), turn(propose()), turn(fixed(changes=["C2"]))]
    session = open_session(tmp_path, FakeService(host), script)
    async for _ in session.ask():
        pass
    async for _ in session.ask("look at the log first"):
        pass
    assert session.waiting is not None and session.waiting.change == "C2"
    await go(session)
    await session.close()
    assert session.ended is not None and session.ended.outcome == "fixed"
    assert host.read()["restarts"] == 1


async def test_one_change_at_a_time_on_a_host(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    session = open_session(tmp_path, service, moves())
    async for _ in session.ask():
        pass
    with host_lock(tmp_path, "here", None), pytest.raises(HostBusy, match="another investigation"):
        async for _ in session.answer(decision(session)):
            pass
    assert service.calls == []
    await go(session)
    await session.close()
    assert [result["result"] for result in results(session)] == ["kept"]


async def test_answering_while_at_work_is_refused(tmp_path: Path) -> None:
    session = open_session(tmp_path, FakeService(FileHost(tmp_path / "host.json")), moves())
    async for _ in session.ask():
        pass
    approval = decision(session)
    async for event in session.answer(approval):
        if isinstance(event, Measured):
            with pytest.raises(UsageError):
                await anext(session.answer(approval))
    await session.close()
