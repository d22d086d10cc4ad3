"""A systemd host on which the printed setup was run: its unprivileged account, and how to be it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests import nspawn_host
from tests.nspawn_host import SystemdHost
from tools.account_setup import Account, script
from tools.contract import Host, Result

_JSON = Path(json.__file__).parent
PYTHON = {
    # The tree has a minimal Python; hosts have its whole standard library, of which json is used.
    f"/usr/lib/python3.11/json/{path.name}": path.read_text()
    for path in _JSON.glob("*.py")
}
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
