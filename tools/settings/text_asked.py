"""Print what an engine's own argument class said of a launch line, for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

_WIDTH: Final = 80
_SAID: Final = {
    "accepted": "the engine's own argument class accepts the launch line",
    "refused": "the engine's own argument class refuses the launch line",
    "not_asked": "the engine's own argument class gave no answer",
}


def asked_lines(asked: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outcome in the engine's words, then each value beside that of the source."""
    version = f" (version {asked['version']})" if asked["version"] else ""
    yield "Asked of the engine, in the process's own interpreter"
    yield from _wrapped(f"{_SAID[asked['outcome']]}{version}")
    if asked["words"]:
        where = f" [{asked['where']}]" if asked["where"] else ""
        yield from _wrapped(f"{asked['words']}{where}")
    for name, one in asked["settings"].items():
        if "engine" in one:
            beside = f"; the source, as it was evaluated: {one['source']!r}" if "source" in one else ""
            yield from _wrapped(f"{name} = {one['engine']!r}{beside}")
    for one in asked["disagreements"]:
        yield from _wrapped(
            f"! disagreement on {one['what']}: the engine says {one['engine']!r}, "
            f"the source, as it was evaluated, {one['source']!r}"
        )
    for note in asked["notes"]:
        yield from _wrapped(f"note: {note}")


def _wrapped(text: str) -> list[str]:
    words = " ".join(text.split())
    return textwrap.wrap(words, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
