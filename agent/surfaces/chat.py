"""Run `leadline chat`: an input line at once, and behind it what the conversation needs."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from importlib import import_module

from agent.config import load_settings
from agent.errors import ExitCode
from agent.surfaces.entrance import Entrance
from agent.surfaces.open_options import OpenOptions


def run(options: OpenOptions) -> None:
    """Talk, and leave with an exit code of ``docs/cli.md``."""
    code = asyncio.run(converse(options))
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def converse(options: OpenOptions) -> ExitCode:
    """Talk; return the exit code."""
    settings = load_settings()
    async with AsyncExitStack() as stack:
        entrance = Entrance.open(options, settings, stack)
        if entrance.typed is not None and entrance.typed.first is not None:
            await entrance.typed.drawn()
        behind = await asyncio.to_thread(import_module, "agent.surfaces.talking")
        code: ExitCode = await behind.talk(options, entrance, stack)
        return code
