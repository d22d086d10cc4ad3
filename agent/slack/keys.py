"""Use the bot's keys: the client of Slack's Web API, whose they are, and which scopes they have."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from agent.config import Settings
from agent.errors import UsageError
from agent.slack.errors import SlackKeysRefused, SlackRefused
from agent.slack.manifest import INSTALL_AGAIN, lacking

if TYPE_CHECKING:
    from slack_bolt.authorization import AuthorizeResult
    from slack_sdk.web.async_client import AsyncWebClient

CALL_S: Final = 30
"""How long a call of Slack's Web API may take."""

NEEDED: Final = frozenset({"app_mentions:read", "chat:write", "im:history", "users:read"})
"""Scopes without which nobody is heard, known or answered; without others less can be done."""


async def client_of(settings: Settings, log: logging.Logger, stack: AsyncExitStack) -> AsyncWebClient:
    """Return the client of Slack's Web API; its connections are kept until the stack is left."""
    from aiohttp import ClientSession, ClientTimeout
    from slack_sdk.http_retry.builtin_async_handlers import (
        AsyncConnectionErrorRetryHandler,
        AsyncRateLimitErrorRetryHandler,
        AsyncServerErrorRetryHandler,
    )
    from slack_sdk.web.async_client import AsyncWebClient

    assert settings.slack.bot_token is not None  # the caller has looked
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


async def authorized(settings: Settings, client: AsyncWebClient) -> AuthorizeResult:
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
    missing = lacking(header) if header is not None else []
    told = f"the bot's token lacks the scopes {', '.join(missing)}"
    if NEEDED.intersection(missing):
        raise SlackKeysRefused(told, do=INSTALL_AGAIN)
    if missing:
        logging.getLogger("leadline.slack").warning("%s; %s", told, INSTALL_AGAIN)
