"""What Slack refuses, told in one line with what an administrator can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.errors import LeadlineError, UsageError

if TYPE_CHECKING:
    from slack_sdk.errors import SlackApiError

GONE: Final = frozenset(
    {
        "not_in_channel",
        "channel_not_found",
        "is_archived",
        "user_not_in_channel",
        "thread_not_found",
        "restricted_action",
        "restricted_action_read_only_channel",
        "restricted_action_thread_only_channel",
        "restricted_action_non_threadable_channel",
        "restricted_action_thread_locked",
    }
)
"""Answers that mean: nothing can be said in this channel, or thread, any more."""

KEYS: Final = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "not_allowed_token_type",
        "team_access_not_granted",
    }
)
"""Answers that mean: the key itself is no good."""


_INVITE: Final = "invite the bot into the channel again"
_GONE_DO: Final = {
    "is_archived": "unarchive the channel, or ask in another one",
    "thread_not_found": "its first message was deleted; ask anew",
} | {
    code: "let the bot post there (the channel's posting permissions), or ask in another channel"
    for code in GONE
    if code.startswith("restricted_action")
}


class SlackRefused(LeadlineError):
    """Report a call that Slack answered with an error, by its name there."""

    def __init__(self, what: str, *, do: str = "", code: str = "") -> None:
        super().__init__(what, do=do)
        self.code = code


class ChannelGone(SlackRefused):
    """Report that the bot cannot speak in a channel any more."""


class SlackKeysRefused(UsageError):
    """Report keys or scopes with which the bot cannot run at all."""


def told(method: str, error: SlackApiError) -> SlackRefused:
    """Return what a refusal by Slack means here."""
    answer = error.response
    if not hasattr(answer, "get"):  # what slack_sdk could not read comes as the bare response
        return SlackRefused(f"Slack: {method} got an answer that is no JSON", code="link")
    code = str(answer.get("error") or f"http {getattr(answer, 'status_code', '?')}")
    if code in GONE:
        return ChannelGone(f"Slack: {method}: {code}", do=_GONE_DO.get(code, _INVITE), code=code)
    if code == "missing_scope":
        needed = answer.get("needed") or "see the manifest"
        return SlackRefused(
            f"Slack: {method} needs the scope {needed}", do="add it and install the app again", code=code
        )
    if code in KEYS:
        return SlackRefused(f"Slack: {method}: {code}", do=f"check {_key_of(method)}", code=code)
    return SlackRefused(f"Slack: {method}: {code}", code=code)


def _key_of(method: str) -> str:
    return "SLACK_APP_TOKEN" if method.startswith("apps.") else "SLACK_BOT_TOKEN"
