"""Run the bot: check its keys, listen, go on with what was left, stop in order."""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.config import Settings, load_settings, pin_libraries
from agent.errors import ExitCode, UsageError
from agent.slack.access import Access
from agent.slack.bot import Bot
from agent.slack.desk import Desk, open_session
from agent.slack.door import Door
from agent.slack.hosts import usable
from agent.slack.keys import authorized, client_of
from agent.slack.listening import listen
from agent.slack.store import SlackStore
from agent.slack.text import Cleaner

DRAIN_S: Final = 90.0
"""How long what runs may take to come to a stop; systemd waits that long before it kills."""

WARM: Final = (
    "agent.driver",
    "agent.casefile",
    "agent.casefile_html",
    "agent.session",
    "agent.surfaces.records",
    "slack_bolt.async_app",
    "slack_sdk.socket_mode.aiohttp",
    "tools.redact_rules",
    "tools.registry",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Hold the flags of `leadline slack run`; ``http`` is a port."""

    http: int | None = None
    verbose: bool = False


def run(options: RunOptions) -> None:
    """Run until terminated; leave with an exit code of ``docs/cli.md``."""
    code = asyncio.run(_run(options, load_settings()))
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


async def _run(options: RunOptions, settings: Settings) -> ExitCode:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with serving(settings, http=options.http, verbose=options.verbose) as bot:
        waits = [asyncio.create_task(event.wait()) for event in (stopping, bot.over)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        log = logging.getLogger("leadline.slack")
        log.info("ending: letting %d investigations come to a stop", len(bot.talks))
        await bot.drain(DRAIN_S)
        if bot.fault is not None:
            raise bot.fault
    return ExitCode.TERMINATED


@asynccontextmanager
async def serving(
    settings: Settings,
    *,
    http: int | None = None,
    verbose: bool = False,
    change: Callable[[Desk], Desk] = lambda desk: desk,
) -> AsyncIterator[Bot]:
    """Listen for the time of the block; raise `UsageError` when it cannot, with what to do."""
    _check(settings, http)
    from agent.own_secrets import redactor

    await asyncio.to_thread(_warm)
    clean = Cleaner(redactor(settings))
    log = _logger(clean, verbose=verbose)
    async with AsyncExitStack() as stack:
        client = await client_of(settings, log, stack)
        door = Door(client, clean)
        own = await authorized(settings, client)
        store = SlackStore(settings.state_dir)
        stack.callback(store.close)
        stack.enter_context(_alone(settings.state_dir))
        access = Access(settings, door, store)
        desk = change(Desk(settings, door, store, access, open_session))
        bot = Bot(desk)
        await listen(stack, bot, client, own, http, log)
        await bot.recover()
        stack.push_async_callback(bot.drain, 5.0)
        yield bot


def _check(settings: Settings, http: int | None) -> None:
    """Refuse settings with which nobody could be answered."""
    slack = settings.slack
    wanted = {"bot_token": "SLACK_BOT_TOKEN"}
    wanted |= {"app_token": "SLACK_APP_TOKEN"} if http is None else {"signing_secret": "SLACK_SIGNING_SECRET"}
    for field, name in wanted.items():
        if getattr(slack, field) is None:
            raise UsageError(
                f"slack.{field} is not set", do=f"set {name}; docs/slack.md says where it stands"
            )
    wrong = slack.wrong_key(*wanted)
    if wrong is not None:
        raise UsageError(wrong.what, do=wrong.do)
    for channel in slack.channels:
        usable(settings, channel)
    usable(settings, "")


@contextmanager
def _alone(state_dir: Path) -> Iterator[None]:
    """Hold the state folder: of two bots in it each would go on with the other's threads."""
    path = state_dir / "slack.lock"
    path.touch(mode=0o600)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another `leadline slack run` works in {state_dir}",
                do="stop it, or give this one another LEADLINE_STATE_DIR: one for each workspace",
            ) from error
        yield


def _warm() -> None:
    """Load what the first investigation needs: loaded then, it would keep Slack waiting for seconds."""
    pin_libraries()
    for name in WARM:
        importlib.import_module(name)


class _Masked(logging.Formatter):
    """Format records for people, without secrets: addresses of websockets hold tickets, errors hold keys."""

    def __init__(self, clean: Cleaner) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        return self._clean.exact(super().format(record))


def _logger(clean: Cleaner, *, verbose: bool) -> logging.Logger:
    log = logging.getLogger("leadline.slack")
    log.handlers = [logging.StreamHandler(sys.stderr)]
    log.handlers[0].setFormatter(_Masked(clean))
    log.setLevel(logging.INFO)
    for name in ("sdk", "bolt", "socket"):
        log.getChild(name).setLevel(logging.INFO if verbose else logging.WARNING)
    log.propagate = False
    return log
