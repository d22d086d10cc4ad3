from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agent import standing
from tests.file_host import FakeService, FileHost
from tools.contract import ToolError
from tools.service_types import ChangePlan, ChangeStatus

APPLIED = ChangeStatus(state="applied", detail="")
UNKNOWN = ChangeStatus(state="unknown", detail="the host gave no answer")
STRANDED = ChangeStatus(state="unknown", detail="no timer is armed; roll back", stranded=True)


class Answers:
    """A host that answers by the clock, which every question moves on."""

    def __init__(self, step_s: float, answer: Any) -> None:
        self.now = 0.0
        self.step_s = step_s
        self.answer = answer
        self.asked = 0

    async def status(self, host: Any, plan_id: str) -> ChangeStatus:
        self.asked += 1
        self.now += self.step_s
        found = self.answer(self.now)
        if isinstance(found, ToolError):
            raise found
        assert isinstance(found, ChangeStatus)
        return found


async def end(answers: Answers, plan: ChangePlan, monkeypatch: pytest.MonkeyPatch) -> ChangeStatus:
    monkeypatch.setattr(standing, "POLL_S", 0.0)
    monkeypatch.setattr(standing, "time", SimpleNamespace(monotonic=lambda: answers.now))
    service: Any = answers
    limit = plan.readiness_s + plan.rollback_after_s
    return await standing.at_rest(service, SimpleNamespace(name="here"), plan.id, limit, lambda text: None)


@pytest.fixture
async def plan(tmp_path: Any) -> ChangePlan:
    from datetime import UTC, datetime

    from tools.service_types import ChangeRequest

    service = FakeService(FileHost(tmp_path / "host.json"))
    request = ChangeRequest(unit="engine.service", setting="--x", from_value=None, to_value="1")
    host = SimpleNamespace(name="here", key_fingerprint=None)
    return await service.make_plan(host, request, port=1, now=datetime.now(UTC))


@pytest.mark.parametrize("silent", [UNKNOWN, ToolError("the link is down")], ids=["unknown", "refused"])
async def test_many_unknown_answers_within_minutes_are_waited_out(
    silent: Any, plan: ChangePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Answers(0.5, lambda now: APPLIED if now > 200 else silent)
    assert (await end(host, plan, monkeypatch)).state == "applied" and host.asked > 300


async def test_a_host_that_never_answers_is_given_up_after_minutes(
    plan: ChangePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Answers(1.0, lambda now: UNKNOWN)
    assert (await end(host, plan, monkeypatch)).state == "unknown"
    assert host.now > standing.UNKNOWN_S >= 120


async def test_one_answer_begins_the_minutes_anew(plan: ChangePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    armed = ChangeStatus(state="armed", detail="at work")
    plan = plan.model_copy(update={"readiness_s": 3600.0})
    host = Answers(100.0, lambda now: APPLIED if now > 2000 else armed if now % 300 == 0 else UNKNOWN)
    assert (await end(host, plan, monkeypatch)).state == "applied"


async def test_a_change_without_a_timer_is_told_within_seconds(
    plan: ChangePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Answers(1.0, lambda now: STRANDED)
    assert (await end(host, plan, monkeypatch)).stranded and host.now < 20
    brief = Answers(1.0, lambda now: STRANDED if now < 3 else APPLIED)
    assert (await end(brief, plan, monkeypatch)).state == "applied"
