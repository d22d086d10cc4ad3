"""What a package's metadata says is installed beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tools.settings.types import HostFacts, SourceTree

_REQUIRES: Final = re.compile(
    r"^Requires-Dist:[ \t]*([A-Za-z0-9._-]+)[ \t]*(?:\[([^\]\n]*)\])?[ \t]*([^;\n]*)(?:;(.*))?$", re.MULTILINE
)
_EXTRA: Final = re.compile(r"^\s*\(?\s*extra\s*==\s*['\"]([A-Za-z0-9._-]+)['\"]\s*\)?\s*$")
_MARKERS: Final = ("extra", "platform_machine", "python_version", "implementation_name", "darwin", "win32")
"""Words of conditions that may not hold on the host."""
_SERVING: Final = re.compile(r"srt(-[a-z]+)?|blackwell")
"""Extras of which one is installed wherever the server runs."""
_FIRST_BLACKWELL: Final = 100


def required(tree: SourceTree, facts: HostFacts) -> dict[str, str]:
    """Return the distributions that the package always requires to serve, with their version's condition.

    Releases that keep what serving needs in extras count those requirements which every extra that may be
    installed on such a host has in common.
    """
    data = tree.distribution("METADATA")
    if data is None:
        return {}
    head = data.decode("utf-8", "replace").split("\n\n", 1)[0]
    found: dict[str, str] = {}
    extras: dict[str, dict[str, str]] = {}
    inner: dict[str, list[str]] = {}
    own = ""
    for line in re.findall(r"^Name:[ \t]*(\S+)", head, re.MULTILINE)[:1]:
        own = _normal(line)
    for name, options, version, marker in _REQUIRES.findall(head):
        extra = _EXTRA.match(marker)
        if extra is None:
            if not any(word in marker for word in _MARKERS):
                found.setdefault(_normal(name), version.strip(" ()"))
        elif _normal(name) == own:
            inner.setdefault(_normal(extra[1]), []).extend(_normal(o) for o in options.split(","))
        else:
            extras.setdefault(_normal(extra[1]), {}).setdefault(_normal(name), version.strip(" ()"))
    serving = [e for e in extras.keys() | inner.keys() if _SERVING.fullmatch(e) and _fits(e, facts)]
    return {**_common([dict(_of(e, extras, inner, set())) for e in serving]), **found}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _fits(extra: str, facts: HostFacts) -> bool:
    """Tell whether an extra may be the one that is installed on such a host."""
    if facts.platform is None:
        return True
    if extra == "blackwell":
        arch = (facts.gpu_arch or "").removeprefix("sm")
        return facts.platform == "cuda" and (not arch.isdigit() or int(arch) >= _FIRST_BLACKWELL)
    return extra == ("srt" if facts.platform == "cuda" else f"srt-{facts.platform}")


def _of(
    extra: str, extras: dict[str, dict[str, str]], inner: dict[str, list[str]], seen: set[str]
) -> Iterator[tuple[str, str]]:
    """Return what an extra requires, with the extras that it names."""
    if extra not in seen:
        seen.add(extra)
        for other in inner.get(extra, ()):
            yield from _of(other, extras, inner, seen)
        yield from extras.get(extra, {}).items()


def _common(sets: list[dict[str, str]]) -> dict[str, str]:
    """Return what every one of several sets requires; the version only where they agree."""
    if not sets:
        return {}
    names = set.intersection(*(set(s) for s in sets))
    return {n: sets[0][n] if all(s[n] == sets[0][n] for s in sets) else "" for n in sorted(names)}
