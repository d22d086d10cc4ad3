from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.budget import Budget, Limits
from agent.errors import ExitCode
from agent.events import Resumed, SystemNote, ToolFinished, TurnTaken, UserMessage
from agent.session import Session
from agent.state import AssistantTurn, Message, Usage
from tests.scripted_parts import TOOLS, again, begin, call, conclusion, run, turn

START = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = Limits(turns=3, tokens=100, cost_usd=1.0, wall_s=60.0)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def used(tokens: int = 0, cost_usd: float = 0.0) -> Usage:
    return Usage(input_tokens=tokens, cost_usd=cost_usd)


def test_time_between_runs_and_before_a_person_speaks_is_free() -> None:
    budget = Budget(LIMITS)
    budget.feed(UserMessage(at=after(0), text="x"))
    budget.feed(TurnTaken(at=after(10), turn=1, model="m"))
    budget.feed(Resumed(at=after(10_000), process="p"))
    budget.feed(TurnTaken(at=after(10_005), turn=2, model="m"))
    budget.feed(UserMessage(at=after(90_000), text="y"))
    assert budget.wall_s == 15.0
    assert budget.spent(after(90_044)) is None
    assert budget.spent(after(90_045)) == "60 of 60 seconds"


@pytest.mark.threat(12)
@pytest.mark.parametrize(
    ("usage", "says"),
    [
        (used(tokens=99), None),
        (used(tokens=100), "100 of 100 tokens"),
        (used(cost_usd=0.99), None),
        (used(cost_usd=1.0), "$1.00 of $1.00"),
    ],
)
def test_each_limit_is_kept(usage: Usage, says: str | None) -> None:
    budget = Budget(LIMITS)
    budget.feed(TurnTaken(at=after(0), turn=1, model="m", usage=usage))
    assert budget.spent(after(0)) == says


@pytest.mark.threat(12)
def test_one_turn_beyond_the_limit_is_for_the_conclusion() -> None:
    budget = Budget(LIMITS)
    for number in range(5):
        budget.feed(TurnTaken(at=after(0), turn=number, model="m"))
        assert (budget.spent(after(0)) is None) == (number < 4)
    said = budget.used(5, TurnTaken(turn=5, model="m", usage=used(tokens=7)))
    assert (said.turns, said.tokens) == (5, 7)


def offered(session: Session) -> list[list[str]]:
    offers: list[list[str]] = session._work.model.offered  # type: ignore[attr-defined]
    return offers


@pytest.mark.threat(12)
async def test_the_last_turn_may_only_conclude(tmp_path: Path) -> None:
    look = turn(call("look"))
    session = begin(tmp_path, [look, look, turn(conclusion(outcome="inconclusive"))], max_turns=2)
    await run(session)
    assert offered(session)[-1] == ["conclude"] and set(TOOLS) < set(offered(session)[0])
    notes = [event.text for event in session.events if isinstance(event, SystemNote)]
    assert len(notes) == 1 and "All 2 turns are used" in notes[0]
    assert session.ended is not None and session.ended.summary == "Graphs are off."


@pytest.mark.threat(12)
async def test_a_model_that_goes_on_is_stopped(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(call("look"))], max_turns=2)
    await run(session)
    assert session.ended is not None and session.ended.outcome == "inconclusive"
    assert "2 turns" in session.ended.summary and session.exit_code is ExitCode.BUDGET
    results = [event for event in session.events if isinstance(event, ToolFinished)]
    assert [event.status for event in results] == ["ok", "ok", "ok", "tool_error"]
    assert "only `conclude`" in results[-1].view


@pytest.mark.threat(12)
@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ({"max_tokens": 25}, "30 of 25 tokens"),
        ({"max_cost_usd": 0.5}, "$0.60"),
        ({"max_wall_s": 1e-9}, "seconds"),
    ],
)
async def test_tokens_money_and_time_end_an_investigation(
    tmp_path: Path, limit: dict[str, Any], says: str
) -> None:
    session = begin(tmp_path, [turn(call("look"), cost_usd=0.2)], **limit)
    await run(session)
    assert session.ended is not None and says in session.ended.summary
    assert session.exit_code is ExitCode.BUDGET


async def test_a_spent_thread_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(call("look"))], max_turns=1)
    await run(session)
    more = again(tmp_path, [turn(conclusion(outcome="inconclusive"))], session.thread, max_turns=9)
    await run(more, "go on")
    assert more.ended is not None and more.ended.summary == "Graphs are off."
    assert more.exit_code is ExitCode.DONE


@pytest.mark.threat(12)
@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ({"max_turns": 3}, 4),
        ({"max_turns": 10**6, "max_tokens": 95}, 4),
        ({"max_turns": 10**6, "max_cost_usd": 1.0}, 4),
        ({"max_turns": 10**6, "max_wall_s": 0.6}, 100),
    ],
)
async def test_a_model_that_never_ends_is_ended_by_each_budget_alone(
    tmp_path: Path, limit: dict[str, Any], most: int
) -> None:
    """It looks, thinks up hypotheses, says nothing, and never concludes, in ever new ways."""
    asked = [0]

    def endless(messages: Sequence[Message]) -> AssistantTurn:
        asked[0] += 1
        calls = [call("look", text=f"{asked[0]}.{number}") for number in range(asked[0] % 3)]
        return turn(*(calls or [call("nonsense")]), tokens=30, cost_usd=0.3)

    session = begin(tmp_path, [endless], **limit)
    await run(session)
    assert session.ended is not None and session.ended.outcome == "inconclusive"
    assert session.exit_code is ExitCode.BUDGET and asked[0] <= most
    turns = [event for event in session.events if isinstance(event, TurnTaken) and event.turn > 0]
    assert len(turns) == asked[0]


@pytest.mark.threat(12)
async def test_a_model_that_only_talks_is_ended_too(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(text="One moment, I am thinking.")], max_turns=10**6)
    await run(session)
    assert session.ended is not None and session.ended.outcome == "inconclusive"
    assert sum(isinstance(event, TurnTaken) and event.turn > 0 for event in session.events) == 2


@pytest.mark.threat(12)
async def test_a_resumed_thread_has_no_new_budget(tmp_path: Path) -> None:
    session = begin(tmp_path, [turn(call("look"))], max_turns=2)
    await run(session)
    for _ in range(3):
        more = again(tmp_path, [turn(call("look"))], session.thread, max_turns=2)
        await run(more, "go on")
        assert more.exit_code is ExitCode.BUDGET
    assert sum(isinstance(event, TurnTaken) and event.turn > 0 for event in more.events) == 3
