"""Read which aliases a person's ``~/.ssh/config`` names; what they mean is left to the connection."""

from __future__ import annotations

import shlex
from pathlib import Path

_DEPTH = 4


def ssh_aliases(config: Path | None) -> list[str]:
    """Return the names on ``Host`` lines in order, patterns left out; a file that cannot be read has none."""
    found: dict[str, None] = {}
    if config is not None:
        _read(config, found, _DEPTH)
    return list(found)


def _read(path: Path, found: dict[str, None], depth: int) -> None:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        keyword, words = _words(line)
        if keyword == "host":
            found.update((word, None) for word in words if not set(word) & set("*?!"))
        elif keyword == "include" and depth:
            for word in words:
                for one in _included(word):
                    _read(one, found, depth - 1)


def _words(line: str) -> tuple[str, list[str]]:
    try:
        words = shlex.split(line.replace("=", " ", 1), comments=True)
    except ValueError:
        return "", []
    return (words[0].lower(), words[1:]) if words else ("", [])


def _included(word: str) -> list[Path]:
    """Return the files that an ``Include`` names, relative ones as ssh takes them: in ``~/.ssh``."""
    pattern = Path(word).expanduser()
    base = pattern if pattern.is_absolute() else Path.home() / ".ssh" / pattern
    try:
        return sorted(Path(base.anchor).glob(str(base.relative_to(base.anchor))))
    except (ValueError, OSError):
        return []
