"""Kept changes of a lab host: taken back, refused with the reason, and looked at again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evals.lab.hosts import Lab
from tests.lab_fixtures import said
from tests.service_scenarios import answers, look, plan_of
from tests.test_service_lab import DEPTH, GRAPHS_ON, PORT, UNIT, joined, quiet
from tools import service
from tools.contract import Host, ToolError
from tools.service import ChangePlan, ChangeRequest

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FOLDER = f"/etc/systemd/system/{UNIT}.d"


async def keep(host: Host, request: ChangeRequest) -> ChangePlan:
    """Apply a change and keep it."""
    plan = await plan_of(host, request, PORT, 30)
    assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
    assert (await service.confirm(host, plan)).outcome == "confirmed"
    return plan


async def undo_of(host: Host, kept: ChangePlan) -> ChangePlan:
    return await service.make_undo(host, kept, now=datetime.now(UTC), minimum_s=30)


async def until_it_answers(host: Host) -> None:
    """Wait for a start that nobody waited for: what a restarted host forgot is how the unit was before."""
    for _ in range(150):
        if await answers(host, PORT):
            return
        await asyncio.sleep(0.2)
    raise AssertionError("the engine does not answer")


def restarted(lab: Lab) -> None:
    """Take away what a restart of the host takes away: all that the transaction keeps in /run."""
    said(lab, "rm -rf /run/leadline")


@contextlib.contextmanager
def laid(lab: Lab, path: str, text: str) -> Iterator[None]:
    """Let a file be there for a while."""
    said(lab, f"cat >{path} <<'EOT'\n{text}EOT\nsystemctl daemon-reload")
    yield
    said(lab, f"rm {path}; systemctl daemon-reload")


async def test_kept_changes_are_taken_back_newest_first_after_a_restart_of_the_host(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        first = await look(host, UNIT)
        graphs, depth = await keep(host, GRAPHS_ON), await keep(host, DEPTH)
        restarted(lab)
        assert (await service.holding(host, graphs)).in_force and (
            await service.holding(host, depth)
        ).in_force
        with pytest.raises(ToolError, match=f"a newer change, {depth.id}, stands above {graphs.id}"):
            await undo_of(host, graphs)
        plan = await undo_of(host, depth)
        assert plan.undoes == depth.id and plan.dropin_path == depth.dropin_path
        assert "\n---pp-async-batch-depth 1" in plan.diff and plan.to_value is None
        assert any("is restarted" in line for line in plan.blast_radius)
        applied = await service.apply(host, plan, plan.digest(), quiet)
        assert applied.outcome == "applied", applied
        assert f"90-leadline-{depth.id}.undo-{plan.id}" in said(lab, f"ls {FOLDER}")
        assert (await service.confirm(host, plan)).outcome == "confirmed"
        gone = await service.holding(host, depth)
        assert not gone.in_force and "is not there any more" in gone.reasons[0]
        with pytest.raises(ToolError, match="taken back already"):
            await undo_of(host, depth)
        # The other one, whose old state does not come back: rolled back, and as it was before.
        before = await look(host, UNIT)
        plan = await undo_of(host, graphs)
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
        assert await look(host, UNIT) == before and await answers(host, PORT)
        # A host that restarted in the middle of it: the file lies aside, and is put back.
        plan = await undo_of(host, graphs)
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        said(lab, f"systemctl stop 'leadline-rollback-{plan.id}-*.timer' || :")
        restarted(lab)
        found = await service.status(host, plan.id)
        assert found.state == "unknown" and "restarted" in found.detail
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
        assert await look(host, UNIT) == before
        await until_it_answers(host)
        plan = await undo_of(host, graphs)
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        assert (await service.confirm(host, plan)).outcome == "confirmed"
        assert await look(host, UNIT) == first and await answers(host, PORT)


async def test_an_undo_that_would_do_harm_is_refused(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        kept = await keep(host, GRAPHS_ON)
        line = (await look(host, UNIT)).splitlines()[-1].strip()
        with laid(lab, f"{FOLDER}/99-last.conf", f"[Service]\nExecStart=\nExecStart={line}\n"):
            with pytest.raises(ToolError, match=r"99-last\.conf sorts after .* decides the same"):
                await undo_of(host, kept)
            assert (await service.holding(host, kept)).in_force
        last = f"[Service]\nExecStart=\nExecStart={line} --disable-cuda-graph\n"
        with laid(lab, f"{FOLDER}/99-last.conf", last):
            found = await service.holding(host, kept)
            assert (
                "is set in the unit, not left out" in found.reasons[0] and "99-last.conf" in found.reasons[0]
            )
        said(lab, f"cp -p {kept.dropin_path} /tmp/kept.conf")
        said(lab, f"echo '# by hand' >>{kept.dropin_path}; systemctl daemon-reload")
        with pytest.raises(ToolError, match=f"was edited since {kept.id} wrote it"):
            await undo_of(host, kept)
        assert "was edited" in (await service.holding(host, kept)).reasons[0]
        said(lab, f"cp -p /tmp/kept.conf {kept.dropin_path}; systemctl daemon-reload")
        other = kept.model_copy(update={"host_key": "SHA256:other"})
        with pytest.raises(ToolError, match="another host key"):
            await undo_of(host, other)
        with pytest.raises(ToolError, match="another host key"):
            await service.holding(host, other)
        plan = await undo_of(host, kept)
        said(lab, f"echo '# by hand' >>{kept.dropin_path}; systemctl daemon-reload")
        with pytest.raises(ToolError, match="not what the plan was made from"):
            await service.apply(host, plan, plan.digest(), quiet)
        said(lab, f"cp -p /tmp/kept.conf {kept.dropin_path}; systemctl daemon-reload")
        gone = f"systemctl stop {UNIT}; mv /etc/systemd/system/{UNIT} /tmp; systemctl daemon-reload"
        said(lab, gone)
        with pytest.raises(ToolError, match=f"there is no unit {UNIT}|does not run"):
            await undo_of(host, kept)
        assert not (await service.holding(host, kept)).in_force
