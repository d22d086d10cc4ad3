"""The manifest of the Slack app: of Slack's shape, with the scopes of the bot's own calls and no other."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from agent.errors import UsageError
from agent.slack.manifest import manifest, scopes, text
from tests.fake_slack import FakeSlack
from tests.fake_slack_manifest import CONFIG_TOKEN, manifest_problems
from tests.fake_slack_scopes import EVENT_SCOPES, SCOPES
from tests.in_process import leadline

BOT = Path(__file__).parent.parent / "agent" / "slack"
URL = "https://leadline.example.com/slack/events"
METHOD = re.compile(r"(?:chat|conversations|users|files|views|reactions|assistant)\.[a-zA-Z.]+")
UPLOAD = ("files.getUploadURLExternal", "files.completeUploadExternal")


def called(source: str) -> set[str]:
    """Return the Web API methods that a source names, as text or as methods of the client."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} & set(SCOPES)
            assert not METHOD.fullmatch(node.value) or node.value in {*SCOPES, "files.upload"}, node.value
        if isinstance(node, ast.Attribute):
            if node.attr == "files_upload_v2":
                found |= set(UPLOAD)
            found |= {method for method in SCOPES if method.replace(".", "_") == node.attr}
    return found


@pytest.mark.parametrize("http", [None, URL])
async def test_slack_takes_the_manifest(http: str | None) -> None:
    async with FakeSlack() as slack:
        client = AsyncWebClient(CONFIG_TOKEN, base_url=slack.api_url)
        await client.apps_manifest_validate(manifest=manifest(http))
        broken = manifest(http)
        broken["oauth_config"]["scopes"]["bot"].remove("app_mentions:read")
        with pytest.raises(SlackApiError) as refused:
            await client.apps_manifest_validate(manifest=broken)
        assert "app_mention requires" in refused.value.response["errors"][0]["message"]


def without(path: str) -> dict[str, Any]:
    made = manifest()
    at: Any = made
    *folders, name = path.split(".")
    for folder in folders:
        at = at[folder]
    del at[name]
    return made


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (without("display_information.name"), "'name' is a required property"),
        (without("settings.socket_mode_enabled"), "required without Socket Mode"),
        (without("features.bot_user"), "bot scopes require a bot user"),
        (without("settings.interactivity"), "shortcuts require interactivity"),
        (manifest() | {"feature": {}}, "'feature' was unexpected"),
    ],
)
def test_what_slack_would_not_take_is_told(broken: dict[str, Any], said: str) -> None:
    assert said in manifest_problems(broken)[0]["message"]


def test_it_asks_for_the_scopes_of_its_calls_and_no_other() -> None:
    made = manifest()
    needed = {EVENT_SCOPES[event] for event in made["settings"]["event_subscriptions"]["bot_events"]}
    for file in BOT.glob("*.py"):
        for method in called(file.read_text(encoding="utf-8")):
            wanted = SCOPES[method]
            kinds = {scope for scope in wanted if not scope.endswith(":history") or scope in needed}
            needed |= kinds if len(wanted) > 1 else wanted
    if made["features"]["shortcuts"]:
        needed.add("commands")
    assert sorted(needed) == sorted(scopes())


def test_no_user_token_is_asked_for() -> None:
    assert set(manifest()["oauth_config"]["scopes"]) == {"bot"}
    assert manifest()["settings"]["org_deploy_enabled"] is False


def test_the_command_prints_it() -> None:
    assert yaml.safe_load(leadline("slack", "manifest").stdout) == manifest()
    over_http = yaml.safe_load(leadline("slack", "manifest", "--http", URL).stdout)
    assert over_http["settings"]["socket_mode_enabled"] is False
    assert over_http["settings"]["interactivity"]["request_url"] == URL
    assert over_http["settings"]["event_subscriptions"]["request_url"] == URL
    assert json.loads(json.dumps(over_http)) == manifest(URL)


@pytest.mark.parametrize("url", ["http://leadline.example.com/", "leadline", "https://", "https://a/?b=c"])
def test_an_address_that_slack_cannot_reach_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="no address that Slack can send to"):
        text(url)
