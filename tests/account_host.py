"""A systemd host on which the printed setup was run: its unprivileged account, and how to be it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from evals.loopback_sshd import free_port
from tests import nspawn_host
from tests.nspawn_host import NoNspawn, SystemdHost
from tests.service_scenarios import until_they_answer
from tools import lease, service, transaction
from tools.account_setup import Account, script
from tools.contract import Host, Result, ToolError

_JSON = Path(json.__file__).parent
PYTHON = {
    # The tree has a minimal Python; hosts have its whole standard library, of which json is used.
    f"/usr/lib/python3.11/json/{path.name}": path.read_text()
    for path in _JSON.glob("*.py")
}
NAMES = ("kept", "flag", "death", "old", "other")
ALLOWED = [f"{name}.service" for name in NAMES if name != "other"]
PORTS = {name: free_port() for name in NAMES}
SETTINGS = ("--start-s", "COLOUR", "Nice", "LimitNOFILE")
LIMIT_S = 20.0
SVC = transaction.HELPER
UNIT = """[Unit]
Description=Small engine {name}
StartLimitIntervalSec=20
StartLimitBurst=8

[Service]
User=nobody
Environment=COLOUR=red NCCL_DEBUG=INFO HF_TOKEN=hf_abcdefgh
ExecStart=/usr/bin/python3 -u /opt/sglang/launch_server.py --port {port} \\
    --label "two words, 100%% \\"quoted\\" $$x é"
Restart=on-failure
RestartSec=200ms
"""


def files() -> Mapping[str, str]:
    """Return the files of such a host."""
    engine = (Path(__file__).parent / "small_engine.py").read_text()
    return {"/opt/sglang/launch_server.py": engine, **PYTHON}


def linked(machine: SystemdHost, user: str = "leadline") -> AbstractAsyncContextManager[Host]:
    """Connect as the account, or as another user, and let go again."""
    return nspawn_host.linked(machine, user)


def account(
    machine: SystemdHost, units: Sequence[str], settings: Sequence[str], ports: Sequence[int]
) -> Account:
    """Return the account that these tests make."""
    key = (machine.keys / "authorized_keys").read_text().strip()
    return Account(
        machine.target().name, units=tuple(units), settings=tuple(settings), key=key, ports=tuple(ports)
    )


async def set_up(machine: SystemdHost, wanted: Account) -> Result:
    """Run the printed commands on the host as root."""
    async with linked(machine, "root") as root:
        kept = await root.exec(["sh", "-c", "cat >/root/setup.sh"], stdin=script(wanted).encode())
        assert kept.ok, kept
        return await root.exec(["sh", "/root/setup.sh"], timeout_s=60.0)


def said(result: Result) -> str:
    """Return what a command printed, errors included."""
    return (result.stdout.data + result.stderr.data).decode(errors="replace")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdHost]:
    """A host with small engines and its account set up; tests are skipped where none can be booted."""
    units = {f"{name}.service": UNIT.format(name=name, port=PORTS[name]) for name in NAMES}
    try:
        with nspawn_host.booted(tmp_path_factory.mktemp("account"), units, files()) as up:
            wanted = account(up, ALLOWED, SETTINGS, [*PORTS.values()])
            done = asyncio.run(set_up(up, wanted))
            assert done.ok, said(done)
            assert "done: leadline may call /usr/local/sbin/leadline-svc and nothing else" in said(done)
            yield up
    except NoNspawn as problem:
        pytest.skip(f"no systemd host: {problem}")


@pytest.fixture
async def host(machine: SystemdHost) -> AsyncIterator[Host]:
    """The host as the account sees it, once every engine answers."""
    async with linked(machine) as link:
        await until_they_answer(link, PORTS.values())
        yield link


@pytest.fixture
async def root(machine: SystemdHost) -> AsyncIterator[Host]:
    """The host as root sees it."""
    async with linked(machine, "root") as link:
        yield link


async def svc(host: Host, *words: str, stdin: bytes | None = None) -> Result:
    """Call the helper as the account does."""
    return await host.exec(["sudo", "-n", SVC, *words], stdin=stdin)


async def pid_of(host: Host, name: str) -> str:
    """Return the process of an engine."""
    result = await host.exec(["systemctl", "show", "-p", "MainPID", "--value", f"{name}.service"])
    return result.stdout.data.decode().strip()


async def refused(host: Host, plan: service.ChangePlan) -> str:
    """Return why a plan is refused on the host."""
    with pytest.raises(ToolError) as caught:
        await service.apply(host, plan, plan.digest(), lambda line: None)
    with contextlib.suppress(ToolError):  # an account that may not begin holds no lease
        await lease.give_back(host, plan)
    return str(caught.value)
