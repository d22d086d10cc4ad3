"""Tell whether quoted text gives a name a value, in the ways that launch lines, sources, logs and JSON do."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator

from agent.quotes import Found, StoredText

Origin = typing.Literal["command line", "source", "data"]
Literal = bool | int | float | str | None
"""What the text of a value stands for in a condition."""

_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?")
_LABELS = r"(?:\{[^{}]*\})?"
_TYPE = r"[A-Za-z_][\w.]*(?:\[(?:[^=]|=(?=[^\s=]))*?\])?"
_SEPARATORS = (
    re.compile(rf"""\s*:\s*{_TYPE}(?:\s*\|\s*{_TYPE})*\s+=\s+"""),
    re.compile(rf"""["']?\s*{_LABELS}\s*(?:[:=](?!=))\s*"""),
    re.compile(rf"""["']?{_LABELS},?\s+"""),
)
"""``name: type = value``, then ``name=value`` or ``"name": value``, then ``name value``."""

_STRING = re.compile(r"""(["'])(.*?)\1""", re.DOTALL)
_WORD = re.compile(r"""(?:[^\s,;)}\]"']|,(?=[^\s"'}\])]))+""")
_BARE_END = re.compile(r"""["',\]]*\s*\\?\s*(?:\Z|["']?-{1,2}[A-Za-z]|[|&;<>)])""")
_BARE_LINE_END = re.compile(r"""["',\]]*[ \t]*\n\s*(?:\Z|\[|#|[A-Z]\w*=)""")


_ALIASES = {short: f"{short}_size" for short in ("tp", "pp", "dp", "ep")} | {
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "data_parallel_size": "dp_size",
    "expert_parallel_size": "ep_size",
}
"""Other spellings of one argument on the launch lines of inference engines."""


def plain_name(name: str) -> str:
    """Return a name without leading dashes and with underscores: one spelling for flag and field."""
    return name.lstrip("-").replace("-", "_")


def _spellings(name: str) -> list[str]:
    plain = plain_name(name)
    group = _ALIASES.get(plain, plain)
    others = [alias for alias, field in _ALIASES.items() if group in (alias, field)]
    return list(dict.fromkeys([plain, group, *others]))


def literal(seen: str, *, origin: Origin = "data") -> Literal:
    """Return what the text of a value stands for: a boolean, None, a number, or the text without quotes.

    On a command line nothing stands for None; what is quoted in source is a string; in data only what is not
    quoted can be null.
    """
    bare = seen.strip()
    quoted = len(bare) > 1 and bare[0] in "\"'" and bare[-1] == bare[0]
    bare = bare[1:-1] if quoted else bare
    if quoted and origin == "source":
        return bare
    if bare in {"None", "null"}:
        return bare if quoted or origin == "command line" else None
    if bare.lower() in {"true", "false"}:
        return bare.lower() == "true"
    if _NUMBER.fullmatch(bare):
        number = float(bare)
        return int(number) if number.is_integer() and "." not in bare else number
    return bare


def same_value(left: str, right: str) -> bool:
    """Tell whether two texts are the same value; numbers compare as numbers, JSON's true as Python's."""
    one, other = (literal(text.strip().strip("\"'")) for text in (left, right))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _pattern(name: str) -> re.Pattern[str]:
    parts = [spelling.split("_") for spelling in _spellings(name)]
    flexible = "|".join("[-_]".join(re.escape(part) for part in words) for words in parts)
    return re.compile(rf"(?<![\w-])(-{{0,2}})(?:{flexible})(?![\w-])")


def gives(place: Found, name: str, value: str) -> str | None:
    """Return the value as it is written where the quote gives it to ``name``, outside comments; else None.

    What follows the quote is looked at only to see where its last word ends: a value cannot be cut short.
    """
    text = (place.raw + place.after).replace("\0", "\n")
    for match in _pattern(name).finditer(place.raw):
        if _in_comment(place, match.start()):
            continue
        if match.group(1) and literal(value) is True and _ends_bare(text, match.end()):
            return "true"
        for end, seen in _values_after(text, match.end()):
            if end <= len(place.raw) and same_value(seen, value):
                return seen
        if _spelled_out(place.raw, match.end(), value):
            return value
    return None


def _in_comment(place: Found, position: int) -> bool:
    line = (place.before + place.raw[:position]).rsplit("\n", 1)[-1]
    return line.lstrip()[:1] in {"#", ";"}


def _ends_bare(text: str, position: int) -> bool:
    return bool(_BARE_END.match(text, position) or _BARE_LINE_END.match(text, position))


def _values_after(text: str, position: int) -> Iterator[tuple[int, str]]:
    for separator in _SEPARATORS:
        gap = separator.match(text, position)
        if gap is None:
            continue
        value = _STRING.match(text, gap.end()) or _WORD.match(text, gap.end())
        if value is not None:
            yield value.end(), value.group()
            if not value.group().endswith(("'", '"')):
                yield value.end(), value.group().rstrip(".:")
            return


def _spelled_out(raw: str, position: int, value: str) -> bool:
    """Tell whether a value of several words stands right after the name, written just so."""
    if not re.search(r"[\s\[{(,]", value):
        return False
    for separator in _SEPARATORS[1:]:
        gap = separator.match(raw, position)
        if gap is not None:
            rest = raw[gap.end() :]
            return rest.startswith(value) and re.match(r"""[\s,;)}\]"']|\Z""", rest[len(value) :]) is not None
    return False


def flag_on_command_line(text: StoredText, name: str) -> str | None:
    """Return the value that a stored command line (one argument a line) gives a flag; None when not set."""
    words = [word for word in re.split(r"[\n\0]", text.raw) if word]
    seen: str | None = None
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if not flag.startswith("--") or plain_name(flag) not in _spellings(name):
            continue
        after = words[place + 1] if place + 1 < len(words) else "--end"
        seen = value if equals else "true" if re.match(r"-{1,2}[A-Za-z]", after) else after
    return seen
