"""Approved changes tried through the graph: kept, rolled back, or left to a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import standing
from agent.events import ActionStarted, ChangeMoved, Judged, ToolFinished, TurnTaken
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import call
from tests.trial_parts import decision, go, moves, open_session, propose, results, tried


async def test_an_approved_change_is_measured_and_kept(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    session = open_session(tmp_path, FakeService(host), moves())
    await go(session)
    await session.close()
    (result,) = results(session)
    assert result["result"] == "kept" and result["status"] == "verified", result
    assert result["verdict"] == "improved" and result["mechanism"]["moved"] is True
    outputs = result["outputs"]
    assert (outputs["equal"], outputs["state"], outputs["compared"], outputs["different"]) == (
        True,
        "equal",
        9,
        0,
    )
    assert [level["repeated"] for level in outputs["levels"]] == [1, 8]
    assert session.ended is not None and session.ended.outcome == "fixed"
    statuses = [event.change.status for event in session.events if isinstance(event, ChangeMoved)]
    assert statuses == ["proposed", "approved", "applied", "verified"]
    steps = [event.step for event in session.events if isinstance(event, ActionStarted)]
    assert steps == ["apply", "extend", "confirm"]
    assert host.read()["runs"] == "graphs" and host.read()["restarts"] == 1


@pytest.mark.parametrize(
    ("to", "verdict", "says"),
    [
        ("useless", "no_effect", "no effect"),
        ("worse", "worse", "worse at 8"),
        ("garbled", "improved", "9 of 9 greedy outputs changed"),
    ],
)
async def test_what_does_not_hold_is_rolled_back(tmp_path: Path, to: str, verdict: str, says: str) -> None:
    result, _, host = await tried(tmp_path, to)
    assert result["result"] == "rolled_back" == result["status"]
    assert result["verdict"] == verdict and says in result["why"] and "old state is back" in result["why"]
    assert host.read()["runs"] == "old" and host.read()["restarts"] == 2


async def test_a_service_that_does_not_come_up_is_told_as_rolled_back(tmp_path: Path) -> None:
    result, session, host = await tried(tmp_path, "graphs", apply_ends="rolled_back")
    assert result["result"] == "rolled_back" and result["verdict"] is None
    assert "did not come up" in result["why"] and "did not answer" in result["why"]
    assert host.read()["runs"] == "old"
    assert not any(isinstance(event, Judged) for event in session.events)


async def test_a_timer_that_cannot_be_set_anew_takes_the_change_back(tmp_path: Path) -> None:
    result, session, host = await tried(tmp_path, "graphs", fails={"extend"})
    assert result["result"] == "rolled_back" and "could not be set anew: extend is refused" in result["why"]
    assert host.read()["runs"] == "old" and session.ended is not None


async def test_a_change_that_cannot_be_confirmed_says_so_not_that_it_was_good(tmp_path: Path) -> None:
    result, _, host = await tried(tmp_path, "graphs", fails={"confirm"})
    assert result["result"] == "rolled_back" and result["verdict"] == "improved"
    assert result["why"] == "it was rolled back; the old state is back: confirm is refused"
    assert host.read()["runs"] == "old"


async def test_a_rollback_that_is_refused_says_why_a_person_is_needed(tmp_path: Path) -> None:
    result, _, _ = await tried(tmp_path, "worse", fails={"roll_back"})
    assert result["result"] == "needs_person" and "roll_back is refused" in result["why"]


async def test_a_host_that_refuses_to_say_how_it_stands_is_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "UNKNOWN_S", 0.0)
    result, session, _ = await tried(tmp_path, "graphs", apply_ends="unknown", fails={"status"})
    assert result["result"] == "needs_person" and "status is refused" in result["why"], result
    assert session.ended is not None


@pytest.mark.parametrize("point", ["extend", "confirm"])
async def test_a_timer_that_fires_first_is_found_out(tmp_path: Path, point: str) -> None:
    result, _, host = await tried(tmp_path, "graphs", timer_fires_at=point)
    assert result["result"] == "rolled_back" and "timer fired" in result["why"]
    assert host.read()["runs"] == "old"


async def test_a_refusal_of_the_host_changes_nothing(tmp_path: Path) -> None:
    result, _, host = await tried(tmp_path, "graphs", refuses="the unit was changed since")
    assert result["result"] == "not_applied" and "changed since" in result["why"]
    assert host.read()["restarts"] == 0


async def test_an_unknown_end_is_looked_up_on_the_host(tmp_path: Path) -> None:
    result, _, host = await tried(tmp_path, "graphs", apply_ends="unknown")
    assert result["result"] == "kept" and host.read()["restarts"] == 1


async def test_a_failed_rollback_needs_a_person_and_stops_further_changes(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    service.apply_ends = "failed"
    script = moves(propose(), propose("--other"), outcome="needs_person", changes=())
    session = open_session(tmp_path, service, script)
    await go(session)
    await session.close()
    first, second = results(session)
    assert first["result"] == "needs_person"
    assert second["result"] == "not_applied" and "C1" in second["why"]
    assert service.calls.count("apply") == 1


async def test_changes_of_one_turn_are_tried_one_after_the_other(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    script = moves(
        propose(), call("look", text="between"), propose("--depth", mechanism="none"), changes=("C1", "C2")
    )
    session = open_session(tmp_path, service, script)
    async for _ in session.ask():
        pass
    async for _ in session.answer(decision(session)):
        pass
    assert session.waiting is not None and session.waiting.change == "C2"
    look = next(event for event in session.events if event.type == "tool_started" and event.tool == "look")
    assert look.seq > max(event.seq for event in session.events if isinstance(event, Judged))
    service.to = "depth"
    await go(session)
    await session.close()
    first, second = results(session)
    assert first["result"] == second["result"] == "kept"
    assert second["artifacts"]["before"] == first["artifacts"]["after"], "the state was measured already"
    assert host.read()["runs"] == "depth" and host.read()["loads"] == 300
    order = [message["tool_call_id"] for message in session._work.messages.list if message["role"] == "tool"]
    asked = [call.id for event in session.events if isinstance(event, TurnTaken) for call in event.tool_calls]
    assert order == asked


async def test_interrupted_while_measuring_it_goes_on_and_hears_the_person_after(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    session = open_session(tmp_path, service, moves())
    async for _ in session.ask():
        pass
    async for event in session.answer(decision(session)):
        if isinstance(event, ActionStarted) and event.step == "extend":
            session.cancel()
    assert session.ended is None and host.read()["runs"] == "graphs"
    async for _ in session.ask("and then stop"):
        pass
    await session.close()
    (result,) = results(session)
    assert result["result"] == "kept" and service.calls.count("apply") == 1
    says = [message["content"] for message in session._work.messages.list if message["role"] == "user"]
    assert says[-1] == "and then stop"
    roles = [message["role"] for message in session._work.messages.list]
    assert roles[roles.index("user", 2) - 1] == "tool"


@pytest.mark.parametrize(("refused", "ends"), [(False, "rolled_back"), (True, "needs_person")])
async def test_a_change_that_no_timer_takes_back_is_brought_back(
    tmp_path: Path, refused: bool, ends: str
) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    session = open_session(tmp_path, service, moves())
    async for _ in session.ask():
        pass
    async for event in session.answer(decision(session)):
        if isinstance(event, ActionStarted) and event.step == "extend":
            session.cancel()
    service.restarted = True
    service.fails |= {"roll_back"} if refused else set()
    async for _ in session.ask():
        pass
    await session.close()
    (result,) = results(session)
    assert result["result"] == ends and service.calls.count("apply") == 1
    assert host.read()["runs"] == ("graphs" if refused else "old")


async def test_a_bench_that_breaks_undoes_the_change(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)

    def broken(point: str, when: str) -> None:
        from tools.contract import ToolError

        if point == "measure" and host.read()["runs"] == "graphs":
            raise ToolError("nothing answers")

    service.fault = broken
    session = open_session(tmp_path, service, moves(outcome="inconclusive"))
    await go(session)
    await session.close()
    (result,) = results(session)
    assert result["result"] == "rolled_back" and "nothing answers" in result["why"]
    assert host.read()["runs"] == "old"


async def test_a_baseline_that_cannot_be_measured_leaves_the_change_untried(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)

    def broken(point: str, when: str) -> None:
        from tools.contract import ToolError

        if point == "measure":
            raise ToolError("others are being served")

    service.fault = broken
    session = open_session(tmp_path, service, moves(outcome="diagnosed"))
    await go(session)
    await session.close()
    (result,) = results(session)
    assert result["result"] == "not_applied" and "others are being served" in result["why"]
    assert service.calls == [] and host.read()["restarts"] == 0
    assert all(event.status == "ok" for event in session.events if isinstance(event, ToolFinished))
