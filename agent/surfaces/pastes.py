"""Keep long pastes out of the input line, which is drawn whole at every key: a short name stands for each."""

from __future__ import annotations

import re
import sys
from typing import Final

from agent.surfaces.console import write_fitted

FOLDED: Final = 16_000
"""Characters from which a paste is shown by its name."""

MOST: Final = 200_000
"""Characters of the longest paste: about half of what a request to a model may hold by default."""

_NAME = re.compile(r"\[pasted [0-9,]+ characters(?:, [0-9]+)?\]")


class Pastes:
    """Hold the long pastes of one input line by the names that stand for them."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return what is put into the line for a paste: itself, its name, or nothing where it is too long."""
        if len(text) < FOLDED:
            return text
        if len(text) > MOST:
            write_fitted(
                f"  the paste of {len(text):,} characters is left out, {MOST:,} are the most; "
                'give a log by a file: leadline ask HOST "SYMPTOM" < FILE\n',
                sys.stderr,
            )
            return ""
        name = f"[pasted {len(text):,} characters]"
        number = 1
        while self._texts.get(name, text) != text:
            number += 1
            name = f"[pasted {len(text):,} characters, {number}]"
        self._texts[name] = text
        return name

    def unfold(self, line: str) -> str:
        """Return a line with the pastes whole."""
        return _NAME.sub(lambda found: self._texts.get(found[0], found[0]), line)


def shortened(text: str) -> str:
    """Return what a person said as it is shown again: of a long text its beginning."""
    return text if len(text) < FOLDED else f"{text[:400]} ... [{len(text):,} characters]"
