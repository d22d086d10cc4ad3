"""Settings of the Slack bot: its keys, who may use it and where, which hosts, and what it may spend.

Everything fails closed: with no team nobody is answered, with nobody listed nobody may start, with no host
nothing is looked at, and nothing is changed where a channel does not say ``mode = "apply"``.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

DIRECT = "direct"
"""The name under ``[slack.channels]`` that stands for every direct message with the bot."""


def _matching(pattern: str, form: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"{text!r} is not {form}; names do not count")
        return text

    return AfterValidator(check)


TeamId = Annotated[str, _matching(r"[TE][A-Z0-9]{2,20}", "a team id of Slack (T... or E...)")]
ChannelId = Annotated[
    str, _matching(rf"[CGD][A-Z0-9]{{2,20}}|{DIRECT}", f"a channel id of Slack (C...) or {DIRECT}")
]
UserEntry = Annotated[str, _matching(r"[TE][A-Z0-9]{2,20}:[UW][A-Z0-9]{2,20}", "TEAM:USER (T...:U...)")]
GroupEntry = Annotated[str, _matching(r"[TE][A-Z0-9]{2,20}:S[A-Z0-9]{2,20}", "TEAM:GROUP (T...:S...)")]


_KINDS: Final = {
    "xoxb-": "a bot token",
    "xoxe.xoxb-": "a bot token",
    "xapp-": "an app-level token",
    "xoxp-": "a user token",
    "xoxe.xoxp-": "a user token",
    "xoxe-": "a refresh token",
    "xoxs-": "a session of a browser",
    "xoxc-": "a session of a browser",
}
"""What a key of Slack is by how it begins."""

_WANTED: Final = {
    "bot_token": ("a bot token", "take the Bot User OAuth Token (xoxb-...) of *Install App*"),
    "app_token": ("an app-level token", "take an App-Level Token (xapp-...) of *Basic Information*"),
    "signing_secret": ("a signing secret", "take the Signing Secret of *Basic Information*"),
}
"""What each key has to be, and where the app's pages at Slack have it."""


class WrongKey(NamedTuple):
    """Say of a key that it is one of another kind, and how to mend that."""

    field: str
    what: str
    do: str


class SlackChannel(BaseModel):
    """Hold what holds in one channel, or in direct messages."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: tuple[str, ...] = Field(
        default=(), description="Looked at when a message names none; people here may name them too."
    )
    members_may_start: bool = Field(
        default=False, description="May every full member of an allowed team start an investigation here?"
    )
    mode: Literal["read-only", "propose", "apply"] = Field(
        default="propose", description="apply: approved plans are tried on the hosts."
    )


class SlackSettings(BaseModel):
    """Hold what stands under ``[slack]``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bot_token: SecretStr | None = Field(default=None, description="xoxb-...; also SLACK_BOT_TOKEN.")
    app_token: SecretStr | None = Field(
        default=None, description="xapp-..., for Socket Mode; also SLACK_APP_TOKEN."
    )
    signing_secret: SecretStr | None = Field(
        default=None, description="For requests over HTTP; also SLACK_SIGNING_SECRET."
    )
    api_url: str = Field(default="https://slack.com/api/", description="Where Slack's Web API is.")

    teams: tuple[TeamId, ...] = Field(default=(), description="Teams whose members are answered at all.")
    users: tuple[UserEntry, ...] = Field(default=(), description="Who may start, anywhere: TEAM:USER.")
    groups: tuple[GroupEntry, ...] = Field(
        default=(), description="User groups whose members may start, anywhere: TEAM:GROUP."
    )
    channels: dict[ChannelId, SlackChannel] = Field(
        default_factory=dict, description=f"By channel id; {DIRECT} stands for direct messages."
    )
    hosts: tuple[str, ...] = Field(
        default=(), description="Hosts that people who may start can name, anywhere."
    )

    http_host: str = Field(default="127.0.0.1", description="Address that `--http` listens on.")
    http_port: int = Field(default=3000, ge=0, le=65535, description="Port of `--http` without a number.")

    max_turns: int | None = Field(default=None, ge=1, description="Of an investigation; default: max_turns.")
    max_wall_s: float | None = Field(default=None, gt=0, description="Of an investigation.")
    max_cost_usd: float | None = Field(default=None, gt=0, description="Of an investigation.")
    max_active: int = Field(default=100, ge=1, description="Investigations at work at once, in all.")
    max_active_per_user: int = Field(default=3, ge=1, description="At work at once, started by one person.")
    starts_per_user_hour: int = Field(default=20, ge=1, description="Investigations one person may start.")
    starts_per_channel_hour: int = Field(default=60, ge=1, description="Investigations started in a channel.")
    context_messages: int = Field(
        default=30, ge=0, le=200, description="Earlier messages of a thread that are read along."
    )

    @model_validator(mode="after")
    def _known_teams(self) -> SlackSettings:
        for entry in (*self.users, *self.groups):
            team = entry.partition(":")[0]
            if team not in self.teams:
                raise ValueError(f"{entry} is of team {team}, which is not in slack.teams")
        return self

    def wrong_key(self, *fields: str) -> WrongKey | None:
        """Return the first of these keys that is of another kind, which needs no network to be seen."""
        kinds = {field: _kind(getattr(self, field)) for field in _WANTED}
        swapped = (kinds["bot_token"], kinds["app_token"]) == ("an app-level token", "a bot token")
        for field in fields:
            kind, (wanted, do) = kinds[field], _WANTED[field]
            if kind is not None and kind != wanted:
                name = f"SLACK_{field.upper()}"
                if swapped:
                    do = (
                        "the two keys are exchanged: put xoxb-... into bot_token, and xapp-... into app_token"
                    )
                else:
                    do += f", and set {name}; docs/slack.md says how"
                return WrongKey(field, f"slack.{field} ({name}) holds {kind}, not {wanted}", do)
        return None

    def channel(self, channel: str) -> SlackChannel:
        """Return what holds in a channel; one that is not listed gives nothing to anybody."""
        listed = self.channels.get(channel)
        if listed is None and channel.startswith("D"):
            listed = self.channels.get(DIRECT)
        return listed or SlackChannel()

    def usable_hosts(self, channel: str) -> tuple[str, ...]:
        """Return the hosts that may be named there, the channel's own first."""
        return tuple(dict.fromkeys((*self.channel(channel).hosts, *self.hosts)))


def _kind(key: SecretStr | None) -> str | None:
    """Return what a key is; None for one that begins like none of Slack's tokens, or is not there."""
    begins = key.get_secret_value().strip() if key is not None else ""
    return next((kind for start, kind in _KINDS.items() if begins.startswith(start)), None)
