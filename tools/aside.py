"""Compute in a thread, while the loop, and with it each keyboard and each other investigation, goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tools.contract import ToolContext

T = TypeVar("T")


async def aside(ctx: ToolContext, work: Callable[[], T]) -> T:
    """Return what ``work`` computes; within an investigation one after the other, as they share a cache."""
    lock: asyncio.Lock = ctx.cache.setdefault("aside", asyncio.Lock())
    async with lock:
        return await asyncio.to_thread(work)
