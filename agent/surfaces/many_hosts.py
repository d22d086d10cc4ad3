"""Open several hosts side by side; one that is down among them becomes a host that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from agent.config import Settings
from agent.errors import HostUnreachable, LeadlineError, UsageError
from agent.surfaces.targets import Say, open_host
from tools.contract import Capture, Host, Result
from tools.host import ConnectError

AT_ONCE = 8
"""Connections that are made side by side."""


class HostDown:
    """Stand in the place of a host that cannot be reached: every command says why, and none runs."""

    key_fingerprint: str | None = None

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        """Return that nothing was run."""
        return Result(
            host=self.name,
            argv=tuple(argv),
            outcome="refused",
            exit_code=None,
            signal=None,
            stdout=Capture(),
            stderr=Capture(),
            truncated=False,
            started_at=datetime.now(UTC),
            duration_s=0.0,
            detail=self.why,
        )

    async def forward(self, port: int) -> int:
        """Refuse: there is no way to the host."""
        raise ConnectError(self.name, "unreachable", self.why, do="look whether the host is up")

    async def close(self) -> None:
        """Do nothing: nothing is open."""


async def open_each(
    names: Sequence[str],
    settings: Settings,
    stack: AsyncExitStack,
    progress: Say,
    *,
    may_all_fail: bool = False,
) -> list[Host]:
    """Connect to hosts side by side, in their order; raise `HostUnreachable` when none can be reached."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> tuple[AsyncExitStack, Host]:
        own = AsyncExitStack()
        try:
            async with gate:
                return own, await own.enter_async_context(open_host(name, settings, progress))
        except UsageError:
            raise
        except LeadlineError as error:  # not reached, a key that is not the known one, a lab that is gone
            progress(str(error))
            return own, HostDown(name, str(error).removeprefix(f"{name}: "))

    opened = await asyncio.gather(*(one(name) for name in names), return_exceptions=True)
    hosts: list[Host] = []
    failed: list[BaseException] = []
    for entry in opened:
        if isinstance(entry, BaseException):
            failed.append(entry)
            continue
        stack.push_async_callback(entry[0].aclose)
        hosts.append(entry[1])
    if failed:
        raise failed[0]
    down = [host for host in hosts if isinstance(host, HostDown)]
    if len(down) == len(hosts) and not may_all_fail:
        raise HostUnreachable(
            "; ".join(f"{host.name}: {host.why}" for host in down), do="look whether they are up"
        )
    return hosts
