"""Changes of the engine's service on lab hosts: kept, taken back, refused, and left by a dead process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evals.lab.hosts import Lab
from tests.lab_fixtures import lab_settings, running, said, ssh, tiny
from tests.service_scenarios import answers, apply_and_die, change, look, plan_of, until
from tools import service
from tools.contract import Host, ToolError
from tools.host import connect

pytestmark = pytest.mark.lab

UNIT = "sglang-kimi.service"
PORT = 30000
GRAPHS_ON = change(UNIT, "--disable-cuda-graph", "true", None)
DEPTH = change(UNIT, "--pp-async-batch-depth", None, "1")


@contextlib.asynccontextmanager
async def joined(folder: Path, scenario: str = "kimi-k26-pp8") -> AsyncIterator[tuple[Lab, Host]]:
    settings = lab_settings(folder)
    with running(tiny() if scenario == "tiny" else scenario, settings) as lab:
        host = await connect(lab.target(), settings)
        try:
            yield lab, host
        finally:
            await host.close()


def quiet(line: str) -> None:
    """Take progress and do nothing with it."""


async def test_two_changes_are_kept_one_on_the_other(tmp_path: Path) -> None:
    async with joined(tmp_path) as (_, host):
        plan = await plan_of(host, GRAPHS_ON, PORT, 30)
        assert "\n---disable-cuda-graph\n" in plan.diff
        assert "--disable-cuda-graph" not in plan.exec_start_after
        assert plan.running_requests == 0 and plan.startup_s is not None
        applied = await service.apply(host, plan, plan.digest(), quiet)
        assert applied.outcome == "applied", applied
        with pytest.raises(ToolError, match="was applied before"):
            await service.apply(host, plan, plan.digest(), quiet)
        other = await plan_of(host, DEPTH, PORT, 30)
        with pytest.raises(ToolError, match=f"transaction {plan.id} on {UNIT} is open"):
            await service.apply(host, other, other.digest(), quiet)
        assert (await service.confirm(host, plan)).outcome == "confirmed"
        assert (await service.apply(host, other, other.digest(), quiet)).outcome == "applied"
        assert (await service.confirm(host, other)).outcome == "confirmed"
        seen = await look(host, UNIT)
        assert "--pp-async-batch-depth 1" in seen.splitlines()[-1]
        assert "--disable-cuda-graph" not in seen.splitlines()[-1]
        assert seen.count("conf") > 2 and "NRestarts=0" in seen
        with pytest.raises(ToolError, match="is 1 in"):
            await plan_of(host, DEPTH, PORT, 30)


@pytest.mark.parametrize(
    ("scenario", "request_", "reason"),
    [
        (
            "kimi-k26-pp8",
            change(UNIT, "--no-such-flag", None, "7"),
            "unrecognized arguments: --no-such-flag 7",
        ),
        ("kimi-k26-pp8-capturefails", GRAPHS_ON, "illegal memory access"),
    ],
)
async def test_engine_that_does_not_start_is_taken_back(
    tmp_path: Path, scenario: str, request_: service.ChangeRequest, reason: str
) -> None:
    async with joined(tmp_path, scenario) as (_, host):
        before = await look(host, UNIT)
        plan = await plan_of(host, request_, PORT, 30)
        applied = await service.apply(host, plan, plan.digest(), quiet)
        assert applied.outcome == "rolled_back", applied
        assert applied.status.rolled_back_by == "readiness"
        assert reason in applied.status.reason or any(reason in line for line in applied.status.lines)
        assert await look(host, UNIT) == before
        assert await answers(host, PORT)
        with pytest.raises(ToolError, match="was applied before"):
            await service.apply(host, plan, plan.digest(), quiet)


async def test_timer_fires_after_our_death(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        before = await look(host, UNIT)
        plan = await plan_of(host, GRAPHS_ON, PORT, 6)
        await asyncio.to_thread(apply_and_die, lab.target(), plan, tmp_path, at="end applied")
        assert (await service.status(host, plan.id)).state in ("applied", "armed", "rolled_back")
        found = await until(host, plan, "rolled_back")
        assert found.rolled_back_by == "timer"
        assert await look(host, UNIT) == before
        assert await answers(host, PORT)
        assert (await service.confirm(host, plan)).outcome == "rolled_back"


async def test_change_is_refused_when_the_unit_is_another(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        plan = await plan_of(host, GRAPHS_ON, PORT, 30)
        folder = f"/etc/systemd/system/{UNIT}.d"
        said(lab, f"mkdir -p {folder}; printf '[Service]\\nNice=1\\n' >{folder}/10-nice.conf")
        with pytest.raises(ToolError, match="edited and not reloaded"):
            await plan_of(host, GRAPHS_ON, PORT, 30)
        with pytest.raises(ToolError, match="not what the plan was made from"):
            await service.apply(host, plan, plan.digest(), quiet)
        said(lab, "systemctl daemon-reload")
        with pytest.raises(ToolError, match="not what the plan was made from"):
            await service.apply(host, plan, plan.digest(), quiet)
        assert (await service.status(host, plan.id)).state == "none"
        said(lab, f"rm -r {folder}; systemctl daemon-reload")
        before = await look(host, UNIT)
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
        assert await look(host, UNIT) == before


async def test_plan_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    async with joined(tmp_path) as (lab, host):
        for request, why in [
            (change("nothing.service", "--x", None, "1"), "there is no unit nothing.service"),
            (change("engine@.service", "--x", None, "1"), "is a template"),
            (change("sglang-kimi", "--x", None, "1"), "not the full name"),
            (change(UNIT, "--pp-size", "4", "1"), "--pp-size is 8 in"),
            (change(UNIT, "--pp-size", None, "1"), "--pp-size is 8 in"),
            (change(UNIT, "--x", "1", None), "--x is not set in"),
            (change(UNIT, "--x", None, "a\u202eb"), "cannot be shown"),
            (change(UNIT, "x; reboot", None, "1"), "a setting is a flag"),
        ]:
            with pytest.raises(ToolError, match=why):
                await plan_of(host, request, PORT, 30)
        last = f"/etc/systemd/system/{UNIT}.d"
        said(lab, f"mkdir -p {last}; printf '[Service]\\nExecStart=\\n' >{last}/99-last.conf")
        plan = await plan_of_text(host)
        said(lab, f"printf 'ExecStart={plan}\\n' >>{last}/99-last.conf; systemctl daemon-reload")
        with pytest.raises(ToolError, match=r"99-last\.conf sorts after"):
            await plan_of(host, GRAPHS_ON, PORT, 30)


async def plan_of_text(host: Host) -> str:
    """Return the launch line of the engine that runs."""
    return (await look(host, UNIT)).splitlines()[-1].strip()


async def test_started_units_outlive_the_connection(tmp_path: Path) -> None:
    async with joined(tmp_path, "tiny") as (lab, _):
        ran = ssh(
            lab, "systemd-run --on-active=1s --timer-property=AccuracySec=200ms --unit=later touch /tmp/later"
        )
        assert ran.returncode == 0 and b"Running timer as unit: later.timer" in ran.stderr
        assert ssh(lab, "systemd-run --on-active=60 --unit=never touch /tmp/never").returncode == 0
        assert b"already loaded" in ssh(lab, "systemd-run --on-active=60 --unit=never true").stderr
        assert said(lab, "systemctl is-active never.timer; systemctl stop never.timer").strip() == "active"
        assert ssh(lab, "systemctl is-active never.timer").returncode == 3
        assert ssh(lab, "systemd-run --quiet --unit=now sh -c 'sleep 0.3; touch /tmp/now'").stderr == b""
        said(
            lab,
            "for i in 1 2 3 4 5 6 7; do [ -e /tmp/later ] && [ -e /tmp/now ] && exit; sleep 1; done; exit 1",
        )
        assert ssh(lab, "systemd-run --wrong true").returncode == 1


async def test_units_are_verified(tmp_path: Path) -> None:
    async with joined(tmp_path, "tiny") as (lab, _):
        unit = "/etc/systemd/system/web.service"
        done = ssh(lab, f"systemd-analyze verify {unit}")
        assert (done.returncode, done.stdout + done.stderr) == (0, b"")
        said(lab, f"mkdir -p {unit}.d; printf '[Service]\\nExecStrat=x\\n' >{unit}.d/1.conf")
        done = ssh(lab, f"systemd-analyze verify --man=no {unit}")
        assert (
            done.returncode == 0
            and b"1.conf:2: Unknown key name 'ExecStrat' in section 'Service'" in done.stderr
        )
        said(lab, f"printf '[Service]\\nExecStart=\\nExecStart=/nowhere\\n' >{unit}.d/1.conf")
        assert ssh(lab, f"systemd-analyze verify {unit}").returncode == 1
