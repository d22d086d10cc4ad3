"""Say which names there are without listing them all: those that look most like what was given."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def hint(given: str, known: Sequence[str], more: str) -> str:
    """Return what to do about an unknown name: the nearest three, and how to see the others."""
    near = difflib.get_close_matches(given, known, n=3, cutoff=0.4)
    return f"did you mean {', '.join(near)}? {more} lists all" if near else f"{more} lists them"
