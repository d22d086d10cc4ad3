"""A key of another kind is told at once, without the network and without showing the key."""

from __future__ import annotations

from typing import Any

import pytest

from agent.errors import UsageError
from agent.slack.run import RunOptions, run
from agent.slack_settings import SlackSettings
from agent.surfaces.doctor import DoctorOptions, examined
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]

NOWHERE = "http://127.0.0.1:9/api/"
SWAPPED = "the two keys are exchanged: put xoxb-... into bot_token, and xapp-... into app_token"
KEYS = [
    ("xapp-1-A", "xoxb-1-B", "slack.bot_token (SLACK_BOT_TOKEN) holds an app-level token", SWAPPED),
    ("xoxp-1-U", "xapp-1-A", "slack.bot_token (SLACK_BOT_TOKEN) holds a user token", "Bot User OAuth Token"),
    ("xoxe.xoxp-1-U", "xapp-1-A", "holds a user token, not a bot token", "set SLACK_BOT_TOKEN"),
    ("xoxb-1-B", "xoxb-1-B", "slack.app_token (SLACK_APP_TOKEN) holds a bot token", "App-Level Token"),
]


def written(folder: SettingsFolder, bot: str, app: str) -> None:
    folder.load(
        f'[slack]\napi_url = "{NOWHERE}"\nteams = ["T0ONE"]\nbot_token = "{bot}"\napp_token = "{app}"\n'
    )


@pytest.mark.parametrize(("bot", "app", "what", "do"), KEYS)
def test_the_bot_does_not_start(folder: SettingsFolder, bot: str, app: str, what: str, do: str) -> None:
    written(folder, bot, app)
    with pytest.raises(UsageError) as raised:
        run(RunOptions())
    assert what in raised.value.what and do in raised.value.do
    assert "1-" not in str(raised.value)


@pytest.mark.parametrize(("bot", "app", "what", "do"), KEYS)
async def test_the_doctor_asks_slack_nothing(
    folder: SettingsFolder, bot: str, app: str, what: str, do: str
) -> None:
    written(folder, bot, app)
    options = DoctorOptions(hosts=[], model=None, base_url=None, fresh=False, as_json=True)
    found = [check for check in await examined(options) if check.about.startswith("slack")]
    assert [(check.about, check.verdict) for check in found] == [("slack keys", "broken")]
    assert what in found[0].says and do in found[0].do


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"bot_token": "xoxb-1", "app_token": "xapp-1", "signing_secret": "8f742231b10e8888abcd99yyyzzz85a5"},
        {"bot_token": "xoxe.xoxb-1"},
        {"bot_token": "of-a-proxy"},
    ],
)
def test_keys_of_the_right_kind_and_of_none_that_is_known_are_let_be(keys: dict[str, Any]) -> None:
    assert SlackSettings(**keys).wrong_key("bot_token", "app_token", "signing_secret") is None
