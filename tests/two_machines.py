"""One of two machines that change the same host at the same time: ``python -m tests.two_machines ...``.

Each has its own state folder, so nothing here holds them apart; prints a JSON line when its change is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path

from agent.executions import Executions
from tests.service_scenarios import change, plan_of
from tests.sshd_fixtures import FileSettings
from tools import lease, service
from tools.contract import Host, ToolError
from tools.host import HostTarget, connect

LIMIT_S = 90.0


async def once(host: Host, state: Path, unit: str, setting: str, old: str | None, new: str | None) -> bool:
    """Plan, take the lease, apply and keep; tell whether that was done."""
    plan = await plan_of(host, change(unit, setting, old, new), 30000, 30)
    token = await lease.take(host, plan)
    taken = time.time()
    try:
        Executions(state).begin(plan, "one")
        applied = await service.apply(host, plan, plan.digest(), lambda line: None)
        if applied.outcome != "applied":
            raise RuntimeError(f"{applied}")
        done = time.time()
        kept = await service.confirm(host, plan)
        Executions(state).ended(plan.digest(), kept.outcome)
    finally:
        with contextlib.suppress(ToolError):
            await lease.give_back(host, plan)
    row = {"token": token, "taken": taken, "done": done, "plan": plan.id}
    sys.stdout.write(json.dumps(row) + "\n")
    return kept.outcome == "confirmed"


async def work(target: HostTarget, state: Path, unit: str, setting: str, old: str, new: str) -> int:
    """Try until the change is kept; count how often another session was in the way."""
    assert target.known_hosts is not None
    host = await connect(target, FileSettings(None, target.known_hosts))
    refused: list[str] = []
    until = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < until:
            try:
                if await once(host, state, unit, setting, old or None, new or None):
                    sys.stdout.write(json.dumps({"refused": refused}) + "\n")
                    return 0
            except ToolError as error:
                refused.append(str(error))
                await asyncio.sleep(0.3)
    finally:
        await host.close()
    sys.stdout.write(json.dumps({"refused": refused}) + "\n")
    return 1


if __name__ == "__main__":
    name, port, user, key, known, folder, *words = sys.argv[1:]
    place = HostTarget(name, "127.0.0.1", int(port), user, Path(key), Path(known))
    sys.exit(asyncio.run(work(place, Path(folder), *words)))
