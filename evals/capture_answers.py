"""Take what a server answered to an investigation's commands, so that it answers the same in a lab."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from evals.capture_journal import not_a_template
from evals.capture_units import here
from evals.captured_host import HostRecord, asked_urls

_GAUGES = re.compile(r"^(\S*num_(?:running_reqs|requests_running)(?:\{[^}\n]*\})?) [\d.e+]+$", re.MULTILINE)
_QUEUED = re.compile(r"^(\S*num_(?:queue_reqs|requests_waiting)(?:\{[^}\n]*\})?) [\d.e+]+$", re.MULTILINE)
_PAIR = re.compile(
    r'"(\w+)": ?("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)(?=\s*[,}\]]|\s*$)', re.MULTILINE
)


def answers(record: HostRecord, server: int) -> dict[str, Any]:
    """Return what the server answered to commands: whole JSON, or the parts of it that were let through."""
    found: dict[str, list[str]] = {}
    for port, path, output in asked_urls(record):
        if port == server and output.text.strip() and not path.startswith("/v1/"):
            found.setdefault(path, []).append(output.text)
    made: dict[str, Any] = {}
    for path, texts in found.items():
        if path == "/metrics":
            made[path] = _metrics_text(texts)
        elif path != "/health":
            answer = _json_of(texts)
            if answer:
                made[path] = _plain(answer)
    return made


def _metrics_text(texts: Sequence[str]) -> str:
    """Return the series that were read, each once, those of requests in flight left to the lab."""
    rows = dict.fromkeys(row for text in texts for row in text.splitlines() if re.match(r"[\w:#]", row))
    text = not_a_template("\n".join(rows)) + "\n"
    return _QUEUED.sub(r"\g<1> {waiting}", _GAUGES.sub(r"\g<1> {running}", text))


def _json_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return one object: a whole one, else the names and values that stand in what filters let through."""
    for text in texts:
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(whole, dict):
            return whole
    made: dict[str, Any] = {}
    for text in texts:
        outer, inner_name, inner = text.partition('"internal_states"')
        made = _pairs(outer) | made
        if inner_name:
            made["internal_states"] = [_pairs(inner) | (made.get("internal_states") or [{}])[0]]
    return made


def _pairs(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in _PAIR.findall(text):
        try:
            found.setdefault(name, json.loads(value))
        except ValueError:
            continue
    return found


def _plain(value: Any) -> Any:
    """Return a JSON value in which no text is a template, nor the name of a value."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items() if key != "simulated"}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        text = not_a_template(here(value))
        return f" {text}" if text.startswith("@") else text
    return value
