"""Read the times that journalctl's ``--since`` and ``--until`` take; the sandbox runs in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UNITS = {
    "us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60,
    "min": 60, "minute": 60, "minutes": 60, "h": 3600, "hr": 3600, "hour": 3600, "hours": 3600, "d": 86400,
    "day": 86400, "days": 86400, "w": 604800, "week": 604800, "weeks": 604800, "month": 2629800,
    "months": 2629800, "y": 31557600, "year": 31557600, "years": 31557600,
}  # fmt: skip
_FORMS = ("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")


class TimeError(Exception):
    """Report a time that journalctl would refuse."""


def parse_time(text: str, now: float) -> float:
    """Return seconds since 1970 for a calendar time, a span before or after now, or a word."""
    word = text.strip()
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": 0, "yesterday": -1, "tomorrow": 1}
    if word == "now":
        return now
    if word in days:
        return (today + timedelta(days=days[word])).timestamp()
    if word.startswith("@") and re.fullmatch(r"\d+(\.\d+)?", word[1:]):
        return float(word[1:])
    if word.endswith(" ago"):
        return now - _span(word[:-4], text)
    if word.startswith(("+", "-")):
        return now + (1 if word[0] == "+" else -1) * _span(word[1:], text)
    return _calendar(word, today, text)


def _calendar(word: str, today: datetime, text: str) -> float:
    plain = re.sub(r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+", "", word)
    plain = re.sub(r"\s*(UTC|Z|\+00:?00)$", "", plain)
    plain = re.sub(r"^(\d{4}-\d\d-\d\d)T", r"\1 ", plain)
    if re.fullmatch(r"\d\d:\d\d(:\d\d)?", plain):
        plain = f"{today:%Y-%m-%d} {plain}"
    for form in _FORMS:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    raise TimeError(f"Failed to parse timestamp: {text}")


def _span(word: str, text: str) -> float:
    parts = re.findall(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", word)
    joined = re.sub(r"\s+", "", word)
    if not parts or "".join(number + unit for number, unit in parts) != joined:
        raise TimeError(f"Failed to parse timestamp: {text}")
    total = 0.0
    for number, unit in parts:
        factor = 1 if not unit else _UNITS.get(unit if unit == "M" else unit.lower())
        if factor is None:
            raise TimeError(f"Failed to parse timestamp: {text}")
        total += float(number) * factor
    return total
