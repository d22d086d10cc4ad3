"""Suggest patterns for a new case from what a run said and cited; a person reviews every one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from agent.state import Check
from evals.settings_match import plain_setting

_DULL: Final = frozenset(["disable", "enable", "no", "use", "max", "min", "num", "set", "default", "the"])
"""Words of a setting's name that say nothing of its matter."""
_COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        """about above after again against almost already because before being below between cannot could
        does every from have here host itself least likely might more most much never only other rather
        request requests runs same server setting settings should since slow slower some such takes than that
        their them then there these they this those through turns under until very what when where which
        while with without would""",
    )
)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{3,}")
_NEAR: Final = 60
_LONGEST_QUOTE: Final = 160


def cause_patterns(settings: Sequence[str], statement: str, avoid: Sequence[str]) -> list[str]:
    """Return patterns for statements of a cause: by the names of its settings, else by its telling words.

    One of them stands in ``statement``, and that one in none of ``avoid``.
    """
    names = [[word for word in plain_setting(one).split("_") if word] for one in settings]
    found = list(dict.fromkeys(r"[ _-]?".join(map(re.escape, words)) for words in names if words))
    if any(stands(one, statement) for one in found):
        return found
    for words in names:
        matter = [word for word in words if word not in _DULL and len(word) > 1]
        short = next((one for one in _shorter(matter) if _tells(one, statement, avoid)), None)
        if short is not None:
            return [short, *found]
    return [phrase(statement, avoid), *found]


def phrase(statement: str, avoid: Sequence[str]) -> str:
    """Return a pattern of telling words that stands in a statement and, where there is one, in no other."""
    words = [word.lower() for word in _WORD.findall(statement) if word.lower() not in _COMMON]
    pairs = [
        rf"\b{re.escape(left)}\b.{{0,{_NEAR}}}\b{re.escape(right)}\b"
        for left, right in combinations(words[:14], 2)
        if left != right
    ]
    for one in pairs:
        if _tells(one, statement, avoid):
            return one
    whole = re.escape(" ".join(statement.split())[:80]).replace(r"\ ", r"\s+")
    return whole if stands(whole, statement) else re.escape(statement[:80])


def quote_pattern(quote: str, check: Check | None = None) -> str:
    """Return a pattern for a quote: that of the prediction it met, else its text with numbers left open."""
    pattern = getattr(check, "pattern", "") if getattr(check, "present", True) else ""
    if pattern and stands(pattern, quote):
        return str(pattern)
    line = max(quote.splitlines() or [quote], key=lambda one: len(one.strip())).strip()[:_LONGEST_QUOTE]
    opened = re.sub(r"\d+(?:\\\.\d+)*", r"[\\d.]+", re.escape(line))
    found = re.sub(r"(?:\\\s|\s)+", r"\\s+", opened)
    return found if stands(found, quote) else re.escape(line)


def source_pattern(quote: str, settings: Sequence[str], check: Check | None = None) -> str:
    """Return a pattern for quoted source: a setting's own name where it stands there, as versions differ."""
    for setting in settings:
        if len(name := plain_setting(setting)) > 3 and stands(rf"\b{re.escape(name)}\b", quote):
            return re.escape(name)
    return quote_pattern(quote, check)


def stands(pattern: str, text: str) -> bool:
    """Tell whether a pattern is found, as scorers look for it; a pattern that is none is not."""
    try:
        return re.search(pattern, text, re.IGNORECASE) is not None
    except (re.error, RecursionError, OverflowError):
        return False


def _tells(pattern: str, statement: str, avoid: Sequence[str]) -> bool:
    return stands(pattern, statement) and not any(stands(pattern, other) for other in avoid)


def _shorter(words: Sequence[str]) -> Iterator[str]:
    """Yield patterns of ever fewer of the words, in their order; a word may go on, as in asynchronous."""
    for count in range(min(len(words), 5), 1, -1):
        for chosen in combinations(words, count):
            yield r"\w*.{0,12}".join(map(re.escape, chosen))
