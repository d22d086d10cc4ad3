"""The unprivileged account on a real host: what it may change it changes, and everything else is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from evals.loopback_sshd import free_port
from tests import account_host, nspawn_host
from tests.account_host import linked, said
from tests.nspawn_host import NoNspawn, SystemdHost
from tests.service_scenarios import answers, change, look, plan_of, until
from tools import service, transaction
from tools.contract import Host, ToolError

pytestmark = [pytest.mark.systemd, pytest.mark.slow]

NAMES = ("kept", "flag", "other")
PORTS = {name: free_port() for name in NAMES}
ALLOWED = ("--start-s", "COLOUR")
LIMIT_S = 6.0
SVC = ("sudo", "-n", transaction.HELPER)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdHost]:
    units = {f"{name}.service": account_host.UNIT.format(name=name, port=PORTS[name]) for name in NAMES}
    try:
        with nspawn_host.booted(tmp_path_factory.mktemp("account"), units, account_host.files()) as up:
            yield up
    except NoNspawn as problem:
        pytest.skip(f"no systemd host: {problem}")


@pytest.fixture
async def host(machine: SystemdHost) -> AsyncIterator[Host]:
    wanted = account_host.account(machine, ["kept.service", "flag.service"], ALLOWED)
    done = await account_host.set_up(machine, wanted)
    assert done.ok, said(done)
    assert "may call /usr/local/sbin/leadline-svc and nothing else" in said(done)
    async with linked(machine) as link:
        yield link


async def test_the_account_applies_keeps_and_undoes_a_change(machine: SystemdHost, host: Host) -> None:
    assert (await host.exec(["id", "-un"])).stdout.data == b"leadline\n"
    assert not (await host.exec(["sudo", "-n", "true"])).ok
    async with linked(machine, "root") as root:
        before = await look(root, "kept.service")
        plan = await plan_of(
            host, change("kept.service", "--start-s", None, "0.3"), PORTS["kept"], LIMIT_S
        )
        lines: list[str] = []
        applied = await service.apply(host, plan, plan.digest(), lines.append)
        assert applied.outcome == "applied", (applied, lines)
        assert (await service.confirm(host, plan)).outcome == "confirmed"
        assert "--start-s 0.3" in await look(root, "kept.service")
        assert await answers(host, PORTS["kept"])
        assert before
