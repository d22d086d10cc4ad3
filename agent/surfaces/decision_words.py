"""Read what a person answers at a change: only the words of the question decide, others are asked about."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tools.display import printable

Word = Literal["yes", "no", "edit"]
Ask = Callable[[str], Awaitable[str]]
"""Puts a question and returns the line that is typed."""

ASK: Final = "Apply it? y(es), n(o), e(dit), d(eny with a reason), ?: "
ASK_UNDO: Final = "Apply it? y(es), n(o), d(eny with a reason), ?: "
REASON: Final = "Reason: "
SURE: Final = "{} is no answer. Deny with it as the reason? y(es), N(o): "
NO_VALUE: Final = "this puts back what was: it takes no other value; y or n"
KEYS: Final = (
    ("y, yes", "apply it; it is measured, and kept or rolled back"),
    ("n, no", "do not apply it"),
    ("e, edit", "take another value: this plan is void, and the new one is asked about by itself"),
    ("d, deny", "do not apply it, and tell the model why: d REASON, or d alone asks for it"),
)
_WORDS: Final[Mapping[str, Word]] = {
    "y": "yes",
    "yes": "yes",
    "n": "no",
    "no": "no",
    "e": "edit",
    "edit": "edit",
}
_SHOWN: Final = 60
_DENY: Final = re.compile(r"(?:d|deny)(?:[\s:,]+(.*))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what was decided: to apply it, not to, with the reason where one was given, or another value."""

    word: Word
    reason: str = ""


def explained(*, edits: bool) -> str:
    """Return what each key does."""
    rows = [(keys, says) for keys, says in KEYS if edits or not keys.startswith("e")]
    return "\n".join(f"  {keys:<9}{says}" for keys, says in rows)


async def take_answer(
    ask: Ask, more: Ask, tell: Callable[[str], None], *, edits: bool = True, unattended: bool = False
) -> Answer:
    """Ask until a word of the question is answered; ``more`` asks for what belongs to it.

    Other words deny once the person says so. Where lines are read ahead, ``unattended``, they deny at once:
    a further question would take the line that was meant for the next one.
    """
    while True:
        line = (await ask(ASK if edits else ASK_UNDO)).strip()
        said = _WORDS.get(line.lower())
        if said is not None and (edits or said != "edit"):
            return Answer(said)
        if denied := _DENY.fullmatch(line):
            return Answer("no", (denied[1] or "").strip() or (await more(REASON)).strip())
        if not line:
            continue
        if unattended:
            return Answer("no", line)
        if said is not None:
            tell(NO_VALUE)
        elif line == "?":
            tell(explained(edits=edits))
        elif await _denies(more, line):
            return Answer("no", line)


async def _denies(more: Ask, line: str) -> bool:
    shown = printable(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...")
    return (await more(SURE.format(f"{shown!r}"))).strip().lower() in ("y", "yes")
