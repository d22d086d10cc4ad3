"""Changes of a service on a real systemd, reached over a real sshd."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from evals.loopback_sshd import free_port
from tests.nspawn_host import SystemdHost, linked, small_engines
from tests.service_scenarios import (
    answers,
    apply_and_die,
    change,
    look,
    plan_of,
    starts,
    until,
    until_they_answer,
)
from tools import service, transaction
from tools.contract import Host, Result, ToolError
from tools.ssh import SshHost

pytestmark = [pytest.mark.systemd, pytest.mark.slow]

BEGUN = ("saved", "written", "armed")
WORKED = ("touched", "renamed", "reloaded", "restarted", "ready", "applied")
UNDONE = ("restoring", "removed", "undone")
POINTS = (*BEGUN, *WORKED, *UNDONE, "confirmed")
SCENES = (
    *("good", "bad", "verify", "crash", "slow", "refuse", "death", "middle", "colour", "storm"),
    *("lost", "cut", "worker", "sudo", "flap"),
)
NAMES = (*SCENES, *(f"point-{name}" for name in POINTS))
PORTS = {name: free_port() for name in NAMES}
LIMIT_S = 10.0
PATIENCE_S = 30.0
"""Of a change that is taken back at once, so that a slow machine does not decide how it ends."""
STARTS = 3
"""Of a unit for one change that fails: the change, one more by systemd itself, and the way back."""

_UNIT = """[Unit]
Description=Small engine {name}
StartLimitIntervalSec=20
StartLimitBurst=8

[Service]
Environment=COLOUR=red
ExecStart=/usr/bin/python3 -u /opt/engine/serve.py --port {port} \\
    --label "two words, 100%% \\"quoted\\""
Restart=on-failure
RestartSec=200ms
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdHost]:
    with small_engines(tmp_path_factory.mktemp("systemd"), _UNIT, PORTS) as up:
        yield up


@pytest.fixture
async def host(machine: SystemdHost) -> AsyncIterator[Host]:
    async with linked(machine) as link:
        await engines_answer(link)
        yield link


async def engines_answer(link: Host) -> None:
    await until_they_answer(link, [PORTS[name] for name in ("good", NAMES[-1])])


async def run(
    host: Host, name: str, setting: str, old: str | None, new: str | None
) -> tuple[service.Applied, str]:
    """Apply one change; return how that ended and the unit as it was before."""
    unit = f"{name}.service"
    before = await look(host, unit)
    plan = await plan_of(host, change(unit, setting, old, new), PORTS[name], LIMIT_S)
    return await service.apply(host, plan, plan.digest(), lambda line: None), before


async def served(host: Host, name: str) -> str:
    result = await host.exec(["curl", "-fsS", f"http://127.0.0.1:{PORTS[name]}/server_info"])
    return result.stdout.data.decode()


async def test_good_change_is_kept(host: Host) -> None:
    plan = await plan_of(host, change("good.service", "--start-s", None, "0.3"), PORTS["good"], LIMIT_S)
    assert plan.exec_start_before[-2:] == ["--label", 'two words, 100% "quoted"']
    assert plan.running_requests == 0 and plan.queued_requests == 0
    assert plan.startup_s is not None and plan.rollback_after_s == LIMIT_S
    said: list[str] = []
    applied = await service.apply(host, plan, plan.digest(), said.append)
    assert applied.outcome == "applied", applied
    assert said[0].startswith("rollback timer armed")
    timers = await host.exec(["systemctl", "list-timers", "--no-legend", "leadline-rollback-*"])
    assert timers.stdout.data.count(plan.id.encode()) == 2  # one timer and the service it activates
    extended = await service.extend(host, plan, 30)
    assert (
        extended.rollback_at
        and applied.status.rollback_at
        and extended.rollback_at > applied.status.rollback_at
    )
    finished = await service.confirm(host, plan)
    assert finished.outcome == "confirmed"
    assert (await service.confirm(host, plan)).outcome == "confirmed"
    assert (await service.roll_back(host, plan)).outcome == "confirmed"
    timers = await host.exec(["systemctl", "list-timers", "--all", "--no-legend", "leadline-rollback-*"])
    assert timers.stdout.data == b""
    assert "--start-s 0.3" in await served(host, "good") and 'two words, 100% "quoted"' in await served(
        host, "good"
    )
    with pytest.raises(ToolError, match="was applied before"):
        await service.apply(host, plan, plan.digest(), said.append)
    forget = f"rm -r /run/leadline/{plan.id} /run/leadline/leases*"  # as a restart of the host does
    assert (await host.exec(["sh", "-c", forget])).ok
    assert (await service.roll_back(host, plan)).outcome == "confirmed"
    with pytest.raises(ToolError, match=r"exists already|not what the plan was made from"):
        await service.apply(host, plan, plan.digest(), said.append)


async def test_variable_is_set_and_taken_back_byte_for_byte(host: Host) -> None:
    applied, before = await run(host, "colour", "COLOUR", "red", 'dark "blue" 50% $HOME')
    assert applied.outcome == "applied", applied
    assert (await served(host, "colour")).endswith('colour=dark "blue" 50% $HOME')
    found = await until(host, applied.plan_id, "rolled_back")  # nobody confirms
    assert found.rolled_back_by == "timer"
    assert (await served(host, "colour")).endswith("colour=red")
    assert await look(host, "colour.service") == before


@pytest.mark.parametrize(
    ("name", "setting", "value", "reason"),
    [
        (
            "bad",
            "--no-such-flag",
            "1",
            "(ended with status 2|it ended).*unrecognized arguments: --no-such-flag",
        ),
        ("crash", "--crash-after", "0.1", "(ended with status 1|started again by systemd)"),
        ("slow", "--start-s", "60", "not ready (after|before the rollback timer)"),
        ("refuse", "--refuse", "true", "answers 500 to a request"),
        ("flap", "--flap", "true", "not ready (after|before the rollback timer)"),
    ],
)
async def test_change_that_does_not_run_is_taken_back(
    host: Host, name: str, setting: str, value: str, reason: str
) -> None:
    began = await starts(host, f"{name}.service")
    applied, before = await run(host, name, setting, None, value)
    assert applied.outcome == "rolled_back", applied
    assert 2 <= await starts(host, f"{name}.service") - began <= STARTS
    assert re.search(reason, applied.status.reason), applied.status.reason
    assert applied.status.rolled_back_by in ("readiness", "timer")
    assert await answers(host, PORTS[name])
    assert await look(host, f"{name}.service") == before


@pytest.mark.threat(15)
@pytest.mark.parametrize(("name", "at"), [("death", "end applied"), ("middle", "restarting")])
async def test_our_death_restores_the_old_state(
    machine: SystemdHost, host: Host, tmp_path: Path, name: str, at: str
) -> None:
    unit = f"{name}.service"
    before, began = await look(host, unit), await starts(host, unit)
    plan = await plan_of(host, change(unit, "--start-s", None, "0.4"), PORTS[name], LIMIT_S)
    await asyncio.to_thread(apply_and_die, machine.target(), plan, tmp_path, at=at)
    found = await until(host, plan, "rolled_back")
    assert found.rolled_back_by == "timer"
    assert await answers(host, PORTS[name])
    assert await look(host, unit) == before and await starts(host, unit) - began <= STARTS
    assert (await service.roll_back(host, plan)).outcome == "rolled_back"
    with pytest.raises(ToolError, match="was applied before"):
        await service.apply(host, plan, plan.digest(), lambda line: None)


async def test_text_that_systemd_warns_of_is_refused(host: Host) -> None:
    before = await look(host, "verify.service")
    plan = await plan_of(host, change("verify.service", "--start-s", None, "0.1"), PORTS["verify"], LIMIT_S)
    typo = plan.model_copy(update={"dropin_text": plan.dropin_text + "ExecStrat=/bin/true\n"})
    with pytest.raises(ToolError, match=r"Unknown key (name )?'ExecStrat'"):
        await service.apply(host, typo, typo.digest(), lambda line: None)
    assert await look(host, "verify.service") == before
    assert (await service.status(host, plan.id)).state == "none"
    assert (await service.apply(host, plan, plan.digest(), lambda line: None)).outcome == "applied"
    assert (await service.roll_back(host, plan)).outcome == "rolled_back"
    assert await look(host, "verify.service") == before


async def test_restarted_host_is_recovered(host: Host) -> None:
    before = await look(host, "lost.service")
    plan = await plan_of(host, change("lost.service", "--start-s", None, "0.1"), PORTS["lost"], 60)
    assert (await service.apply(host, plan, plan.digest(), lambda line: None)).outcome == "applied"
    # A restart takes /run and the timers away; the drop-in stays.
    gone = f"systemctl stop 'leadline-rollback-{plan.id}-*.timer'; rm -r /run/leadline/{plan.id}"
    assert (await host.exec(["sh", "-c", gone])).ok
    found = await service.status(host, plan.id)
    assert found.state == "unknown" and "restarted" in found.detail
    assert (await service.roll_back(host, plan)).outcome == "rolled_back"
    await asyncio.sleep(0.5)
    assert await look(host, "lost.service") == before


@pytest.mark.threat(13)
async def test_restart_budget_is_kept(host: Host) -> None:
    for value in ("0.11", "0.12"):
        plan = await plan_of(host, change("storm.service", "--start-s", None, value), PORTS["storm"], LIMIT_S)
        assert (await service.apply(host, plan, plan.digest(), lambda line: None)).outcome == "applied"
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
    script = "read -r up _ </proc/uptime; echo ${up%%.*} >>/run/leadline/unit-storm.service.starts"
    await host.exec(["sh", "-c", script])
    plan = await plan_of(host, change("storm.service", "--start-s", None, "0.13"), PORTS["storm"], LIMIT_S)
    with pytest.raises(ToolError, match=r"restart budget of storm\.service: 5 of 6"):
        await service.apply(host, plan, plan.digest(), lambda line: None)


@pytest.mark.threat(14)
async def test_lost_link_is_reconciled(machine: SystemdHost, host: Host) -> None:
    plan = await plan_of(host, change("cut.service", "--start-s", None, "1"), PORTS["cut"], LIMIT_S)
    async with linked(machine) as own:

        def cut(line: str) -> None:
            assert isinstance(own, SshHost) and own._link is not None
            if "restarting" in line:
                own._link.abort()

        applied = await service.apply(own, plan, plan.digest(), cut)
        assert applied.outcome == "applied", applied
        assert (await service.confirm(own, plan)).outcome == "confirmed"


@pytest.mark.threat(15)
async def test_program_that_died_is_rolled_back_without_waiting_for_the_timer(host: Host) -> None:
    before = await look(host, "worker.service")
    plan = await plan_of(host, change("worker.service", "--start-s", None, "8"), PORTS["worker"], 60)
    kills: list[asyncio.Task[Result]] = []

    def kill(line: str) -> None:
        if "restarting" in line:
            script = f"kill -9 $(cat /run/leadline/{plan.id}/worker)"
            kills.append(asyncio.create_task(host.exec(["sh", "-c", script])))

    applied = await service.apply(host, plan, plan.digest(), kill)
    assert kills and applied.outcome == "rolled_back", applied
    assert applied.status.rolled_back_by == "request"
    assert await look(host, "worker.service") == before


async def test_another_account_needs_sudo(machine: SystemdHost, host: Host) -> None:
    script = "useradd -m -p '*' plain; cd /etc/leadline-test; chmod 755 .; chmod 644 authorized_keys"
    assert (await host.exec(["sh", "-c", script])).ok
    async with linked(machine, "plain") as own:
        plan = await plan_of(own, change("sudo.service", "--start-s", None, "0.1"), PORTS["sudo"], LIMIT_S)
        before = await look(host, "sudo.service")
        with pytest.raises(ToolError, match="may not change units"):
            await service.apply(own, plan, plan.digest(), lambda line: None)
        allow = "echo 'plain ALL=(root) NOPASSWD: ALL' >/etc/sudoers.d/plain; chmod 440 /etc/sudoers.d/plain"
        assert (await host.exec(["sh", "-c", allow])).ok
        assert (await service.apply(own, plan, plan.digest(), lambda line: None)).outcome == "applied"
        assert (await service.roll_back(own, plan)).outcome == "rolled_back"
    assert await look(host, "sudo.service") == before


def killing_at(point: str) -> bytes:
    """Return a definition of ``point`` that kills the program there, once."""
    return (
        'point() { printf \'%s\\n\' "$1" >"$dir/point"; '
        f'[ "$1" != {point} ] || [ -e "$dir/killed" ] || {{ : >"$dir/killed"; kill -9 $$; }}; }}'
    ).encode()


async def sooner(host: Host, id_: str) -> None:
    """Let the armed timer fire now, as if its time had passed."""
    script = (
        "pid=$(cat $1/worker 2>/dev/null || cat $1/starter); "
        "for i in $(seq 200); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done; "
        'timer=$(cat $1/timer); systemctl start --no-block "$timer.service" && systemctl stop "$timer.timer"'
    )
    assert (await host.exec(["sh", "-c", script, "sooner", f"/run/leadline/{id_}"], timeout_s=60)).ok


async def killed(host: Host, point: str) -> None:
    """Kill the program at one point; the host must end as it was, or with the change verified and kept."""
    unit, port = f"point-{point}.service", PORTS[f"point-{point}"]
    before = await look(host, unit)
    limit = LIMIT_S if point in ("ready", "applied") else PATIENCE_S
    plan = await plan_of(host, change(unit, "--start-s", None, "0.1"), port, limit)
    plain = b'point() { printf \'%s\\n\' "$1" >"$dir/point"; }'
    sent = transaction.program(plan)
    assert sent.count(plain) == 1
    sent = sent.replace(plain, killing_at(point))
    result = await transaction.call(host, "begin", plan.id, sent=sent)
    assert result.ok == (point not in BEGUN)
    if point in ("saved", "written"):
        assert (await service.status(host, plan.id)).state == "none"
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
    elif point == "confirmed":
        await until(host, plan, "applied")
        await transaction.call(host, "confirm", plan.id)
        assert (await service.confirm(host, plan)).outcome == "confirmed"
        timers = await host.exec(["systemctl", "list-timers", "--all", "--no-legend", f"*{plan.id}*"])
        assert timers.stdout.data == b"", "a timer is left that could fire"
        assert (await service.status(host, plan.id)).state == "confirmed"
        assert "--start-s 0.1" in await served(host, f"point-{point}")
        return
    elif point in UNDONE:
        await until(host, plan, "applied")
        await sooner(host, plan.id)  # what the timer starts dies as well; nothing is armed any more
        found = await until(host, plan, "unknown")
        assert "roll back" in found.detail
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
    else:
        if limit == PATIENCE_S:
            await sooner(host, plan.id)
        assert (await until(host, plan, "rolled_back")).rolled_back_by == "timer"
    assert await answers(host, port), point
    after = await look(host, unit)
    if point == "written":  # systemd reads nothing that does not end in .conf
        after = "\n".join(line for line in after.split("\n") if ".service.d" not in line)
    assert after == before, point


@pytest.mark.threat(14)
@pytest.mark.threat(15)
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_every_point(host: Host, point: str) -> None:
    await killed(host, point)


def test_every_point_of_the_program_is_tried() -> None:
    listed = re.findall(r"(?m)^#   (\w+)  ", transaction.body())
    used = re.findall(r"(?m)^\s*point (\w+)$", transaction.body())
    assert set(listed) == set(used) == set(POINTS)
