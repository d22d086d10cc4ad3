"""Check the keys of the Slack bot: who they say it is, what it may do, whether Socket Mode opens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent.config import Settings
from agent.errors import UsageError
from agent.inventory import Inventory
from agent.surfaces.doctor_clock import of_answer
from agent.surfaces.doctor_types import Check, broken, ok, skipped, warning

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

_TRY_S = 10
_INSTALL = "pip install 'leadline[slack]'"


async def check_slack(settings: Settings) -> list[Check]:
    """Return what is to be said of the bot; nothing is asked of Slack where it is not configured."""
    slack = settings.slack
    said = "slack" in settings.model_fields_set
    if not said and slack.bot_token is None and slack.app_token is None and not slack.teams:
        return [skipped("slack", "not configured")]
    if slack.bot_token is None:
        return [broken("slack", "there is no bot token", "set SLACK_BOT_TOKEN (xoxb-...)")]
    wrong = slack.wrong_key("bot_token", "app_token", "signing_secret")
    if wrong is not None:
        return [broken("slack keys", wrong.what, wrong.do)]
    try:
        from slack_sdk.web.async_client import AsyncWebClient
    except ImportError:
        return [broken("slack", "its packages are not installed", _INSTALL)]
    client = AsyncWebClient(
        token=slack.bot_token.get_secret_value(), base_url=slack.api_url, timeout=_TRY_S, retry_handlers=[]
    )
    return [*await _bot(settings, client), await _socket(settings, client), *_hosts(settings)]


async def _bot(settings: Settings, client: AsyncWebClient) -> list[Check]:
    from aiohttp import ClientError
    from slack_sdk.errors import SlackApiError, SlackClientError

    from agent.slack.errors import told

    asked = datetime.now(UTC)
    try:
        answer = await client.auth_test()
    except SlackApiError as error:
        refused = told("auth.test", error)
        return [broken("slack bot token", refused.what, refused.do)]
    except (SlackClientError, ClientError, TimeoutError, OSError) as error:
        do = "check the network, HTTPS_PROXY and slack.api_url"
        return [broken("slack", f"{settings.slack.api_url} is not reached ({type(error).__name__})", do)]
    team = str(answer.get("team_id"))
    who = f"{answer.get('user')} of {answer.get('team')} ({team})"
    known = {team, str(answer.get("enterprise_id"))} & set(settings.slack.teams)
    checks = [
        ok("slack bot token", who)
        if known
        else broken("slack bot token", f"{who}, which is not in slack.teams", f'write teams = ["{team}"]')
    ]
    headers = {str(name).lower(): str(value) for name, value in answer.headers.items()}
    return [*checks, _scopes(headers), *of_answer(settings.slack.api_url, headers, asked)]


def _scopes(headers: Mapping[str, str]) -> Check:
    from agent.slack.manifest import INSTALL_AGAIN, lacking, scopes

    header = headers.get("x-oauth-scopes")
    if header is None:
        return skipped("slack scopes", "Slack does not say which scopes the token has")
    missing = lacking(header)
    if missing:
        return broken("slack scopes", f"missing: {', '.join(missing)}", INSTALL_AGAIN)
    return ok("slack scopes", f"all {len(scopes())} that are needed")


async def _socket(settings: Settings, client: AsyncWebClient) -> Check:
    from aiohttp import ClientError
    from slack_sdk.errors import SlackApiError, SlackClientError

    key = settings.slack.app_token
    if key is None:
        if settings.slack.signing_secret is not None:
            return skipped("slack socket mode", "no app token; requests over HTTP are configured")
        do = "set SLACK_APP_TOKEN (xapp-..., scope connections:write)"
        return broken("slack socket mode", "there is neither an app token nor a signing secret", do)
    try:
        await client.apps_connections_open(app_token=key.get_secret_value())
    except SlackApiError as error:
        do = "make an app-level token with connections:write, and set SLACK_APP_TOKEN"
        return broken("slack socket mode", f"apps.connections.open: {error.response.get('error')}", do)
    except (SlackClientError, ClientError, TimeoutError, OSError) as error:
        return broken("slack socket mode", f"not reached ({type(error).__name__})", "check the network")
    return ok("slack socket mode", "a connection is given")


def _hosts(settings: Settings) -> list[Check]:
    """Return which hosts of the bot it could not log in to: those without a pinned key."""
    inventory = Inventory.of(settings)
    words = [*settings.slack.hosts, *(name for one in settings.slack.channels.values() for name in one.hosts)]
    if not words:
        return [warning("slack hosts", "it may look at none", "name some in slack.hosts, or for a channel")]
    try:
        names = inventory.select_known(words)
    except UsageError as error:
        return [broken("slack hosts", error.what, error.do)]
    entries = {name: inventory.entries[name] for name in names}
    bare = [n for n, one in entries.items() if not one.host_key and one.plugin is None and one.ssh != "local"]
    if bare:
        do = "write host_key for each; the bot reads no known_hosts"
        return [broken("slack hosts", f"no host_key: {', '.join(bare)}", do)]
    return [ok("slack hosts", f"{len(names)} with a pinned key")]
