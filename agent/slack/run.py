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
from typing import TYPE_CHECKING, Final

from agent.config import Settings, load_settings, pin_libraries
from agent.errors import ExitCode, UsageError
from agent.slack.access import Access
from agent.slack.bot import Bot
from agent.slack.desk import Desk, open_session
from agent.slack.door import Door
from agent.slack.errors import SlackKeysRefused, SlackRefused
from agent.slack.hosts import usable
from agent.slack.listening import listen
from agent.slack.store import SlackStore
from agent.slack.text import Cleaner

if TYPE_CHECKING:
    from slack_bolt.authorization import AuthorizeResult
    from slack_sdk.web.async_client import AsyncWebClient

DRAIN_S: Final = 90.0
"""How long what runs may take to come to a stop; systemd waits that long before it kills."""

CALL_S: Final = 30
"""How long a call of Slack's Web API may take."""

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

NEEDED: Final = frozenset({"app_mentions:read", "chat:write", "im:history", "users:read"})
"""Scopes without which nobody is heard, known or answered; without others less can be done."""


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
        client = await _client(settings, log, stack)
        door = Door(client, clean)
        authorized = await _authorized(settings, client)
        store = SlackStore(settings.state_dir)
        stack.callback(store.close)
        stack.enter_context(_alone(settings.state_dir))
        access = Access(settings, door, store)
        desk = change(Desk(settings, door, store, access, open_session))
        bot = Bot(desk)
        await listen(stack, bot, client, authorized, http, log)
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


async def _client(settings: Settings, log: logging.Logger, stack: AsyncExitStack) -> AsyncWebClient:
    from aiohttp import ClientSession, ClientTimeout
    from slack_sdk.http_retry.builtin_async_handlers import (
        AsyncConnectionErrorRetryHandler,
        AsyncRateLimitErrorRetryHandler,
        AsyncServerErrorRetryHandler,
    )
    from slack_sdk.web.async_client import AsyncWebClient

    assert settings.slack.bot_token is not None  # `_check` has looked
    kept = await stack.enter_async_context(ClientSession(timeout=ClientTimeout(total=CALL_S)))
    return AsyncWebClient(
        session=kept,
        token=settings.slack.bot_token.get_secret_value(),
        base_url=settings.slack.api_url,
        timeout=CALL_S,
        logger=log.getChild("sdk"),
        retry_handlers=[
            AsyncConnectionErrorRetryHandler(max_retry_count=2),
            AsyncRateLimitErrorRetryHandler(max_retry_count=5),
            AsyncServerErrorRetryHandler(max_retry_count=2),
        ],
    )


async def _authorized(settings: Settings, client: AsyncWebClient) -> AuthorizeResult:
    """Return who the bot is; raise when the key is refused, is of another team, or lacks a scope."""
    from aiohttp import ClientError
    from slack_bolt.authorization import AuthorizeResult
    from slack_sdk.errors import SlackApiError, SlackClientError

    from agent.slack.errors import told

    try:
        answer = await client.auth_test()
    except SlackApiError as error:
        raise SlackKeysRefused(str(told("auth.test", error))) from error
    except (SlackClientError, ClientError, TimeoutError, OSError) as error:
        raise SlackRefused(
            f"Slack cannot be reached at {settings.slack.api_url} ({type(error).__name__})",
            do="check the network, HTTPS_PROXY and slack.api_url",
        ) from error
    team = str(answer.get("team_id"))
    if not settings.slack.teams:
        wanted = f'write teams = ["{team}"], which is the team of the bot\'s token'
        raise UsageError("slack.teams is empty, so nobody would be answered", do=wanted)
    if team not in settings.slack.teams and str(answer.get("enterprise_id")) not in settings.slack.teams:
        raise SlackKeysRefused(f"the bot's token is of team {team}, which is not in slack.teams", do="add it")
    headers = {name.lower(): str(value) for name, value in answer.headers.items()}
    _check_scopes(headers.get("x-oauth-scopes"))
    return AuthorizeResult(
        enterprise_id=answer.get("enterprise_id"),
        team_id=team,
        bot_id=answer.get("bot_id"),
        bot_user_id=answer.get("user_id"),
        bot_token=client.token,
    )


def _check_scopes(header: str | None) -> None:
    """Raise when the bot could not hear or answer with its scopes; say what else it could not do."""
    from agent.slack.manifest import scopes

    if header is None:
        return
    missing = scopes() - {one.strip() for one in header.split(",")}
    told = f"the bot's token lacks the scopes {', '.join(sorted(missing))}"
    do = "update the app by `leadline slack manifest` and install it again"
    if missing & NEEDED:
        raise SlackKeysRefused(told, do=do)
    if missing:
        logging.getLogger("leadline.slack").warning("%s; %s", told, do)


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
