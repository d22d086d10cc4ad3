"""Measure the Slack bot under many threads: how soon it acknowledges, and what it holds in memory.

The real bot runs in a process of its own, against the fake Slack of the tests and the scripted model server,
both in this one. 200 threads are at work, each in a call that waits as one on a host would, while ten people
write without a pause. A delay is told twice: by the clock, on which the limit is, and by the processor time
of the bot meanwhile, to which other programs cannot add.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config import Settings
from agent.session import Session
from tools.contract import Host, HostArgs, Tool, ToolContext

if TYPE_CHECKING:
    from agent.slack.desk import Desk
    from agent.slack.store import Kept
    from tests.fake_slack import FakeSlack
    from tests.fake_slack_people import Person, Said

ACTIVE, FEWER, ENDED, PEOPLE, MESSAGES = 200, 100, 1000, 10, 40
_AT_ONCE = 50
ACK_P99_S = 1.0
MEMORY_MB = 2048.0
_LOOK_S = 8.0


class _LookArgs(HostArgs):
    wait_s: float = 0.0


async def _facts(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
    return {"host": "bench", "flags": {"disable_cuda_graph": True}}


async def _look(ctx: ToolContext, args: _LookArgs) -> dict[str, Any]:
    await asyncio.sleep(args.wait_s)
    return {"host": "bench", "text": "a line of output\n" * 40}


_TOOLS: Mapping[str, Tool[Any]] = {
    "facts": Tool(name="facts", description="Facts.", args=HostArgs, run=_facts),
    "look": Tool(name="look", description="Look.", args=_LookArgs, run=_look),
}


def _open(settings: Settings, kept: Kept, hosts: Mapping[str, Host]) -> Session:
    """Open a session with the model of the settings and tools that only wait."""
    from agent.models.select import model_of
    from agent.slack.desk import symptom

    model = model_of(settings)
    if kept.thread is not None:
        return Session.resume(settings, kept.thread, model, hosts, tools=_TOOLS)
    return Session.start(settings, model, hosts, symptom(kept), requester=kept.requester, tools=_TOOLS)


async def _bot(said: dict[str, Any]) -> None:
    """Run the bot until it is ended."""
    from agent.slack.run import serving

    def change(desk: Desk) -> Desk:
        return replace(desk, opener=_open)

    async with serving(Settings(**said), change=change):
        await asyncio.Event().wait()


def _settings(root: Path, slack: FakeSlack, model: str) -> dict[str, Any]:
    from tests.fake_slack_world import TEAM

    many = {"max_active": 10_000, "max_active_per_user": 10_000}
    many |= {"starts_per_user_hour": 100_000, "starts_per_channel_hour": 100_000}
    channel = {"hosts": ["bench"], "members_may_start": True}
    return {
        "state_dir": str(root),
        "model": "scripted",
        "base_url": model,
        "hosts": {"bench": {"ssh": "local"}},
        "slack": {
            "bot_token": slack.bot_token,
            "app_token": slack.app_token,
            "api_url": slack.api_url,
            "teams": [TEAM],
            "channels": {"C0OPS": channel},
            **many,
        },
    }


@asynccontextmanager
async def _running(root: Path, looks: int) -> AsyncIterator[tuple[FakeSlack, asyncio.subprocess.Process]]:
    """Run model, Slack and bot; each investigation looks so often and concludes."""
    from agent.models.scripted import ScriptedServer, serving
    from agent.models.scripted_script import ScriptCall, ScriptTurn, from_turns
    from tests.fake_slack import FakeSlack

    call = ScriptCall(name="look", arguments={"wait_s": _LOOK_S})
    look = ScriptTurn(text="I look.\n", tool_calls=[call])
    ended = {"outcome": "inconclusive", "summary": "Done.", "claims": [], "causes": [], "next_step": "none"}
    turns = [*[look] * looks, ScriptTurn(tool_calls=[ScriptCall(name="conclude", arguments=ended)])]
    async with serving(ScriptedServer(from_turns(turns))) as url, FakeSlack() as slack:
        said = json.dumps(_settings(root, slack, url))
        argv = [sys.executable, "-m", "evals.bench_slack", "bot", said]
        bot = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.DEVNULL)
        try:
            await slack.socket.connected(60)
            yield slack, bot
        finally:
            bot.kill()
            await bot.wait()


async def _ask(slack: FakeSlack, count: int) -> list[Said]:
    """Let somebody start so many investigations, and wait until each shows something."""
    from tests.fake_slack_world import BOT_USER

    ada = slack.user("U0ADA")
    said = []
    for _ in range(count):
        said.append(await ada.says("C0OPS", f"<@{BOT_USER}> decode is slow"))
        await asyncio.sleep(0.01)
    threads = {one.ts for one in said}
    await slack.until(
        lambda: len(threads & {m.get("thread_ts") for m in slack.posts("C0OPS")}) == count or None, 120
    )
    return said


def _memory_mb(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def _spent(pid: int) -> float:
    """Return the processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure_acks(root: Path) -> tuple[list[float], list[float]]:
    """Return delays of acknowledgements while 200 threads are at work: by the clock, by processor time."""
    clock: list[float] = []
    spent: list[float] = []

    async def writes(person: Person, threads: list[Said]) -> None:
        for number, one in enumerate(threads):
            text = "status" if number % 4 == 0 else f"look at layer {number}"
            before = _spent(bot.pid)
            (delivery,) = (await person.says("C0OPS", text, thread=one.ts)).deliveries
            await delivery.acked(120)
            spent.append(_spent(bot.pid) - before)
            clock.append(delivery.delay)

    async with _running(root, looks=50) as (slack, bot):
        said = await _ask(slack, ACTIVE)
        share = [(said[first::PEOPLE] * MESSAGES)[:MESSAGES] for first in range(PEOPLE)]
        await asyncio.gather(*(writes(slack.user("U0BEN"), threads) for threads in share))
    return sorted(clock), sorted(spent)


async def measure_memory(root: Path) -> tuple[float, float]:
    """Return MB of a bot with 100 threads at work, and MB of one that holds 1,000 that have ended."""
    async with _running(root / "active", looks=50) as (slack, bot):
        await _ask(slack, FEWER)
        await asyncio.sleep(3)
        active = _memory_mb(bot.pid, "VmHWM")
    async with _running(root / "ended", looks=0) as (slack, bot):
        for _ in range(ENDED // _AT_ONCE):
            await _ended(slack, _AT_ONCE)
        return active, _memory_mb(bot.pid, "VmHWM")


async def _ended(slack: FakeSlack, count: int) -> None:
    threads = {one.ts for one in await _ask(slack, count)}

    def answered() -> bool | None:
        told = (m for m in slack.posts("C0OPS") if '"hypotheses"' in json.dumps(m["blocks"]))
        return threads <= {m.get("thread_ts") for m in told} or None

    await slack.until(answered, 120)


def main() -> int:
    """Print what was measured; return 1 when a limit is passed."""
    with tempfile.TemporaryDirectory() as folder:
        clock, spent = asyncio.run(measure_acks(Path(folder) / "acks"))
        active, ended = asyncio.run(measure_memory(Path(folder)))
    whole = active + ended
    at = int(len(spent) * 0.99)
    print(
        f"slack: ack with {ACTIVE} threads at work and {PEOPLE} people writing, {len(clock)} messages: "
        f"{statistics.median(clock):.2f} s in the median, p99 {clock[at]:.2f} s (limit {ACK_P99_S:g}); of "
        f"processor time {statistics.median(spent):.2f} and {spent[at]:.2f} s"
    )
    print(
        f"slack: {active:.0f} MB with {FEWER} threads at work, {ended:.0f} MB with {ENDED} that have ended; "
        f"the sum counts the program twice: {whole:.0f} MB (limit {MEMORY_MB:.0f})"
    )
    return int(clock[at] > ACK_P99_S or whole > MEMORY_MB)


if __name__ == "__main__":
    if sys.argv[1:2] == ["bot"]:
        asyncio.run(_bot(json.loads(sys.argv[2])))
    else:
        sys.exit(main())
