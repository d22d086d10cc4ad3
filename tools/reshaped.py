"""Keep secrets masked where a command takes output apart: ``cut -d= -f2``, ``grep -o``, ``jq .api_key``.

Redaction goes by the name before a value, and by its shape. Where a command may cut either off, what it reads
is looked at first as it stands: commands that take lines apart are not run on secrets at all, and of those
that choose among whole lines the output is searched for the secrets that were found.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tools.contract import Host, Result, ToolError
from tools.policy import Decision
from tools.policy_load import shipped
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
_FEW: Final = frozenset({"head", "tail", "sed"})
_FILES: Final = 'for f; do [ ! -f "$f" ] || head -c 8388609 -- "$f"; echo; done'
"""Of a larger file one byte more is read than is kept, so that it shows as not seen whole."""
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
        return any(True for _ in _only_matching(argv))
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
    everything = set().union(*found)
    if takes_apart(decision):
        worked_on = results[: len(lines)] or results
        if any(found[: len(lines)] or found) or _stands_in(everything, worked_on):
            raise ToolError(
                "not run: what it reads holds secrets, and cut out of their lines they could not be masked; "
                "ask for whole lines (grep without -o, no cut, tr or jq), or use journal, grep or read_file"
            )
        if any(result.truncated or result.outcome != "exited" for result in worked_on):
            raise ToolError(
                "not run: what it reads is too much to look through for secrets first, and cut out of their "
                "lines they could not be masked; choose lines before: grep X FILE | cut, tail -n N FILE | cut"
            )
    return everything


def _stands_in(secrets: Collection[bytes], results: Collection[Result]) -> bool:
    """Tell whether a line that is worked on holds a secret whose name stands on another line."""
    return any(
        secret in result.stdout.data for secret in secrets if len(secret) >= _SHORTEST for result in results
    )


def _sources(decision: Decision) -> tuple[list[list[str]], list[list[str]]]:
    """Return commands that print the lines it works on, where those are chosen first, and all it reads."""
    first = list(decision.argv[0])
    everything = [["sh", "-c", _FILES, "sh", *decision.reads]] if decision.reads else []
    if _name(first) in _GREPS:
        return [_with_names(first)], everything
    if _chooses_few(decision):
        return [first], everything
    if _name(first) not in _WHOLE | _LINES | _APART:
        everything.append(first)
    return [], everything


def _chooses_few(decision: Decision) -> bool:
    """Tell whether the first stage prints whole lines of a file that it names, not of its input."""
    first = decision.argv[0]
    named = len(first) > 1 and first[-1] in decision.reads and "-" not in first
    return named and _name(first) in _FEW and not _takes_apart(first)


def _only_matching(argv: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield where an option of grep asks for the matching part alone, and the same word without that."""
    rule = shipped().rules[_name(argv)]
    words = iter(enumerate(argv[1:], start=1))
    for place, word in words:
        if word == "--":
            return
        if word == "--only-matching":
            yield place, "-H"
        elif word.startswith("--"):
            if "=" not in word and word[2:] in rule.long_values and word[2:] not in rule.long.split():
                next(words, None)
        elif word.startswith("-"):
            letters = next((at for at, one in enumerate(word) if at and one in rule.values), len(word))
            if "o" in word[:letters]:
                bare = word[:letters].replace("o", "") + word[letters:]
                yield place, bare if bare != "-" else "-H"
            if letters == len(word) - 1:
                next(words, None)


def _with_names(argv: Sequence[str]) -> list[str]:
    """Return a grep that prints the whole lines, under the same options."""
    changed = dict(_only_matching(argv))
    return [changed.get(place, word) for place, word in enumerate(argv)]


def conceal(data: bytes, secrets: Collection[bytes]) -> bytes:
    """Return ``data`` with the secrets replaced, whatever stands around them."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            data = data.replace(secret, placeholder("secret", secret))
    return data
