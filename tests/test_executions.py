from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.audit_files import CURRENT
from agent.audit_record import AuditRecord, read
from agent.audit_verify import verify
from agent.errors import LeadlineError, UsageError
from agent.executions import BegunBefore, Executions
from tests.file_host import FakeService, FileHost
from tests.trial_parts import decision, go, moves, open_session, propose, results
from tools.service_types import ChangePlan, ChangeRequest


class Named:
    """What a plan needs of a host."""

    name = "here"
    key_fingerprint: str | None = None


def plan_on(host: FileHost) -> ChangePlan:
    """Return a plan of the file host."""
    request = ChangeRequest(unit="engine.service", setting="--x", from_value="true", to_value=None)
    service = FakeService(host)
    return asyncio.run(service.make_plan(Named(), request, port=1, now=datetime.now(UTC)))


def forked(work: Callable[[], int]) -> int:
    """Start a process that does some work; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 9
    try:
        code = work()
    finally:
        os._exit(code)


def ends(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


@pytest.mark.threat(5)
@pytest.mark.threat(15)
def test_of_many_processes_one_begins_a_plan(tmp_path: Path) -> None:
    plan = plan_on(FileHost(tmp_path / "host.json"))

    def begin() -> int:
        try:
            Executions(tmp_path).begin(plan, f"thread-{os.getpid()}")
        except BegunBefore:
            return 3
        return 0

    assert sorted(ends([forked(begin) for _ in range(8)])) == [0] + [3] * 7
    (row,) = Executions(tmp_path).all()
    assert row.digest == plan.digest() and row.outcome is None
    Executions(tmp_path).ended(plan.digest(), "kept")
    Executions(tmp_path).ended(plan.digest(), "rolled_back")  # the first word stands
    with pytest.raises(BegunBefore, match="ended kept; no plan is done twice"):
        Executions(tmp_path).begin(plan, "another")
    assert (tmp_path / "executions.sqlite").stat().st_mode & 0o777 == 0o600


@pytest.mark.threat(15)
async def test_a_plan_that_another_thread_began_is_not_begun_again(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    session = open_session(tmp_path, FakeService(host), moves(outcome="inconclusive"))
    async for _ in session.ask():
        pass
    Executions(session._work.settings.state_dir).begin(session.plan("C1"), "another")
    async for _ in session.answer(decision(session)):
        pass
    await session.close()
    (result,) = results(session)
    assert result["result"] == "not_applied" and "begun before, by thread another" in result["why"]
    assert host.read()["restarts"] == 0
    (row,) = Executions(session._work.settings.state_dir).all()
    assert (row.thread, row.outcome) == ("another", None), "the row of the other thread was closed"


async def test_what_another_thread_left_open_is_read_from_the_host_first(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    service = FakeService(host)
    earlier = await service.make_plan(
        Named(),
        ChangeRequest(unit="engine.service", setting="--x", from_value="true", to_value=None),
        port=1,
        now=datetime.now(UTC),
    )
    await service.apply(Named(), earlier, earlier.digest(), lambda line: None)
    session = open_session(tmp_path, service, moves(propose(), propose("--other"), outcome="inconclusive"))
    ledger = Executions(session._work.settings.state_dir)
    ledger.begin(earlier, "another")
    async for _ in session.ask():
        pass
    async for _ in session.answer(decision(session)):
        pass
    host.fire()
    await go(session)
    await session.close()
    first, second = results(session)
    assert "which thread another began" in first["why"] and "resume that thread first" in first["why"]
    assert second["result"] in ("kept", "rolled_back"), second
    ends = {row.digest: row.outcome for row in ledger.all()}
    assert ends[earlier.digest()] == "rolled_back, as found on the host"


@pytest.mark.threat(5)
@pytest.mark.threat(15)
def test_of_two_processes_that_resume_a_thread_exactly_one_goes_on(tmp_path: Path) -> None:
    """The one that has the thread waits, in the middle of its change, until the other has given up."""
    lost = tmp_path / "lost"

    async def begin() -> None:
        session = open_session(
            tmp_path, FakeService(FileHost(tmp_path / "host.json")), moves(outcome="inconclusive")
        )
        async for _ in session.ask():
            pass
        await session.close()

    asyncio.run(begin())

    def wait(point: str, when: str) -> None:
        until = time.monotonic() + 60
        while point == "apply" and when == "before" and not lost.exists() and time.monotonic() < until:
            time.sleep(0.01)

    async def resume() -> int:
        service = FakeService(FileHost(tmp_path / "host.json"), fault=wait)
        try:
            session = open_session(tmp_path, service, moves(outcome="inconclusive"), resume=True)
        except UsageError as error:
            lost.write_text(str(error))
            return 3
        await go(session)
        await session.close()
        return 0

    assert sorted(ends([forked(lambda: asyncio.run(resume())) for _ in range(2)])) == [0, 3]
    assert "thread one is in use by another process" in lost.read_text()
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 1
    assert [row.outcome for row in Executions(tmp_path).all()] == ["kept"]


async def test_a_damaged_ledger_lets_nothing_begin(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    session = open_session(tmp_path, FakeService(host), moves(outcome="inconclusive"))
    (session._work.settings.state_dir / "executions.sqlite").write_bytes(b"garbage" * 500)
    await go(session)
    await session.close()
    (result,) = results(session)
    assert result["result"] == "not_applied" and "execution ledger" in result["why"]
    assert host.read()["restarts"] == 0


def records(root: Path) -> list[AuditRecord]:
    return [read(line) for line in (root / "audit" / CURRENT).read_bytes().splitlines()]


async def test_a_change_is_in_the_audit_from_its_plan_to_its_end(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    session = open_session(tmp_path, FakeService(host), moves())
    await go(session)
    await session.close()
    root = session._work.settings.state_dir
    found = [record for record in records(root) if record.kind not in ("command_started", "command_ended")]
    assert [record.kind for record in found] == [
        "plan_made",
        "approval_asked",
        "approval_given",
        *["step_started", "step_ended"] * 3,
    ]
    assert {record.digest for record in found if record.digest} == {session.plan("C1").digest()}
    assert [record.what.partition(" ")[0] for record in found[3::2]] == ["apply", "extend", "confirm"]
    assert {record.thread for record in found} == {"one"} and not verify(root / "audit").problem


async def tried_with_a_mount(
    root: Path, monkeypatch: pytest.MonkeyPatch, lost_at: tuple[str, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Try a change whose audit loses its copy when a point was passed so often; return how it ended."""
    mount = root / "mount"
    mount.mkdir()
    monkeypatch.setenv("LEADLINE_AUDIT__COPY_TO", f'["{mount / "copy.jsonl"}"]')
    host = FileHost(root / "host.json")
    passed: list[str] = []

    def lose(at: str, when: str) -> None:
        passed.extend([at] if when == "after" else [])
        if passed.count(lost_at[0]) == lost_at[1] and mount.exists():
            mount.rename(root / "away")

    session = open_session(root, FakeService(host, fault=lose), moves(outcome="inconclusive"))
    await go(session)
    await session.close()
    assert session.ended is not None
    (result,) = results(session)
    return result, host.read()


@pytest.mark.threat(16)
async def test_with_the_audit_down_no_change_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, host = await tried_with_a_mount(tmp_path, monkeypatch, ("measure", 1))
    assert result["result"] == "not_applied" and "not begun: the audit cannot be written" in result["why"]
    assert (host["restarts"], host["plans"]) == (0, {})


@pytest.mark.threat(16)
@pytest.mark.parametrize("lost_at", [("apply", 1), ("measure", 2)])
async def test_with_the_audit_lost_in_the_middle_the_old_state_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_at: tuple[str, int]
) -> None:
    result, host = await tried_with_a_mount(tmp_path, monkeypatch, lost_at)
    assert result["result"] == "rolled_back" and "audit cannot be written" in result["why"], result
    assert (host["runs"], host["restarts"]) == ("old", 2)


@pytest.mark.threat(16)
async def test_with_the_audit_down_nobody_can_approve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_AUDIT__COPY_TO", '["/dev/full"]')
    host = FileHost(tmp_path / "host.json")
    session = open_session(tmp_path, FakeService(host), moves(outcome="inconclusive"))
    with pytest.raises(LeadlineError, match="the audit cannot be written"):
        await go(session)
    await session.close()
    assert host.read()["restarts"] == 0
