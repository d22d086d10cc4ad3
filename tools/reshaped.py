"""Keep secrets masked where a command takes output apart: ``cut -d= -f2``, ``grep -o``, ``jq .api_key``.

Redaction goes by the name before a value, and by its shape. Where a command may cut either off, what it reads
is looked at first as it stands: commands that take lines apart are not run on secrets at all, and of those
that choose among whole lines the output is searched for the secrets that were found.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from typing import Final

from tools.contract import Host, ToolError
from tools.policy import Decision
from tools.redact import placeholder, secrets_in

_SHORTEST: Final = 5
_MOST: Final = 8 << 20
_LIMIT_S: Final = 15.0
_GREPS: Final = frozenset({"grep", "egrep", "fgrep", "rg"})
_WHOLE: Final = frozenset({"cat", "nl", "zcat"})
_LINES: Final = frozenset(
    {"head", "tail", "sed", "sort", "uniq", "strings", "diff", "cmp", "comm", "wc", "tac"}
)
_APART: Final = frozenset({"cut", "tr", "jq", "column", "paste"})
_FILES: Final = 'for f; do [ ! -f "$f" ] || head -c 8388608 -- "$f"; echo; done'
_ONLY: Final = re.compile(r"-[A-Za-z]*o[A-Za-z]*|--only-matching")
_BYTES: Final = re.compile(r"-[qvz]*c.*|--bytes.*")


def _name(argv: Sequence[str]) -> str:
    return argv[0].rsplit("/", 1)[-1]


def reshapes(decision: Decision) -> bool:
    """Tell whether the output may hold a value without the name that stands before it."""
    return len(decision.argv) > 1 or _name(decision.argv[0]) in _LINES | _APART | _GREPS


def takes_apart(decision: Decision) -> bool:
    """Tell whether the output may hold parts of lines."""
    return any(_takes_apart(argv) for argv in decision.argv)


def _takes_apart(argv: Sequence[str]) -> bool:
    name = _name(argv)
    if name in _GREPS:
        return any(_ONLY.fullmatch(word) for word in argv[1:])
    if name == "tr" and list(argv[1:]) == ["\\0", "\\n"]:
        return False
    return name in _APART or (name in ("head", "tail") and any(_BYTES.fullmatch(word) for word in argv[1:]))


async def secrets_behind(host: Host, enter: Sequence[str], decision: Decision) -> set[bytes]:
    """Return the secrets in what a command reads; `ToolError` where it would take them apart."""
    lines, files = _sources(decision)
    results = await asyncio.gather(
        *(
            host.exec([*enter, *argv], timeout_s=_LIMIT_S, max_bytes=_MOST, retry=True)
            for argv in (*lines, *files)
        )
    )
    found = [secrets_in(result.stdout.data) for result in results]
    if any(found[: len(lines)] or found) and takes_apart(decision):
        raise ToolError(
            "not run: what it reads holds secrets, and cut out of their lines they could not be masked; "
            "ask for whole lines (grep without -o, no cut, tr or jq), or use journal, grep or read_file"
        )
    return set().union(*found)


def _sources(decision: Decision) -> tuple[list[list[str]], list[list[str]]]:
    """Return commands that print the lines it works on, where a grep chooses them, and all it reads."""
    first = list(decision.argv[0])
    files = [path for path in decision.reads if path not in decision.trees]
    everything = [["sh", "-c", _FILES, "sh", *files]] if files else []
    if _name(first) in _GREPS:
        return [[_with_names(word) for word in first]], everything
    if _name(first) not in _WHOLE | _LINES | _APART:
        everything.append(first)
    return [], everything


def _with_names(word: str) -> str:
    """Return an option of grep without what makes it print the matching part only."""
    if not _ONLY.fullmatch(word):
        return word
    return "-H" if word in ("-o", "--only-matching") else word.replace("o", "")


def conceal(data: bytes, secrets: Collection[bytes]) -> bytes:
    """Return ``data`` with the secrets replaced, whatever stands around them."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            data = data.replace(secret, placeholder("secret", secret))
    return data
