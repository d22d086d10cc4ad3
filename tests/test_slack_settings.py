"""The settings of the Slack bot: keys by their usual names, closed where nothing is said."""

from pathlib import Path

import pytest

from agent.config import load_settings
from agent.errors import UsageError
from agent.own_secrets import secrets_of
from agent.slack_settings import SlackSettings


def test_keys_come_from_the_names_every_slack_application_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-one")
    monkeypatch.setenv("SLACK_SIGNING_SECRET", "secret-one")
    slack = load_settings().slack
    assert slack.bot_token is not None and slack.bot_token.get_secret_value() == "xoxb-one"
    assert slack.signing_secret is not None and slack.app_token is None
    assert "xoxb-one" not in repr(load_settings())


def test_leadlines_own_names_win_and_the_rest_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "leadline"
    folder.mkdir()
    (folder / "config.toml").write_text('[slack]\nteams = ["T0ONE"]\nbot_token = "xoxb-file"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-one")
    monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-one")
    monkeypatch.setenv("LEADLINE_SLACK__BOT_TOKEN", "xoxb-two")
    settings = load_settings()
    assert settings.slack.teams == ("T0ONE",)
    assert {"xoxb-two", "xapp-one"} <= set(secrets_of(settings))


def test_keys_come_from_what_systemd_keeps_for_the_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "SLACK_BOT_TOKEN").write_text("xoxb-kept\n")
    (tmp_path / "SLACK_APP_TOKEN").write_text("xapp-kept\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-said")
    slack = load_settings().slack
    assert slack.bot_token is not None and slack.bot_token.get_secret_value() == "xoxb-kept"
    assert slack.app_token is not None and slack.app_token.get_secret_value() == "xapp-said"


def test_nothing_said_gives_nothing_to_anybody() -> None:
    slack = SlackSettings()
    here = slack.channel("C0ALERTS")
    assert not here.members_may_start and here.mode == "propose"
    assert slack.usable_hosts("C0ALERTS") == ()


def test_direct_messages_have_an_entry_of_their_own() -> None:
    slack = SlackSettings.model_validate(
        {"hosts": ["gpu1", "gpu2"], "channels": {"direct": {"hosts": ["gpu2"]}, "C0ONE": {"mode": "apply"}}}
    )
    assert slack.usable_hosts("D0ANA") == ("gpu2", "gpu1")
    assert slack.channel("C0ONE").mode == "apply" and slack.channel("D0ANA").mode == "propose"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"teams": ["acme"]}, "team id"),
        ({"teams": ["T0ONE"], "users": ["ana"]}, "TEAM:USER"),
        ({"users": ["T0TWO:U0ANA"]}, "not in slack.teams"),
        ({"channels": {"alerts": {}}}, "channel id"),
        ({"channels": {"C0ONE": {"mode": "yolo"}}}, "apply"),
        ({"user": []}, "no such setting; nearest: users"),
    ],
)
def test_a_wrong_entry_is_named(said: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load_settings(slack=said)
