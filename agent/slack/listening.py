"""Listen to Slack: by Socket Mode and a watchdog over it, or by signed requests over HTTP."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from agent.errors import UsageError
from agent.slack.bot import Bot
from agent.slack.errors import KEYS, SlackKeysRefused

if TYPE_CHECKING:
    from slack_bolt.authorization import AuthorizeResult
    from slack_sdk.web.async_client import AsyncWebClient

    from agent.slack.watchdog import Watchdog

PATH: Final = "/slack/events"


async def listen(
    stack: AsyncExitStack,
    bot: Bot,
    client: AsyncWebClient,
    authorized: AuthorizeResult,
    http: int | None,
    log: logging.Logger,
) -> None:
    """Take in what Slack sends until the stack is left; raise `UsageError` for a bad key or port."""
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
    watching = asyncio.create_task(_watch(bot, Watchdog(handler.client, bot.desk.door, log)))
    stack.callback(watching.cancel)
    log.info("connected to Slack by Socket Mode")


async def _watch(bot: Bot, watchdog: Watchdog) -> None:
    try:
        await watchdog.watch()
    except SlackKeysRefused as error:
        bot.give_up(error)
