"""Choose the model that the settings name."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent.config import Settings
from agent.errors import UsageError
from agent.models import Model

PLAYBOOK = "playbook"


def model_of(settings: Settings) -> Model:
    """Return the built-in model, or the named one of an endpoint; nothing is asked of it before a turn."""
    if settings.model == PLAYBOOK:
        from agent.models.playbook import PlaybookModel

        return PlaybookModel()
    if settings.base_url is None and settings.api_key is None:
        raise UsageError(
            f"model {settings.model} needs an endpoint",
            do="give --base-url, such as http://127.0.0.1:30000/v1, or set LEADLINE_API_KEY for OpenAI's own"
            + (f"; the settings name {', '.join(settings.models)}" if settings.models else ""),
        )
    if settings.base_url is not None:
        parts = urlsplit(settings.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"not a base URL: {settings.base_url!r}", do="write it as http://HOST:PORT/v1")
    from agent.models.openai import OpenAIModel

    return OpenAIModel(settings)
