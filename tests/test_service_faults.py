"""What goes wrong on a host in the middle of a change, and may not be told as success or as nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.lab_fixtures import said
from tests.service_scenarios import answers, look, plan_of, until
from tests.test_service_lab import GRAPHS_ON, PORT, UNIT, joined, quiet
from tools import service, transaction
from tools.contract import ToolError
from tools.transaction import call

pytestmark = pytest.mark.lab

FOLDER = f"/etc/systemd/system/{UNIT}.d"


async def test_a_change_whose_text_is_gone_is_not_kept(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        before = await look(host, UNIT)
        plan = await plan_of(host, GRAPHS_ON, PORT, 30)
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        said(lab, f"rm -r {FOLDER}; systemctl daemon-reload")
        with pytest.raises(ToolError, match="does not hold what was applied any more"):
            await service.confirm(host, plan)
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
        assert await look(host, UNIT) == before and await answers(host, PORT)


async def test_an_edit_by_somebody_else_is_told_when_a_change_is_kept(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        plan = await plan_of(host, GRAPHS_ON, PORT, 30)
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        said(lab, f"printf '[Service]\\nNice=1\\n' >{FOLDER}/10-nice.conf; systemctl daemon-reload")
        found = await service.confirm(host, plan)
        assert found.outcome == "confirmed" and "somebody else changed" in found.status.notes[-1]


async def test_a_timer_left_by_a_call_that_died_is_stepped_over(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        plan = await plan_of(host, GRAPHS_ON, PORT, 30)
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        count = int(said(lab, f"cat /run/leadline/{plan.id}/count"))
        left = f"leadline-rollback-{plan.id}-{count + 1}"
        said(lab, f"systemd-run --on-active=600 --unit={left} true")
        with pytest.raises(ToolError, match="already loaded"):
            await service.extend(host, plan, 60)
        assert (await service.extend(host, plan, 60)).state == "applied"
        assert (await service.confirm(host, plan)).outcome == "confirmed"


async def test_a_change_that_is_still_being_prepared_is_not_taken_for_none(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        plan = await plan_of(host, GRAPHS_ON, PORT, 30)
        slow = transaction.program(plan).replace(b"    point saved\n", b"    point saved\n    sleep 3\n")
        begun = asyncio.create_task(call(host, "begin", plan.id, sent=slow))
        found = await until(host, plan, "armed")
        assert "prepared" in found.detail
        assert (
            said(lab, f"cat /run/leadline/{plan.id}/state 2>/dev/null || echo not yet").strip() == "not yet"
        )
        # To take it back waits until it has begun, and leaves nothing that could begin later.
        undone = await service.roll_back(host, plan)
        assert (await begun).ok and undone.status.state == "rolled_back", undone
        assert "--disable-cuda-graph" in (await look(host, UNIT)).splitlines()[-1]


async def test_a_plan_that_was_given_up_cannot_begin_late(tmp_path: Path) -> None:
    async with joined(tmp_path, "tiny") as (_, host):
        id_ = "20260101t000000-abcdef"
        assert (await service.status(host, id_)).state == "none"
        assert transaction.parse((await call(host, "withdraw", id_)).stdout.data)[0].state == "none"
        with pytest.raises(ToolError, match="given up"):
            await call(host, "begin", id_, sent=b"exit 0")
        assert (await service.status(host, id_)).state == "none"
