"""Run the bot: check its keys, listen by Socket Mode or HTTP, go on with what was left, stop in order."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent.config import Settings, load_settings, pin_libraries
from agent.errors import ExitCode, UsageError
from agent.slack.access import Access
from agent.slack.bot import Bot
from agent.slack.desk import Desk, open_session
from agent.slack.door import Door
from agent.slack.errors import KEYS, SlackKeysRefused, SlackRefused
from agent.slack.hosts import usable
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

PATH: Final = "/slack/events"

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
        await stopping.wait()
        log = logging.getLogger("leadline.slack")
        log.info("terminated: letting %d investigations come to a stop", len(bot.talks))
        await bot.drain(DRAIN_S)
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
        access = Access(settings, door, store)
        desk = change(Desk(settings, door, store, access, open_session))
        bot = Bot(desk)
        await _listen(stack, bot, client, authorized, http, log)
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
    if not slack.teams:
        raise UsageError("slack.teams is empty, so nobody would be answered", do="write your team's id there")
    for channel in slack.channels:
        usable(settings, channel)
    usable(settings, "")


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


async def _listen(
    stack: AsyncExitStack,
    bot: Bot,
    client: AsyncWebClient,
    authorized: AuthorizeResult,
    http: int | None,
    log: logging.Logger,
) -> None:
    from slack_sdk.web.async_client import AsyncWebClient

    from agent.slack.app import make_app

    slack = bot.desk.settings.slack
    # Bolt is given no token of its own: it would then look for installations where the environment has keys
    # of an OAuth application.
    keyless = AsyncWebClient(base_url=slack.api_url, logger=log.getChild("sdk"))
    if http is not None:
        assert slack.signing_secret is not None  # `_check` has looked
        app = make_app(
            bot, keyless, authorized, slack.signing_secret.get_secret_value(), log.getChild("bolt")
        )
        bot.port = await _serve_http(stack, app, slack.http_host, http, log)
        return
    app = make_app(bot, keyless, authorized, None, log.getChild("bolt"))
    await _connect(stack, bot, app, client, str(authorized.bot_user_id), log)


async def _serve_http(stack: AsyncExitStack, app: Any, host: str, port: int, log: logging.Logger) -> int:
    from aiohttp import web
    from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request

    async def take(request: web.Request) -> web.Response:
        return await to_aiohttp_response(await app.async_dispatch(await to_bolt_request(request)))

    site = web.Application(client_max_size=2 << 20)
    site.add_routes([web.post(PATH, take)])
    runner = web.AppRunner(site, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror}", do="name another port"
        ) from error
    bound = int(runner.addresses[0][1])
    log.info("listening for Slack at http://%s:%d%s", host, bound, PATH)
    return bound


async def _connect(
    stack: AsyncExitStack, bot: Bot, app: Any, client: AsyncWebClient, me: str, log: logging.Logger
) -> None:
    from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
    from slack_sdk.errors import SlackApiError

    from agent.slack.acknowledging import acknowledge_first
    from agent.slack.watchdog import Watchdog

    assert bot.desk.settings.slack.app_token is not None  # `_check` has looked
    key = bot.desk.settings.slack.app_token.get_secret_value()
    try:
        await client.apps_connections_open(app_token=key)  # the client itself would try for ever
    except SlackApiError as error:
        code = str(error.response.get("error"))
        if code in KEYS or code == "missing_scope":
            raise SlackKeysRefused(
                f"Slack: apps.connections.open: {code}",
                do="check SLACK_APP_TOKEN: an app-level token with connections:write",
            ) from error
        log.warning("Slack: apps.connections.open: %s; trying again", code)
    handler = AsyncSocketModeHandler(app, app_token=key, logger=log.getChild("socket"), web_client=client)
    acknowledge_first(handler, bot, me, log)
    stack.push_async_callback(handler.close_async)
    await handler.client.connect()  # type: ignore[no-untyped-call]
    watching = asyncio.create_task(Watchdog(handler.client, bot.desk.door, log).watch())
    stack.callback(watching.cancel)
    log.info("connected to Slack by Socket Mode")


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
