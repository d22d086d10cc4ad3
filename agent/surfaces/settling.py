"""Keep the keys of a message out of a question that appears while it is typed: they go on in the message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

SETTLE_S: Final = 0.4
"""So long no key comes before a question is asked of somebody who was not typing."""
TYPING_S: Final = 1.0
"""The same for somebody who was: between two words one thinks."""
_LOOK_S: Final = 0.05


async def settle(source: Input, draft: str, fold: Callable[[str], str], keep: Callable[[str], None]) -> None:
    """Wait until nobody types; ``keep`` takes the draft with what was typed, each time there is more."""
    loop = asyncio.get_running_loop()
    typing = bool(draft)
    since = loop.time()
    while loop.time() - since < (TYPING_S if typing else SETTLE_S) and not source.closed:
        keys = [*get_typeahead(source), *source.read_keys()]
        if keys:
            after = typed_on(draft, keys, fold)
            typing, since = typing or after != draft, loop.time()
            draft = after
            keep(draft.rstrip("\n"))
        await asyncio.sleep(_LOOK_S)
    source.flush_keys()  # an Escape that nothing followed


def typed_on(draft: str, keys: Iterable[KeyPress], fold: Callable[[str], str]) -> str:
    """Return a draft after further keys; Enter begins a line, and what moves or interrupts does nothing."""
    for press in keys:
        match press.key:
            case Keys.ControlM | Keys.ControlJ:
                draft += "\n"
            case Keys.ControlH:
                draft = draft[:-1]
            case Keys.ControlU:
                draft = ""
            case Keys.BracketedPaste:
                draft += fold(press.data.replace("\r\n", "\n").replace("\r", "\n"))
            case Keys():
                pass
            case _:
                draft += press.data
    return draft
