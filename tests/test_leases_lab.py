"""Two sessions on one host: changes one after the other, whoever is slow, from one machine or two."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evals.lab.hosts import Lab
from tests.lab_fixtures import said
from tests.service_scenarios import answers, look, plan_of
from tests.test_service_lab import DEPTH, GRAPHS_ON, PORT, UNIT, joined, quiet
from tools import lease, service
from tools.contract import ToolError
from tools.lease import Leased, Overtaken

pytestmark = [pytest.mark.lab, pytest.mark.slow]


async def machine(lab: Lab, state: Path, setting: str, old: str, new: str) -> list[dict[str, Any]]:
    """Let another process, with a state folder of its own, make one change."""
    target = lab.target()
    where = [target.name, str(target.port), target.user or "", str(target.key_path), str(target.known_hosts)]
    words = ["-m", "tests.two_machines", *where, str(state), UNIT, setting, old, new]
    child = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=-1, stderr=-1, cwd=Path(__file__).parent.parent
    )
    out, err = await asyncio.wait_for(child.communicate(), 120)
    assert child.returncode == 0, (out.decode(), err.decode())
    return [json.loads(line) for line in out.decode().splitlines()]


@pytest.mark.threat(13)
async def test_two_machines_change_one_host_strictly_one_after_the_other(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        one, other = await asyncio.gather(
            machine(lab, tmp_path / "a", "--disable-cuda-graph", "true", ""),
            machine(lab, tmp_path / "b", "--pp-async-batch-depth", "", "1"),
        )
        first, second = sorted((one[-2], other[-2]), key=lambda row: float(row["token"]))
        assert first["token"] < second["token"] and first["done"] <= second["taken"]
        refused = one[-1]["refused"] + other[-1]["refused"]
        assert any("another session" in why or "not what the plan" in why for why in refused), refused
        seen = (await look(host, UNIT)).splitlines()[-1]
        assert "--pp-async-batch-depth 1" in seen and "--disable-cuda-graph" not in seen
        assert await answers(host, PORT)
        assert said(lab, f"grep -c . /run/leadline/unit-{UNIT}.starts").strip() == "2"


@pytest.mark.threat(13)
async def test_who_was_overtaken_is_refused_by_the_host(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        slow = await plan_of(host, GRAPHS_ON, PORT, 30)
        quick = await plan_of(host, DEPTH, PORT, 30)
        assert await lease.take(host, slow, 2) == 1
        with pytest.raises(Leased, match=f"another session, with plan {slow.id}, is changing this host"):
            await lease.take(host, quick, 60)
        with pytest.raises(ToolError, match="is changing this host"):
            await service.apply(host, quick, quick.digest(), quiet)
        assert await lease.take(host, slow, 2) == 1  # renewed: the same session, the same token
        await asyncio.sleep(2.5)  # as long as a session that hangs
        assert await lease.take(host, quick, 60) == 2
        with pytest.raises(Overtaken, match="token 1 of this plan is older than 2"):
            await lease.take(host, slow, 60)
        with pytest.raises(ToolError, match="token 1 of this plan is older than 2"):
            await service.apply(host, slow, slow.digest(), quiet)
        applied = await service.apply(host, quick, quick.digest(), quiet)
        assert applied.outcome == "applied"
        third = await plan_of(host, GRAPHS_ON, PORT, 30)
        with pytest.raises(Leased, match=f"transaction {quick.id} on {UNIT} is open"):
            await lease.take(host, third, 60)
        # The way back is never refused, whoever holds the lease; then the next one is let in at once.
        assert (await service.roll_back(host, quick)).outcome == "rolled_back"
        assert await lease.take(host, third, 60) == 3
        await lease.give_back(host, quick)  # no session gives back what another holds
        began = time.monotonic()
        await lease.give_back(host, third)
        assert await lease.take(host, await plan_of(host, GRAPHS_ON, PORT, 30), 1) == 4
        assert time.monotonic() - began < 60
        assert said(lab, "cut -d ' ' -f 1 /run/leadline/leases").split() == ["1", "2", "3", "4"]


@pytest.mark.threat(13)
async def test_the_restart_budget_is_the_hosts_and_a_rollback_is_never_refused_by_it(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        starts = f"/run/leadline/unit-{UNIT}.starts"
        said(
            lab,
            f"mkdir -p -m 700 /run/leadline; read -r up _ </proc/uptime; up=${{up%.*}}; "
            f"for n in 1 2 3 4; do echo $((up - n)); done >{starts}",
        )
        plan = await plan_of(host, GRAPHS_ON, PORT, 30)
        assert plan.restarts_needed == 2
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        said(lab, f"for n in 1 2 3; do tail -n 1 {starts} >>{starts}; done")
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
        assert await answers(host, PORT)
        again = await plan_of(host, GRAPHS_ON, PORT, 30)
        with pytest.raises(ToolError, match="9 of 6 in 30 minutes are used and this plan may need 2"):
            await service.apply(host, again, again.digest(), quiet)
        said(
            lab,
            f"read -r up _ </proc/uptime; up=${{up%.*}}; "
            f"for n in 1 2 3 4 5 6 7 8 9; do echo $((up - 1801 - n)); done >{starts}",
        )
        last = await plan_of(host, GRAPHS_ON, PORT, 30)
        assert (await service.apply(host, last, last.digest(), quiet)).outcome == "applied"
        assert (await service.confirm(host, last)).outcome == "confirmed"
