"""The manifest of the Slack app: one file, for Socket Mode or for requests over HTTP."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from agent.errors import UsageError

INSTALL_AGAIN: Final = "update the app by `leadline slack manifest` and install it again"
"""What to do where scopes are missing."""

_FILE: Final = Path(__file__).parent / "manifest.yaml"


def manifest(http: str | None = None) -> dict[str, Any]:
    """Return the manifest; ``http``: the https address that Slack sends events to, instead of Socket Mode."""
    import yaml

    made: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    if http is not None:
        settings = made["settings"]
        settings["socket_mode_enabled"] = False
        settings["event_subscriptions"] = {"request_url": _https(http), **settings["event_subscriptions"]}
        settings["interactivity"]["request_url"] = http
    return made


def text(http: str | None = None) -> str:
    """Return the manifest as YAML, to be pasted where Slack asks for one."""
    import yaml

    if http is None:
        return _FILE.read_text(encoding="utf-8")
    return yaml.safe_dump(manifest(http), sort_keys=False, allow_unicode=True, width=110)


@cache
def scopes() -> frozenset[str]:
    """Return the scopes that the bot's token must have."""
    return frozenset(manifest()["oauth_config"]["scopes"]["bot"])


def lacking(header: str) -> list[str]:
    """Return the scopes that a token must have and lacks, by what Slack says in ``X-OAuth-Scopes``."""
    return sorted(scopes() - {one.strip() for one in header.split(",")})


def _https(url: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(
            f"{url} is no address that Slack can send to",
            do="give the public https address, as https://leadline.example.com/slack/events",
        )
    return url
