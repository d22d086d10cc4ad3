"""A real Debian in the middle of a change: full disks, failed reloads, a restart, a cut at each call."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from typing import get_args

import pytest

from agent.fault_points import WirePoint
from evals.loopback_sshd import free_port
from tests import nspawn_host
from tests.nspawn_host import SystemdHost, linked, small_engines
from tests.service_scenarios import answers, change, look, plan_of, starts, until_they_answer
from tools import lease, service
from tools.contract import Capture, Host, Result, ToolError
from tools.service_types import ChangePlan
from tools.ssh import SshHost

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.xdist_group("debian")]

SIDES = ("lost before", "lost after")
CUTS = tuple((verb, side) for verb in get_args(WirePoint) for side in SIDES)
SCENES = ("disk", "state", "midway", "reload", "late", "open", "kept")
NAMES = (*SCENES, *(f"{verb}-{side[-1]}" for verb, side in CUTS))
PORTS = {name: free_port() for name in NAMES}
PATIENCE_S = 60.0
STARTS = 3
_UNIT = """[Unit]
Description=Small engine {name}
StartLimitIntervalSec=20
StartLimitBurst=8

[Service]
ExecStart=/usr/bin/python3 -u /opt/engine/serve.py --port {port} --label "a b"
Restart=on-failure
RestartSec=200ms
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdHost]:
    with small_engines(tmp_path_factory.mktemp("debian"), _UNIT, PORTS) as up:
        yield up


@pytest.fixture
async def host(machine: SystemdHost) -> AsyncIterator[Host]:
    async with linked(machine) as link:
        await engines_answer(link)
        yield link


async def engines_answer(link: Host) -> None:
    await until_they_answer(link, [PORTS[name] for name in (NAMES[0], NAMES[-1])])


async def sh(host: Host, script: str) -> str:
    """Run a script on the host as root."""
    done = await host.exec(["sh", "-c", script], timeout_s=60.0)
    assert done.ok, (script, done)
    return done.stdout.data.decode()


async def planned(host: Host, name: str, value: str = "0.1") -> ChangePlan:
    return await plan_of(host, change(f"{name}.service", "--start-s", None, value), PORTS[name], PATIENCE_S)


def quiet(line: str) -> None:
    """Say nothing."""


async def is_as_before(host: Host, name: str, before: str, began: int) -> None:
    """Hold the unit against what it was: byte for byte, healthy, and started three times at most."""
    assert await look(host, f"{name}.service") == before
    assert await answers(host, PORTS[name])
    assert await starts(host, f"{name}.service") - began <= STARTS


@contextlib.asynccontextmanager
async def small_disk(host: Host, folder: str, *, full: bool) -> AsyncIterator[None]:
    """Put a small file system in a folder's place, with what was in it; full, or to be filled."""
    mount = (
        f"mkdir -p {folder}; cp -a {folder} /root/held; mount -t tmpfs -o size=256k,mode=700 tmpfs {folder}"
    )
    await sh(host, f"{mount}; cp -a /root/held/. {folder}; rm -r /root/held")
    if full:
        await fill(host, folder)
    try:
        yield
    finally:
        await sh(host, f"umount -l {folder}")


async def fill(host: Host, folder: str) -> None:
    await sh(
        host, f"cat /dev/zero >{folder}/fill 2>/dev/null; ! echo x >{folder}/probe; rm -f {folder}/probe"
    )


async def test_a_full_disk_under_the_drop_ins_changes_nothing(host: Host) -> None:
    began = await starts(host, "disk.service")
    async with small_disk(host, "/etc/systemd/system/disk.service.d", full=True):
        before = await look(host, "disk.service")
        plan = await planned(host, "disk")
        with pytest.raises(ToolError, match=r"cannot be written.*No space left on device"):
            await service.apply(host, plan, plan.digest(), quiet)
        assert (await service.status(host, plan.id)).state == "none"
        await is_as_before(host, "disk", before, began)
    assert await starts(host, "disk.service") == began


async def test_a_full_disk_under_the_state_begins_nothing(host: Host) -> None:
    before, began = await look(host, "state.service"), await starts(host, "state.service")
    async with small_disk(host, "/run/leadline", full=True):
        plan = await planned(host, "state")
        with pytest.raises(ToolError):
            await service.apply(host, plan, plan.digest(), quiet)
        await is_as_before(host, "state", before, began)
    assert await starts(host, "state.service") == began
    timers = await sh(host, "systemctl list-timers --all --no-legend 'leadline-*'")
    assert plan.id not in timers


async def test_a_state_that_fills_up_in_the_middle_still_leads_back(host: Host) -> None:
    before, began = await look(host, "midway.service"), await starts(host, "midway.service")
    async with small_disk(host, "/run/leadline", full=False):
        plan = await planned(host, "midway")
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        await fill(host, "/run/leadline")
        with contextlib.suppress(ToolError):
            assert (await service.confirm(host, plan)).outcome != "confirmed"
        first = await service.roll_back(host, plan)
        assert first.outcome in ("rolled_back", "unknown", "failed"), first
        await sh(host, "rm -f /run/leadline/fill")
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
        await is_as_before(host, "midway", before, began)


@contextlib.asynccontextmanager
async def reload_fails(host: Host) -> AsyncIterator[None]:
    """Leave systemd less room than it wants: it then refuses each reload, and nothing else."""
    left = "df -k --output=avail /run | tail -n 1"
    await sh(host, f"mount -o remount,size=40M /run; fallocate -l $(($({left}) - 8192))K /run/fill")
    try:
        refused = await host.exec(["systemctl", "daemon-reload"])
        assert not refused.ok and b"space" in refused.stderr.data, refused
        yield
    finally:
        await sh(host, "rm -f /run/fill; systemctl daemon-reload")


async def test_a_reload_that_fails_ends_before_the_restart(host: Host) -> None:
    before, began = await look(host, "reload.service"), await starts(host, "reload.service")
    plan = await planned(host, "reload")
    async with reload_fails(host):
        applied = await service.apply(host, plan, plan.digest(), quiet)
        assert applied.outcome == "rolled_back", applied
        assert "daemon-reload failed" in applied.status.reason and "space" in applied.status.reason
        await is_as_before(host, "reload", before, began)
    assert await starts(host, "reload.service") == began, "it was restarted with a text that nobody read"
    assert await look(host, "reload.service") == before


async def test_a_reload_that_fails_on_the_way_back_is_told_and_can_be_done_again(host: Host) -> None:
    before, began = await look(host, "late.service"), await starts(host, "late.service")
    plan = await planned(host, "late")
    assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
    async with reload_fails(host):
        first = await service.roll_back(host, plan)
        assert first.outcome == "failed" and "daemon-reload failed" in first.detail, first
        assert "roll back again" in first.detail and await answers(host, PORTS["late"])
        assert await starts(host, "late.service") - began == 1, "a text that nobody read was started again"
    assert (await service.roll_back(host, plan)).outcome == "rolled_back"
    await is_as_before(host, "late", before, began)


class Cut:
    """A host whose link is cut at one call of the program: before the host gets it, or before its answer."""

    def __init__(self, machine: SystemdHost, link: Host, verb: str, side: str) -> None:
        self.machine, self.link, self.verb, self.side = machine, link, verb, side
        self.name, self.key_fingerprint = link.name, link.key_fingerprint
        self.cut = 0

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        verb = argv[9] if len(argv) > 10 and argv[8] == "leadline" else ""
        if verb != self.verb or self.cut:
            return await self.link.exec(
                argv, timeout_s=timeout_s, max_bytes=max_bytes, stdin=stdin, retry=retry
            )
        self.cut += 1
        assert isinstance(self.link, SshHost) and self.link._link is not None
        if self.side == "lost before":
            self.link._link.abort()
        else:
            async with linked(self.machine) as other:  # the host does it, and nobody hears of it
                await other.exec(argv, timeout_s=timeout_s, max_bytes=max_bytes, stdin=stdin, retry=retry)
            self.link._link.abort()
        now = datetime.now(UTC)
        none = Capture(), Capture()
        return Result(
            self.name, tuple(argv), "connection_lost_unknown", None, None, *none, False, now, 0.0, "cut"
        )

    async def forward(self, port: int) -> int:
        return await self.link.forward(port)

    async def close(self) -> None:
        await self.link.close()


async def carried(host: Host, plan: ChangePlan, verb: str) -> str:
    """Go through a change as a session does, up to where the verb is needed; return how it ended."""
    with contextlib.suppress(ToolError):
        await lease.take(host, plan)
    try:
        applied = await service.apply(host, plan, plan.digest(), quiet)
        if applied.outcome != "applied":
            return applied.outcome
        await service.extend(host, plan, PATIENCE_S)
        if verb in ("withdraw", "order", "recover"):
            if verb == "recover":
                gone = f"systemctl stop 'leadline-rollback-{plan.id}-*.timer'; rm -r /run/leadline/{plan.id}"
                await sh(host, gone)
            return (await service.roll_back(host, plan)).outcome
        return (await service.confirm(host, plan)).outcome
    finally:
        with contextlib.suppress(ToolError):
            await lease.give_back(host, plan)


@pytest.mark.threat(14)
@pytest.mark.parametrize(("verb", "side"), CUTS)
async def test_the_link_is_cut_at_each_call_of_the_wire(
    machine: SystemdHost, host: Host, verb: str, side: str
) -> None:
    name = f"{verb}-{side[-1]}"
    before, began = await look(host, f"{name}.service"), await starts(host, f"{name}.service")
    plan = await planned(host, name)
    async with linked(machine) as own:
        cut = Cut(machine, own, verb, side)
        with contextlib.suppress(ToolError):
            said = await carried(cut, plan, verb)
            assert cut.cut == 1, "the call was never made"
            found = await service.status(cut, plan.id)
            assert said != "confirmed" or found.state == "confirmed", (said, found)
        assert cut.cut == 1
        if (await service.status(cut, plan.id)).state != "confirmed":
            assert (await service.roll_back(cut, plan)).outcome == "rolled_back"
    settled = await service.status(host, plan.id)
    after = await look(host, f"{name}.service")
    if settled.state == "confirmed":
        assert "--start-s 0.1" in after.splitlines()[-1] and plan.dropin_path in after
        assert await answers(host, PORTS[name]) and await starts(host, f"{name}.service") - began == 1
        timers = await sh(host, f"systemctl list-timers --all --no-legend '*{plan.id}*'")
        assert timers == "", "a timer is left that could fire"
    else:
        assert settled.state in ("rolled_back", "none"), settled
        await is_as_before(host, name, re.sub(r"(?m)^drwx.*\n", "", before), began)


async def restarted(machine: SystemdHost, host: Host) -> None:
    """Restart the whole machine in order, as its own command does, and wait until it is back."""
    await host.exec(["systemctl", "--no-block", "reboot"])
    await asyncio.to_thread(nspawn_host.boot_again, machine)


async def test_a_restart_of_the_machine_in_an_open_change_and_after_a_kept_one(
    machine: SystemdHost, host: Host
) -> None:
    """The last test of this file: whatever lies in /run is gone after it."""
    old = {name: await look(host, f"{name}.service") for name in ("open", "kept")}
    plans = {}
    for name in ("kept", "open"):
        plan = plans[name] = await planned(host, name)
        assert (await service.apply(host, plan, plan.digest(), quiet)).outcome == "applied"
        if name == "kept":
            assert (await service.confirm(host, plan)).outcome == "confirmed"
    await restarted(machine, host)
    async with linked(machine) as back:
        await engines_answer(back)
        found = await service.status(back, plans["open"].id)
        assert found.state == "unknown" and found.stranded and "restarted meanwhile" in found.detail
        assert "--start-s 0.1" in (await look(back, "open.service")).splitlines()[-1]
        assert (await service.roll_back(back, plans["open"])).outcome == "rolled_back"
        for _ in range(50):
            if await answers(back, PORTS["open"]):
                break
            await asyncio.sleep(0.2)
        await is_as_before(back, "open", old["open"], 0)
        assert (await service.status(back, plans["kept"].id)).state == "confirmed"
        undo = await service.make_undo(back, plans["kept"], now=datetime.now(UTC), minimum_s=PATIENCE_S)
        assert (await service.apply(back, undo, undo.digest(), quiet)).outcome == "applied"
        assert (await service.confirm(back, undo)).outcome == "confirmed"
        assert re.sub(r"\s+drwx.*\.d\n", "", await look(back, "kept.service")) == old["kept"]
