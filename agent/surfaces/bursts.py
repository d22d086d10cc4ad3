"""Tell a paste by its speed where a terminal does not mark it: taken key by key, it would take minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from prompt_toolkit.application import get_app_or_none
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

FEWEST: Final = 256
"""Characters that come at once and are none that somebody types."""
GAP_S: Final = 0.2
"""After so long without a further one, a burst is over."""

_ENTER: Final = (Keys.ControlM, Keys.ControlJ)
_TEXT: Final = (*_ENTER, Keys.ControlI)


class Bursts:
    """Stand between a terminal and its keys; what comes in a burst is given on as one paste."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._read = source.read_keys
        self._held: list[str] = []
        self._over: asyncio.TimerHandle | None = None
        source.read_keys = self.read_keys  # type: ignore[method-assign]

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that came; of a burst none before it is over."""
        keys = self._read()
        if self._over is not None:
            self._over.cancel()
            self._over = None
        if not (keys and _are_text(keys) and (self._held or len(keys) >= FEWEST)):
            return [*self._taken(), *keys]
        self._held.append("".join("\n" if key.key in _ENTER else key.data for key in keys))
        self._over = asyncio.get_running_loop().call_later(GAP_S, self._give)
        return []

    def _give(self) -> None:
        self._over = None
        keys = list(self._taken())
        app = get_app_or_none()
        if app is None or not app.is_running:
            store_typeahead(self._source, keys)  # the next line begins with it
            return
        app.key_processor.feed_multiple(keys)
        app.key_processor.process_keys()

    def _taken(self) -> Iterable[KeyPress]:
        """Yield what was held as a paste; Enter stays one where it ends a single line."""
        text, self._held = "".join(self._held), []
        if text:
            line = text.rstrip("\n")
            yield KeyPress(Keys.BracketedPaste, line)
            if "\n" not in line and len(text) == len(line) + 1:
                yield KeyPress(Keys.ControlM, "\r")


def _are_text(keys: Sequence[KeyPress]) -> bool:
    return all(key.key in _TEXT or len(key.key) == 1 for key in keys)
