"""The bot of the tests in a process of its own, so that it can be killed: `start` returns the process."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

import slack_bolt.adapter.socket_mode.aiohttp
import slack_bolt.async_app  # noqa: F401 - imported once, in the server that children are forked from

import agent.driver  # noqa: F401
from agent.config import Settings
from tests.file_host import FakeService, FileHost
from tests.slack_bot_parts import opened_quickly
from tests.trial_parts import moves

DRAINED: Final = 3
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.slack_child"])


def start(root: Path, said: dict[str, Any]) -> ForkServerProcess:
    """Let the bot run in a child; ``said`` are its settings as plain values."""
    child = _CONTEXT.Process(target=_main, args=(root, said), daemon=True)
    child.start()
    return child


def _main(root: Path, said: dict[str, Any]) -> None:
    sys.stderr = (root / "log").open("a")
    sys.exit(asyncio.run(_run(root, Settings(**said))))


async def _run(root: Path, settings: Settings) -> int:
    """Run as `leadline slack run` does, with models that follow a script."""
    from agent.slack.run import serving

    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    service = FakeService(FileHost(root / "host.json"))
    async with serving(settings, change=opened_quickly(service, moves())) as bot:
        await stopping.wait()
        return DRAINED if await bot.drain(30.0) else 1
