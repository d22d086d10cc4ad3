"""The scopes that methods and events of Slack need, as its reference lists them for bot tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.fake_slack_world import Json, World

SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "auth.test": frozenset(),
    "team.info": frozenset({"team:read"}),
    "users.info": frozenset({"users:read"}),
    "usergroups.users.list": frozenset({"usergroups:read"}),
    "bots.info": frozenset({"users:read"}),
    "conversations.info": frozenset({"channels:read", "groups:read", "im:read"}),
    "conversations.open": frozenset({"im:write"}),
    "conversations.history": frozenset({"channels:history", "groups:history", "im:history"}),
    "conversations.replies": frozenset({"channels:history", "groups:history", "im:history"}),
    "chat.postMessage": frozenset({"chat:write"}),
    "chat.update": frozenset({"chat:write"}),
    "chat.delete": frozenset({"chat:write"}),
    "chat.postEphemeral": frozenset({"chat:write"}),
    "chat.getPermalink": frozenset(),
    "chat.startStream": frozenset({"chat:write"}),
    "chat.appendStream": frozenset({"chat:write"}),
    "chat.stopStream": frozenset({"chat:write"}),
    "reactions.add": frozenset({"reactions:write"}),
    "reactions.remove": frozenset({"reactions:write"}),
    "views.open": frozenset(),
    "views.update": frozenset(),
    "files.getUploadURLExternal": frozenset({"files:write"}),
    "files.completeUploadExternal": frozenset({"files:write"}),
}
"""What each method needs; of several in the ``conversations`` family the one of the conversation's kind."""

EVENT_SCOPES: Final[Mapping[str, str]] = {
    "app_mention": "app_mentions:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.im": "im:history",
}
ALL_SCOPES: Final = frozenset().union(*SCOPES.values(), EVENT_SCOPES.values())


def needed(world: World, method: str, args: Json) -> frozenset[str]:
    """Return the scopes that one call needs."""
    wanted = SCOPES[method]
    if len(wanted) < 2:
        return wanted
    channel = world.channels.get(str(args.get("channel", "")))
    family = channel.scope if channel is not None else "channels"
    return frozenset(scope for scope in wanted if scope.startswith(family + ":"))
