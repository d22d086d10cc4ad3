"""What ``apps.manifest.validate`` says of a manifest: the documented shape, and what must agree in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft7Validator

from tests.fake_slack_scopes import EVENT_SCOPES
from tests.fake_slack_world import Json

CONFIG_TOKEN: Final = "xoxe.xoxp-fake"


def _object(required: list[str] | None = None, **properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    }


def _text(most: int, least: int = 1, **more: Any) -> Json:
    return {"type": "string", "minLength": least, "maxLength": most, **more}


def _list(items: Json, most: int) -> Json:
    return {"type": "array", "items": items, "maxItems": most, "uniqueItems": True}


_YES: Final[Json] = {"type": "boolean"}
_URL: Final = _text(3000, pattern="^https?://")
_SHORTCUT: Final = _object(
    ["name", "type", "callback_id", "description"],
    name=_text(24),
    type={"enum": ["message", "global"]},
    callback_id=_text(255),
    description=_text(150),
)
_BOT: Final = _object(
    ["display_name"], display_name=_text(80, pattern=r"^[a-z0-9\-_.]+$"), always_online=_YES
)
_HOME: Final = _object(home_tab_enabled=_YES, messages_tab_enabled=_YES, messages_tab_read_only_enabled=_YES)
SCHEMA: Final = _object(
    ["_metadata", "display_information"],
    _metadata=_object(major_version={"enum": [1, 2]}, minor_version={"type": "integer"}),
    display_information=_object(
        ["name"],
        name=_text(35),
        description=_text(140),
        long_description=_text(4000, 175),
        background_color=_text(7, 4, pattern="^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    ),
    features=_object(app_home=_HOME, bot_user=_BOT, shortcuts=_list(_SHORTCUT, 10)),
    oauth_config=_object(scopes=_object(bot=_list(_text(255), 255), user=_list(_text(255), 255))),
    settings=_object(
        event_subscriptions=_object(request_url=_URL, bot_events=_list(_text(255), 100)),
        interactivity=_object(["is_enabled"], is_enabled=_YES, request_url=_URL),
        org_deploy_enabled=_YES,
        socket_mode_enabled=_YES,
        token_rotation_enabled=_YES,
    ),
)
"""The part of Slack's schema (version 2) that an app of this kind uses; anything else is refused."""


def manifest_problems(manifest: Json) -> list[Json]:
    """Return what is wrong, as ``errors`` of the method's answer hold it."""
    found = [
        {"message": error.message, "pointer": "/" + "/".join(map(str, error.absolute_path))}
        for error in Draft7Validator(SCHEMA).iter_errors(manifest)
    ]
    return found or [{"message": message, "pointer": pointer} for pointer, message in _disagree(manifest)]


def _disagree(manifest: Json) -> Iterator[tuple[str, str]]:
    """Find what fits the schema and cannot work."""
    settings, features = manifest.get("settings", {}), manifest.get("features", {})
    scopes = set(manifest.get("oauth_config", {}).get("scopes", {}).get("bot", []))
    socket = settings.get("socket_mode_enabled", False)
    events = settings.get("event_subscriptions", {})
    interactivity = settings.get("interactivity", {"is_enabled": False})
    for event in events.get("bot_events", []):
        if event not in EVENT_SCOPES:
            yield "/settings/event_subscriptions/bot_events", f"unknown event: {event}"
        elif EVENT_SCOPES[event] not in scopes:
            yield "/oauth_config/scopes/bot", f"{event} requires the scope {EVENT_SCOPES[event]}"
    if events.get("bot_events") and not socket and "request_url" not in events:
        yield "/settings/event_subscriptions/request_url", "required without Socket Mode"
    if interactivity["is_enabled"] and not socket and "request_url" not in interactivity:
        yield "/settings/interactivity/request_url", "required without Socket Mode"
    if features.get("shortcuts"):
        if "commands" not in scopes:
            yield "/oauth_config/scopes/bot", "shortcuts require the scope commands"
        if not interactivity["is_enabled"]:
            yield "/settings/interactivity/is_enabled", "shortcuts require interactivity"
    if scopes and "bot_user" not in features:
        yield "/features/bot_user", "bot scopes require a bot user"
