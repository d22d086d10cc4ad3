"""Words with a meaning of their own in a thread, and whether two people want opposite things."""

from __future__ import annotations

import re
from typing import Final, Literal

Word = Literal["stop", "status", "why", "go on", "help"]

_WORDS: Final[dict[str, Word]] = {
    "stop": "stop",
    "cancel": "stop",
    "abort": "stop",
    "status": "status",
    "why": "why",
    "go on": "go on",
    "continue": "go on",
    "resume": "go on",
    "help": "help",
}
_FILLING: Final = re.compile(r"\b(?:please|now|it|this|that|everything|immediately|at once)\b")
"""What people add to such a word without meaning another."""

_NOT: Final = re.compile(
    r"(?i)\b(?:not|never|don'?t|do not|doesn'?t|no|without|instead of|leave|skip|avoid|ignore|stop|undo"
    r"|revert|keep)\b"
)
_OFF: Final = re.compile(r"(?i)\b(?:off|disable[ds]?|lower|decrease|reduce|less|down|shrink)\b")
_ON: Final = re.compile(r"(?i)\b(?:on|enable[ds]?|raise|higher|increase|more|up|grow)\b")
_TOKEN: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{2,}")
_COMMON: Final = re.compile(
    "the|and|for|not|don|dont|never|please|just|you|should|must|can|could|would|will|that|this|with|from|into"
    "|instead|leave|skip|avoid|ignore|stop|off|disable|disabled|enable|enabled|raise|lower|keep|has|have|are"
    "|was|look|try|use|make|get|set|first|again|now|then|there|here|does|doesn|more|less"
)


def word(text: str) -> Word | None:
    """Return the command that a message is, when it is nothing else."""
    return _WORDS.get(" ".join(_FILLING.sub(" ", text.lower()).split()).strip("!.?, "))


def opposed(one: str, other: str) -> bool:
    """Tell whether two instructions name the same thing and want opposites of it, as far as words tell."""
    if not _topics(one) & _topics(other):
        return False
    if bool(_NOT.search(one)) != bool(_NOT.search(other)):
        return True
    return bool(_OFF.search(one) and _ON.search(other)) or bool(_ON.search(one) and _OFF.search(other))


def _topics(text: str) -> set[str]:
    return {token.rstrip(".") for token in _TOKEN.findall(text.lower()) if not _COMMON.fullmatch(token)}
