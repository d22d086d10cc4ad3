"""Find secrets by the rules of gitleaks (``gitleaks.toml``): shapes of keys and tokens of some 200 services.

One pass over the text tells which keywords are in it; only the rules that have one of them are tried, each in
one pass of RE2, so the time is linear in the text whatever it holds. A rule's entropy threshold and its lists
of what is allowed are kept to, except those that go by a file's name, which is not known here.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from tools.redact_marks import MASKED_OPEN, options

_FILE: Final = Path(__file__).with_name("gitleaks.toml")
_OURS: Final = frozenset({"private-key"})
"""Rules that `tools.redact` has in a form that also masks a block cut off at either end."""

_LEADS: Final = (
    (r"(?i)[\w.-]{0,50}?(?:", "(?i)(?:"),
    (r"[\w.-]{0,50}?(?i:[\w.-]{0,50}?(?:", "(?i:(?:"),
)
"""What may stand before a service's name: it does not change what is found, and costs most of the time."""

_GENERIC: Final = "generic-api-key"
"""The rule that goes by names alone, as `tools.redact_names` does: kept as it is, since more is code."""

_END: Final = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_WIDER_END: Final = r"""(?:[\x60'"\s;,&|<>()\[\]{}\\\x00\x1b]|$)"""
"""What may follow a secret: rules for source code know no commas, NULs or colours, which logs have."""

Target = Literal["secret", "match", "line"]


@dataclass(frozen=True, slots=True)
class Secret:
    """Say where a rule found a secret, and of what kind it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class _Allowed:
    target: Target
    patterns: tuple[Any, ...]
    words: Any | None

    def holds(self, secret: bytes, match: bytes, line: bytes) -> bool:
        text = {"secret": secret, "match": match, "line": line}[self.target]
        if self.words is not None and self.words.search(secret) is not None:
            return True
        return any(pattern.search(text) is not None for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class _Rule:
    kind: str
    pattern: Any
    entropy: float
    group: int
    allowed: tuple[_Allowed, ...]


def found(data: bytes) -> Iterator[Secret]:
    """Yield every secret that a rule finds, rule after rule; they may overlap."""
    table = _table()
    names: set[str] = set()
    for number in table.keywords.Match(data) or ():
        names |= table.rules_of[number]
    for name in sorted(names):
        rule = _rule(name)
        for match in rule.pattern.finditer(data):
            group = rule.group or next((n for n in range(1, rule.pattern.groups + 1) if match.group(n)), 0)
            start, end = match.span(group)
            if _counts(rule, data, match, start, end):
                yield Secret(start, end, rule.kind)


def _counts(rule: _Rule, data: bytes, match: Any, start: int, end: int) -> bool:
    secret = data[start:end]
    if not secret or MASKED_OPEN in match.group() or entropy(secret) <= rule.entropy:
        return False
    if any(pattern.fullmatch(secret) for pattern in _table().never) or _table().words.search(secret):
        return False
    if not rule.allowed:
        return True
    first = data.rfind(b"\n", 0, match.start()) + 1
    last = data.find(b"\n", match.end())
    line = data[first : last if last >= 0 else len(data)]
    return not any(one.holds(secret, match.group(), line) for one in rule.allowed)


def entropy(value: bytes) -> float:
    """Return the Shannon entropy of a value, in bits a byte."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts) if value else 0.0


@dataclass(frozen=True, slots=True)
class _Table:
    raw: dict[str, dict[str, Any]]
    keywords: Any
    rules_of: tuple[frozenset[str], ...]
    """The rules of each keyword, in the order of the set."""
    never: tuple[Any, ...]
    words: Any


def names() -> list[str]:
    """Return the rules that are tried, by name."""
    return sorted(_table().raw)


@cache
def _table() -> _Table:
    import re2

    with _FILE.open("rb") as source:
        content = tomllib.load(source)
    raw = {
        rule["id"]: rule
        for rule in content["rules"]
        if "regex" in rule and "path" not in rule and rule["id"] not in _OURS
    }
    rules_of: dict[str, set[str]] = {}
    for name, rule in raw.items():
        for keyword in rule["keywords"]:
            rules_of.setdefault(keyword.lower(), set()).add(name)
    keywords: Any = re2.Set.SearchSet(options())
    for keyword in rules_of:
        keywords.Add(f"(?i){re2.escape(keyword)}")
    keywords.Compile()
    never = tuple(_compiled(pattern) for pattern in content["allowlist"]["regexes"])
    words = _any_of(content["allowlist"]["stopwords"])
    return _Table(raw, keywords, tuple(frozenset(one) for one in rules_of.values()), never, words)


@cache
def _rule(name: str) -> _Rule:
    rule = _table().raw[name]
    pattern: str = rule["regex"]
    in_context = name == _GENERIC or name.startswith("curl-")
    for lead, without in _LEADS:
        if pattern.startswith(lead):
            pattern, in_context = without + pattern.removeprefix(lead), True
    kind = "secret" if in_context else re.sub(r"[^a-z0-9]+", "_", name)
    return _Rule(
        kind=kind,
        pattern=_compiled(pattern if name == _GENERIC else pattern.replace(_END, _WIDER_END)),
        entropy=rule.get("entropy", -1.0),
        group=rule.get("secretGroup", 0),
        allowed=tuple(_allowed(one) for one in rule.get("allowlists", ()) if not _by_path(one)),
    )


def _by_path(allowed: dict[str, Any]) -> bool:
    """Tell whether a list of what is allowed holds only together with the name of a file."""
    return "paths" in allowed and (allowed.get("condition") == "AND" or not allowed.get("regexes"))


def _allowed(one: dict[str, Any]) -> _Allowed:
    words = one.get("stopwords")
    return _Allowed(
        target=one.get("regexTarget", "secret"),
        patterns=tuple(_compiled(pattern) for pattern in one.get("regexes", ())),
        words=_any_of(words) if words else None,
    )


def _any_of(words: list[str]) -> Any:
    import re2

    return _compiled("(?i)" + "|".join(str(re2.escape(word)) for word in words))


def _compiled(pattern: str) -> Any:
    import re2

    return re2.compile(pattern.encode(), options())
