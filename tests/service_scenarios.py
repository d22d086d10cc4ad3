"""What tests of changes share: see a unit as it is, await a plan's end, apply in a process that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tests.sshd_fixtures import FileSettings
from tools import service
from tools.contract import Host
from tools.host import HostTarget, connect
from tools.service import ChangePlan, ChangeRequest, ChangeState, ChangeStatus

_LOOK = """
unit=$1
find /etc/systemd/system -path "*/$unit*" | sort | while read -r path; do
    ls -ld --time-style=+ "$path"
    [ -d "$path" ] || sha256sum "$path"
done
systemctl cat -- "$unit"
systemctl show -p NeedDaemonReload,DropInPaths,ActiveState,NRestarts -- "$unit"
tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value -- "$unit")/cmdline
"""


async def look(host: Host, unit: str) -> str:
    """Return the unit's files with their digests, its text, and its running command line."""
    result = await host.exec(["sh", "-c", _LOOK, "look", unit])
    assert result.ok, result
    return result.stdout.data.decode()


async def answers(host: Host, port: int) -> bool:
    """Tell whether the engine on the host is healthy."""
    return (await host.exec(["curl", "-fsS", "-m", "5", f"http://127.0.0.1:{port}/health"])).ok


async def until_they_answer(host: Host, ports: Iterable[int]) -> None:
    """Wait until the engines on some ports are healthy: the host has come up whole."""
    waited_for = list(ports)
    for _ in range(150):
        if all([await answers(host, port) for port in waited_for]):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"engines on {waited_for} of {host.name} do not answer")


async def plan_of(host: Host, request: ChangeRequest, port: int, minimum_s: float) -> ChangePlan:
    """Return the plan of a change, made now."""
    return await service.make_plan(host, request, port=port, now=datetime.now(UTC), minimum_s=minimum_s)


async def starts(host: Host, unit: str) -> int:
    """Return how often systemd has started a unit since the host booted, by its own journal."""
    script = f"journalctl -b -u {unit} -o cat --no-pager | grep -c '^Started '"
    result = await host.exec(["sh", "-c", script])
    return int(result.stdout.data)


def change(unit: str, setting: str, old: str | None, new: str | None) -> ChangeRequest:
    """Return a request."""
    return ChangeRequest(unit=unit, setting=setting, from_value=old, to_value=new)


async def until(
    host: Host, plan: ChangePlan | str, *states: ChangeState, limit_s: float = 180.0
) -> ChangeStatus:
    """Wait until a plan stands as one of ``states``; the limit is for a host that hangs."""
    deadline = time.monotonic() + limit_s
    id_ = plan if isinstance(plan, str) else plan.id
    while (found := await service.status(host, id_)).state not in states:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.2)
    return found


def apply_and_die(target: HostTarget, plan: ChangePlan, folder: Path, *, at: str) -> str:
    """Apply a plan in a process that kills itself at a line of progress (or ``end``); return what it said."""
    file = folder / f"{plan.id}.json"
    file.write_text(plan.model_dump_json())
    where = [target.name, str(target.port), target.user or "", str(target.key_path), str(target.known_hosts)]
    words = [sys.executable, "-m", "tests.service_scenarios", str(file), at, *where]
    done = subprocess.run(
        words, capture_output=True, check=False, timeout=60, cwd=Path(__file__).parent.parent
    )
    assert done.returncode == -signal.SIGKILL, (done.stdout, done.stderr)
    return done.stdout.decode()


async def _apply(file: Path, at: str, target: HostTarget) -> None:
    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        if at in line:
            os.kill(os.getpid(), signal.SIGKILL)

    assert target.known_hosts is not None
    host = await connect(target, FileSettings(None, target.known_hosts))
    plan = ChangePlan.model_validate_json(file.read_text())
    applied = await service.apply(host, plan, plan.digest(), say)
    say(f"end {applied.outcome}")


if __name__ == "__main__":
    name, port, user, key, known = sys.argv[3:]
    place = HostTarget(name, "127.0.0.1", int(port), user, Path(key), Path(known))
    asyncio.run(_apply(Path(sys.argv[1]), sys.argv[2], place))
