"""Read what went wrong at a model endpoint: what to say, whether to try again, what to do. No I/O."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from agent.models.stream import HTML, BrokenAnswer
from tools.display import printable

if TYPE_CHECKING:
    from openai import APIStatusError

Cause = Literal[
    "other", "no_stream", "no_stream_options", "too_long", "no_tools", "no_model", "no_key", "no_path"
]

_SHOWN = 240
"""Characters of a server's own words that are shown."""

_AGAIN = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which the same request may work later."""

_CHECK = "check that the server runs and that base_url is right"
TAKE_TOOLS = (
    "start the server with a tool call parser (SGLang: --tool-call-parser; vLLM: "
    "--enable-auto-tool-choice --tool-call-parser; llama.cpp: --jinja), or name a model that takes tools"
)
_DO: Mapping[Cause, str] = {
    "other": _CHECK,
    "no_stream": "set model_stream = false",
    "no_stream_options": _CHECK,
    "too_long": "set context_tokens to less than the server's context length, or start it with a longer one",
    "no_tools": TAKE_TOOLS,
    "no_model": "name a model that the endpoint serves with --model",
    "no_key": "set LEADLINE_API_KEY",
    "no_path": "base_url is most likely wrong: it usually ends in /v1",
}

_SAID: tuple[tuple[Cause, str], ...] = (
    ("no_stream_options", r"stream_options|include_usage"),
    ("too_long", r"context.{0,12}(length|window|size)|maximum.{0,20}tokens|too long|exceeds? .{0,30}context"),
    (
        "no_tools",
        r"support.{0,20}\btools?\b|\btools?\b.{0,60}(not supported|unsupported|requires)|tool.call.parser",
    ),
    ("no_stream", r"\bstream(ing)?\b"),
    (
        "no_model",
        r"model.{0,80}(not (exist|found|available)|does not exist|unknown)|(unknown|invalid|no such) model",
    ),
)
"""What the words of a refusal are about; the first that fits is meant."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Describe one failed try."""

    what: str
    again: bool
    cause: Cause = "other"
    wait_s: float | None = None
    """Seconds that the server asks to wait."""

    @property
    def do(self) -> str:
        """Return what a person can do about it."""
        return _DO[self.cause]


def expected() -> tuple[type[Exception], ...]:
    """Return the exceptions that an endpoint can cause; any other is a bug here."""
    import httpx2
    import openai

    broken = (BrokenAnswer, json.JSONDecodeError, UnicodeDecodeError, RecursionError, TimeoutError)
    return *broken, openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL


def fault_of(error: Exception) -> Fault:
    """Return what one of the `expected` exceptions of a try means."""
    import httpx2
    import openai

    match error:
        case BrokenAnswer():
            return Fault(str(error), again=True, cause="no_path" if str(error) == HTML else "other")
        case openai.APIStatusError():
            return _of_status(error)
        case openai.APITimeoutError() | TimeoutError():
            return Fault("it did not answer in time", again=True)
        case openai.APIConnectionError():
            found = isinstance(error.__cause__, httpx2.TransportError) and not isinstance(
                error.__cause__, httpx2.ConnectError | httpx2.UnsupportedProtocol
            )
            what = "the connection broke" if found else "no connection"
            return Fault(f"{what} ({_reason(error)})", again=True)
        case openai.APIError():
            return Fault(f"it reported an error: {_line(_message(error.body) or error.message)}", again=True)
        case httpx2.TransportError() | httpx2.StreamError():
            return Fault(f"the connection broke ({_line(str(error)) or type(error).__name__})", again=True)
        case json.JSONDecodeError() | UnicodeDecodeError() | RecursionError():
            return Fault("it sent what is not JSON", again=True)
        case _:
            return Fault(f"it cannot be asked: {_line(str(error))}", again=False)


def shown_url(url: str) -> str:
    """Return a URL without the user, password and query that may stand in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def _of_status(error: APIStatusError) -> Fault:
    status = error.status_code
    page = "text/html" in error.response.headers.get("content-type", "")
    said = "an HTML page" if page else _line(_message(error.body) or error.message)
    what = f"HTTP {status}: {said}"
    if status in (401, 403):
        return Fault(what, again=False, cause="no_key")
    if status == 429 and "insufficient_quota" in str(error.body):
        return Fault(what, again=False)
    if page and status < 500:
        return Fault(what, again=False, cause="no_path")
    if status in (400, 404, 405, 413, 422, 501):
        return Fault(what, again=False, cause=_cause(said, status))
    return Fault(what, again=status in _AGAIN or status >= 500, wait_s=_retry_after(error))


def _cause(said: str, status: int) -> Cause:
    for cause, pattern in _SAID:
        if re.search(pattern, said, re.IGNORECASE):
            return cause
    return (
        "no_model" if status == 404 and "model" in said.lower() else "no_path" if status == 404 else "other"
    )


def _retry_after(error: APIStatusError) -> float | None:
    """Return the header's seconds, which may also be given as a date."""
    header = error.response.headers.get("retry-after", "")
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    date = email.utils.parsedate_tz(header)
    return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else None


def _message(body: Any) -> str:
    """Find the words of an error in the forms that servers give it."""
    for key in ("error", "message", "detail"):
        if isinstance(body, Mapping) and body.get(key):
            body = body[key]
    return body if isinstance(body, str) else json.dumps(body) if body else ""


def _reason(error: BaseException) -> str:
    """Return the innermost cause of a failed connection."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return _line(str(error)) or type(error).__name__


def _line(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
