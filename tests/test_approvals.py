from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from agent.approvals import ApprovalRefused, give
from agent.events import ActionStarted, ApprovalAsked, ApprovalGiven, ApprovalVoided, PlanMade
from agent.leases import HostLease
from agent.session import Session
from tests.file_host import FakeService, FileHost
from tests.trial_parts import decision, go, moves, open_session, results
from tools.lease import Overtaken
from tools.service_types import ChangePlan


async def asked(root: Path, service: FakeService) -> Session:
    session = open_session(root, service, moves())
    async for _ in session.ask():
        pass
    assert session.waiting is not None
    return session


async def test_a_run_stops_at_an_approval_and_nothing_is_changed(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    session = await asked(tmp_path, service)
    assert session.ended is None and isinstance(session.events[-1], ApprovalAsked)
    assert service.calls == [] and host.read()["restarts"] == 0
    again = [event async for event in session.ask()]
    assert not again or not isinstance(again[-1], ApprovalAsked), "asked once, however often it is looked at"
    assert sum(isinstance(event, ApprovalAsked) for event in session.events) == 1
    await session.close()


async def test_an_unbound_or_foreign_decision_is_refused(tmp_path: Path) -> None:
    session = await asked(tmp_path, FakeService(FileHost(tmp_path / "host.json")))
    for wrong in ({"digest": "0" * 64}, {"digest": ""}, {"change": "C2"}):
        with pytest.raises(ApprovalRefused):
            async for _ in session.answer(decision(session, **wrong)):
                pass
    assert not any(isinstance(event, ApprovalGiven) for event in session.events)
    await session.close()


async def test_a_second_answer_is_refused_and_one_of_many_counts(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    session = await asked(tmp_path, FakeService(host))
    approval = decision(session)
    taken = []

    async def click() -> None:
        try:
            give(session._work, approval)
            taken.append(1)
        except ApprovalRefused:
            await asyncio.sleep(0)

    await asyncio.gather(*(click() for _ in range(50)))
    assert len(taken) == 1
    async for _ in session.ask():
        pass
    with pytest.raises(ApprovalRefused):
        give(session._work, approval)
    assert host.read()["restarts"] == 1
    await session.close()


async def test_a_denial_changes_nothing_and_is_told(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    session = open_session(tmp_path, service, moves(outcome="diagnosed"))
    async for _ in session.ask():
        pass
    async for _ in session.answer(decision(session, "denied", reason="not today")):
        pass
    (result,) = results(session)
    assert result["result"] == "denied" and result["status"] == "proposed"
    assert "not today" in result["why"]
    assert service.calls == [] and host.read() == FileHost(tmp_path / "other.json").read()
    assert session.ended is not None and session.ended.outcome == "diagnosed"
    await session.close()


async def test_an_expired_plan_is_made_anew_and_asked_for_again(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    service.valid_s = 2.0  # long enough to be asked on a busy machine; what expires unasked is planned anew
    session = await asked(tmp_path, service)
    first = session.waiting
    assert first is not None
    await asyncio.sleep(2.1)
    with pytest.raises(ApprovalRefused, match="expired"):
        give(session._work, decision(session))
    service.valid_s = 600.0
    async for _ in session.ask():
        pass
    assert session.waiting is not None and session.waiting.digest != first.digest
    assert any(isinstance(event, ApprovalVoided) for event in session.events)
    await go(session)
    assert [result["result"] for result in results(session)] == ["kept"]
    await session.close()


async def test_an_approval_that_expires_before_acting_is_void(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    service.valid_s = 2.0

    def slow(point: str, when: str) -> None:
        if (point, when) == ("measure", "before") and host.read()["loads"] == 0:
            import time

            service.valid_s = 600.0  # of the plan that is made after this one
            time.sleep(2.1)

    service.fault = slow
    session = await asked(tmp_path, service)
    async for _ in session.answer(decision(session)):
        pass
    assert service.calls == [] and session.waiting is not None
    assert [event.why for event in session.events if isinstance(event, ApprovalVoided)] == [
        "the plan has expired"
    ]
    await go(session)
    assert host.read()["restarts"] == 1
    await session.close()


async def test_a_plan_nobody_decides_on_is_given_up(tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"))
    service.valid_s = -1.0
    session = open_session(tmp_path, service, moves(outcome="diagnosed"))
    async for _ in session.ask():
        pass
    (result,) = results(session)
    assert result["result"] == "not_applied" and "nobody decided in time" in result["why"]
    assert sum(isinstance(event, PlanMade) for event in session.events) == 3
    await session.close()


def changed(value: Any) -> Any:
    """Return a value that differs in as little as its type allows."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if value[:4].isdigit() and "T" in value:
            return (datetime.fromisoformat(value) + timedelta(seconds=1)).astimezone(UTC).isoformat()
        case str():
            return value[:-1] + chr(ord(value[-1]) ^ 1) if value else "x"
        case list():
            return [*value, "x"]
        case dict():
            return {**value, "name": "x"}
        case _:
            return None


FIELDS = list(ChangePlan.model_fields)
UNSET: dict[str, Any] = {
    "to_value": "1",
    "undoes": "p0",
    "host_key": "SHA256:other",
    "environment": {"name": "X", "before": None, "after": "1"},
}
"""What takes the place of a field that is not set."""


def tamper(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the recorded plan, and whatever names its digest, in a transcript."""
    lines = []
    for line in path.read_text().splitlines():
        event = json.loads(line)
        if event["type"] in ("plan_made", "approval_asked", "approval_given"):
            edit(event)
        lines.append(json.dumps(event) + "\n")
    path.write_text("".join(lines))


Forged = Literal["plan alone", "plan and digest", "whole transcript"]


@pytest.mark.threat(6)
@pytest.mark.parametrize("forged", get_args(Forged))
@pytest.mark.parametrize("field", FIELDS)
async def test_a_plan_that_differs_in_one_byte_is_not_carried_out(
    tmp_path: Path, field: str, forged: Forged
) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    session = await asked(tmp_path, service)
    give(session._work, decision(session))
    await session.close()

    digests: list[str] = []

    def edit(event: dict[str, Any]) -> None:
        if "plan" in event:
            value = event["plan"][field]
            event["plan"][field] = changed(value) if value is not None else UNSET.get(field, "another")
            assert event["plan"][field] != value
            digests.append(ChangePlan.model_validate(event["plan"]).digest())
        if forged == "whole transcript" or (forged == "plan and digest" and "plan" in event):
            event["digest"] = digests[-1]

    tamper(session.folder / "transcript.jsonl", edit)
    session = open_session(tmp_path, service, moves(), resume=True)
    async for _ in session.ask():
        pass
    assert "apply" not in service.calls and host.read()["restarts"] == 0
    assert any(isinstance(event, ApprovalVoided) for event in session.events)
    assert not any(isinstance(event, ActionStarted) for event in session.events)
    assert session.waiting is not None, "another plan asks for another approval"
    await session.close()


async def test_a_change_that_was_not_begun_leaves_no_approval_behind(tmp_path: Path) -> None:
    """Whatever kept it from beginning: the host busy, the audit down, the state before not measurable."""
    from agent.approvals_store import ApprovalStore
    from agent.executions import Executions
    from tools.contract import ToolError

    for place, keep in enumerate(("an open plan", "no measurement")):
        root = tmp_path / str(place)
        service = FakeService(FileHost(tmp_path / f"{place}.json"))
        session = open_session(root, service, moves(outcome="inconclusive"))
        async for _ in session.ask():
            pass
        if keep == "an open plan":
            other = session.plan("C1").model_copy(update={"id": "other-1"})
            await service.apply(None, other, other.digest(), lambda line: None)
            Executions(root).begin(other, "another")
        else:

            def fail(point: str, when: str) -> None:
                if point == "measure":
                    raise ToolError("no load can be put on")

            service.fault = fail
        async for _ in session.answer(decision(session)):
            pass
        await session.close()
        (result,) = results(session)
        assert result["result"] == "not_applied", (keep, result)
        store = ApprovalStore(root)
        (record,) = [store.get(one) for one in store.ids()]
        assert record.state == "voided" and record.reason, keep


@dataclasses.dataclass(frozen=True)
class OvertakenOnce(HostLease):
    """A host that let somebody else in since the first plan was made."""

    refused: list[str] = dataclasses.field(default_factory=list)

    async def take(self, host: Any, plan: ChangePlan) -> int | None:
        if not self.refused:
            self.refused.append(plan.id)
        if plan.id in self.refused:
            raise Overtaken("here: another session was let in to change this host since; make a new plan")
        return 2

    async def give_back(self, host: Any, plan: ChangePlan) -> None:
        pass


async def test_an_overtaken_plan_is_void_and_made_anew(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    session = open_session(tmp_path, FakeService(host), moves())
    session._work.ports = dataclasses.replace(session._work.ports, lease=OvertakenOnce())
    async for _ in session.ask():
        pass
    first = session.plan("C1")
    async for _ in session.answer(decision(session)):
        pass
    (why,) = [event.why for event in session.events if isinstance(event, ApprovalVoided)]
    assert "another session was let in" in why and host.read()["restarts"] == 0
    assert session.waiting is not None and session.waiting.digest != first.digest()
    await go(session)
    await session.close()
    assert [result["result"] for result in results(session)] == ["kept"]
