"""Understand a question about hosts, as far as the built-in model can: its kind, and what it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from agent.models.questions_cover import left_over, may_be_told
from agent.models.questions_query import Query, Seen
from agent.models.questions_read import READERS
from agent.models.questions_terms import ENGINES, FLAG, MACHINE, OPS, VARIABLE, moment, setting_names
from agent.models.questions_words import mended
from agent.questions import without_greeting

_NOT: Final = r"(?:do|does|is|are|has|have)(?:n['’]?t| not)|don't|not|no|without"
_MAY_BE_DENIED: Final = frozenset({"versions", "engines", "dropins", "variable", "gpus"})
_RUNS_IT: Final = re.compile(
    r"who (?=(?:still )?(?:runs?|uses|serves|has|have|sets)\b)|who(?:['’]?s| is) (?=running|serving"
    r"|(?:still )?on\b)|who(?= on\b)"
)
_MEASURE: Final = r"\b(?:slow|fast)\w*"
_RANGE: Final = re.compile(r"(?<![\w-])([a-z][a-z_.-]*)\[?(\d+)\s?(?:-|\.\.|–)\s?(\d+)\]?(?![\w.-])")


def parse(question: str, hosts: Sequence[str], now: datetime, seen: Seen | None = None) -> Query:
    """Return what a question asks for; kind ``unknown`` where too little of it is understood.

    Of a question that is understood in part ``unread`` holds the words that are not.
    """
    seen = seen or Seen()
    text = " ".join(without_greeting(question)[0].split())
    text, read = mended(text, [*hosts, *seen.words])
    text = _RUNS_IT.sub("which hosts ", text) if not setting_names(text) else text
    text = _ranges(text, hosts)
    low = text.lower()
    known = replace(about(text, hosts), read=tuple(read.items()))
    if known.strangers and not known.named:
        return replace(known, unread=known.strangers)
    named = known.hosts if known.named else ()
    found = _best(text, low, known, named, now, seen)
    found = replace(found, hosts=tuple(hosts)) if found.focus else found
    if not found.unread or found.kind == "unknown":
        return found
    return _in_part(found) if may_be_told(found.unread) else replace(known, unread=found.unread)


def about(text: str, hosts: Sequence[str]) -> Query:
    """Return the hosts that a text is about, and those that it names in vain; its kind is left open."""
    low = _ranges(text, hosts).lower()
    named = tuple(host for host in hosts if names(low, host))
    return Query("unknown", named or tuple(hosts), named=bool(named), strangers=_strangers(low, hosts))


def _best(text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen) -> Query:
    """Return the reading that leaves the fewest words over, the first of those that leave the same."""
    spoken = [*(host.lower() for host in named), *about.strangers]
    readings: list[Query] = []
    for reader in READERS:
        query = reader(text, low, about, named, now, seen)
        if query is None:
            continue
        denial = re.search(rf"(?<![\w-])(?:{_NOT})(?![\w-])", low) if query.kind in _MAY_BE_DENIED else None
        query = replace(query, denied=denial is not None)
        pieces = [*spoken, *used(text, low, query, now), *([denial[0]] if denial else [])]
        # Who did something is answered by "not known" whatever else is asked: no half of that can be wrong.
        unread = () if query.kind == "who" else left_over(low, query.kind, pieces)
        if not unread and not about.strangers:
            return query
        readings.append(replace(query, unread=(*unread, *about.strangers)))
    return min(readings, key=lambda one: len(one.unread), default=about)


def _in_part(query: Query) -> Query:
    """Return a query that tells what is read, and says neither yes nor no to what it does not understand."""
    return replace(
        query, denied=False, op=None, version="", wants="why" if query.wants == "why" else "", every=False
    )


def used(text: str, low: str, query: Query, now: datetime) -> list[str]:
    """Return the pieces of a question that its reading took something from."""
    patterns = []
    if query.package:
        pattern = dict(MACHINE).get(query.package, rf"{query.package}\w*")
        patterns.append(rf"\b(?:{pattern})s?\b")
    if query.engine:
        patterns += [rf"{words}(?:['’]s)?" for name, words in ENGINES if name == query.engine]
    if query.op:
        patterns.append(re.escape(query.version.lower()))
        patterns += [rf"(?<!\w){words}(?!\w)" for op, words in OPS if op == query.op]
    if query.kind == "versions" and query.wants in ("oldest", "newest"):
        patterns.append(rf"\b{query.wants}\b")
    if query.feature is not None:
        patterns.append(rf"\b(?:{query.feature.words})\b")
        patterns += [r"\bwhy\b"] if query.because else []
    if query.kind == "compare":
        patterns += [rf"\b{query.phase}\w*"] if query.phase else []
        # Why is answered by what differs; whether it is so would have to be measured.
        patterns += [_MEASURE] if query.wants == "why" else []
    found = [hit[0] for hit in (re.search(one, low) for one in patterns) if hit]
    found += list(query.taken)
    if query.kind in ("setting", "variable"):
        name = VARIABLE if query.kind == "variable" else FLAG
        found += [hit[0].lower() for hit in name.finditer(text)]
    return [*found, moment(low, now)[1]] if query.kind == "changes" else found


def names(low: str, host: str) -> bool:
    """Tell whether a text in small letters names a host."""
    return re.search(rf"(?<![\w.-]){re.escape(host.lower())}(?![\w-]|\.\w)", low) is not None


def _ranges(text: str, hosts: Sequence[str]) -> str:
    """Return a text in which ``gpu1-3`` names each host, where these are hosts."""

    def one(hit: re.Match[str]) -> str:
        first, last = int(hit[2]), int(hit[3])
        found = [f"{hit[1]}{number}" for number in range(first, min(last, first + 64) + 1)]
        return " ".join(found) if found and all(name in hosts for name in found) else hit[0]

    return _RANGE.sub(one, text)


def _strangers(low: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return words that are named as the hosts are, and are none of them."""
    stems = {re.sub(r"\d+$", "", host.lower()) for host in hosts if re.search(r"[a-z]-?\d+$", host.lower())}
    known_hosts = {host.lower() for host in hosts}
    found = re.findall(r"(?<![\w./-])([a-z][\w-]*?\d+)(?![\w-]|\.\w)", low)
    return tuple(
        dict.fromkeys(one for one in found if one not in known_hosts and re.sub(r"\d+$", "", one) in stems)
    )
