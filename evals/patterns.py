"""Search texts by the patterns of cases, each compiled once; case is ignored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_compiled = lru_cache(maxsize=16_384)(re.compile)
"""All cases together have more patterns than the cache of the standard library holds."""


def found_in(pattern: str, text: str) -> bool:
    """Tell whether a pattern stands in a text."""
    return _compiled(pattern, re.IGNORECASE).search(text) is not None


def any_in(patterns: Iterable[str], text: str) -> bool:
    """Tell whether one of the patterns stands in a text."""
    return any(found_in(pattern, text) for pattern in patterns)
