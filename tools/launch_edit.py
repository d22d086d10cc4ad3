"""Change one flag of a launch line, or one variable of a unit, and write the drop-in that does it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tools import unit_text
from tools.contract import ToolError

_PREFIX = re.compile(r"[-@:+!]*")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]{}-]+")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})


@dataclass(frozen=True, slots=True)
class LaunchLine:
    """Hold an ``ExecStart=`` value: its prefix characters and its words."""

    prefix: str
    argv: list[str]


def is_shell(word: str) -> bool:
    """Tell whether a program is a shell, which may start anything."""
    return word.rpartition("/")[2] in _SHELLS


def read(values: Sequence[str]) -> LaunchLine:
    """Return the one launch line of a unit; raise `ToolError` when it cannot be edited safely."""
    if len(values) != 1:
        raise ToolError(f"the unit has {len(values)} ExecStart= lines; one is needed to change a setting")
    prefix = (_PREFIX.match(values[0]) or [""])[0]
    text = values[0][len(prefix) :].lstrip()
    if "@" in prefix or ":" in prefix:
        raise ToolError(f"ExecStart= begins with {prefix!r}; change this launch line by hand")
    if "$" in text.replace("$$", ""):
        raise ToolError(
            "ExecStart= holds a variable; what it adds to the launch line cannot be edited safely"
        )
    if "%" in text.replace("%%", ""):
        raise ToolError("ExecStart= holds a specifier (%); change this launch line by hand")
    argv = [word.replace("$$", "$") for word in unit_text.split(text)]
    if not argv or ";" in argv:
        raise ToolError("ExecStart= holds no single command; change this launch line by hand")
    if is_shell(argv[0]) or argv[0].endswith(".sh"):
        raise ToolError(
            f"ExecStart= starts {argv[0]}, a wrapper; the settings are in what it runs, not in the unit"
        )
    return LaunchLine(prefix, argv)


def quoted(word: str) -> str:
    """Return a word as systemd reads it back, with no variable and no specifier in it."""
    word = word.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_option(word: str) -> bool:
    return word.startswith("--") or re.fullmatch(r"-[A-Za-z]\S*", word) is not None


def _span(argv: Sequence[str], flag: str) -> tuple[int, int] | None:
    """Return where a flag and its values stand; None when it is not there."""
    places = [
        place for place, word in enumerate(argv) if place and (word == flag or word.startswith(f"{flag}="))
    ]
    if not places:
        return None
    if len(places) > 1:
        raise ToolError(f"{flag} stands {len(places)} times in the launch line; change it by hand")
    first = last = places[0]
    if argv[first] == flag:
        while last + 1 < len(argv) and not _is_option(argv[last + 1]):
            last += 1
    return first, last + 1


def flag_value(argv: Sequence[str], flag: str) -> str | None:
    """Return a flag's values in a launch line, 'true' for a bare flag, None when it is absent."""
    span = _span(argv, flag)
    if span is None:
        return None
    first, end = span
    if argv[first] != flag:
        return argv[first].partition("=")[2]
    return " ".join(argv[first + 1 : end]) or "true"


def with_flag(argv: Sequence[str], flag: str, value: str | None) -> list[str]:
    """Return the launch line with a flag set, or removed with None."""
    words = list(argv)
    span = _span(argv, flag)
    if value is None:
        new = []
    elif span is not None and words[span[0]] != flag:
        new = [f"{flag}={value}"]
    elif span is not None and span[1] - span[0] > 2:
        new = [flag, *value.split()]
    else:
        bare = value == "true" and (span is None or span[1] - span[0] == 1)
        new = [flag] if bare else [flag, value]
    place, end = span if span is not None else (len(words), len(words))
    return [*words[:place], *new, *words[end:]]


def exec_start_dropin(prefix: str, argv: Sequence[str]) -> str:
    """Return the text of a drop-in that replaces the launch line."""
    line = " ".join(quoted(word) for word in argv)
    return f"[Service]\nExecStart=\nExecStart={prefix}{line}\n"


def environment_dropin(name: str, value: str | None) -> str:
    """Return the text of a drop-in that sets, or with None unsets, one variable."""
    if value is None:
        return f"[Service]\nUnsetEnvironment={name}\n"
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'[Service]\nEnvironment="{name}={text}"\n'
