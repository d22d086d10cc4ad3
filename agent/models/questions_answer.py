"""Make an answer from what is on view: rows, the claims that carry them, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agent.answer_table import AnswerTable
from agent.models.claims import opinion
from agent.models.views import Facts, Quote, View, rows
from tools.facts_flat import subject_of, text_of

Claim = dict[str, Any]
MOST_CLAIMS: Final = 80
_TOLD_PARTS: Final = frozenset({"engines", "services", "engines.flags", "engines.environ"})
NOT_REACHED: Final = "not reached"


@dataclass(frozen=True, slots=True)
class Look:
    """Hold what is on view of one host; ``error`` says why there is nothing."""

    host: str
    view: View = field(default_factory=dict)
    error: str = ""

    @property
    def left_out(self) -> list[str]:
        """Return which parts of the facts were cut to the size of a view, so that there may be more."""
        cut = self.view.get("cut")
        parts = cut if isinstance(cut, dict) else {}
        return [f"{name} {text}" for name, text in parts.items() if name in _TOLD_PARTS]

    @property
    def engines(self) -> list[Facts]:
        """Return the engines of the host."""
        return [Facts(self.view, engine) for engine in rows(self.view, "engines")]


@dataclass(slots=True)
class Answer:
    """Collect an answer; a host of which nothing is known has a row like the others."""

    head: list[str]
    said: list[str] = field(default_factory=list)
    """Sentences, the answer itself first."""
    cells: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Of every row the host and what stands beside it."""
    claims: list[Claim] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Hosts, or parts of them, that the answer does not cover."""
    known: bool = False
    """What was asked is settled by what was read."""
    next_step: str = ""
    outcome: str = ""
    """How it ends where that is neither ``answered`` nor ``not_known``."""

    def row(self, host: str, *cells: str) -> None:
        """Add a row."""
        self.cells.append((host, tuple(cells)))

    def missing(self, looks: Sequence[Look]) -> None:
        """Add a row for each host that could not be read, and say that the answer leaves it out."""
        for look in looks:
            if look.error:
                width = len(self.head) - 1
                self.row(look.host, NOT_REACHED, *["-"] * (width - 1))
                self.unknown.append(f"{look.host} (not reached)")
                self.claims.append(opinion(f"Nothing is known of {look.host}: {short(look.error)}"))
            elif left := look.left_out:
                self.unknown.append(f"{look.host} (its facts are cut: {', '.join(left)})")

    def shown(self) -> str:
        """Return the table as text."""
        return AnswerTable(head=self.head, rows=folded(self.cells)).text().rstrip()

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``conclude``."""
        kept = [claim for claim in self.claims if claim.get("type") != "opinion"][:MOST_CLAIMS]
        others = [claim for claim in self.claims if claim.get("type") == "opinion"][:MOST_CLAIMS]
        known = self.known and bool(kept)
        left = f" Not known of: {', '.join(dict.fromkeys(self.unknown))}." if self.unknown else ""
        table = {"head": self.head, "rows": folded(self.cells)} if self.cells else None
        return {
            "outcome": self.outcome or ("answered" if known else "not_known"),
            "summary": " ".join(self.said) + left,
            "claims": kept + others,
            "next_step": self.next_step or ("" if known else LOOK_ELSEWHERE),
            "table": table,
        }


LOOK_ELSEWHERE: Final = "Ask who runs these hosts; nothing that can be read from here says so."


def folded(cells: Sequence[tuple[str, tuple[str, ...]]]) -> list[list[str]]:
    """Return table rows in which hosts with the same cells stand together, in the order they came."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, rest in cells:
        if host not in groups.setdefault(rest, []):
            groups[rest].append(host)
    return [[", ".join(hosts), *rest] for rest, hosts in list(groups.items())[:200]]


def short(text: str, most: int = 200) -> str:
    """Return one line of at most so many characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def quoted(says: str, quote: Quote) -> Claim:
    """Claim that a text stands in what was read."""
    return {"type": "log_event", "says": says, "cite": quote.cite()}


def set_to(says: str, name: str, value: str, layer: str, quote: Quote) -> Claim:
    """Claim the value of a setting in one layer."""
    cite = quote.cite()
    return {"type": "setting", "says": says, "name": name, "value": value, "layer": layer, "cite": cite}


def named(facts: Facts) -> str:
    """Return what an engine is called on its host."""
    return subject_of(facts.engine)


def placed(facts: Facts) -> str:
    """Return what an engine is called, and that it is in a container where it is."""
    return f"{named(facts)} (in a container)" if facts.in_container else named(facts)


def value_of(facts: Facts, name: str) -> str | None:
    """Return what the launch line gives a setting; None where it does not name it."""
    value = facts.flags.get(name)
    return None if value is None else text_of(value)


def launch_claim(facts: Facts) -> Iterator[Claim]:
    """Claim the whole launch line, which shows what it sets and what it does not."""
    handle, argv = facts.artifact(f"cmdline:{facts.pid}"), facts.engine.get("argv")
    if handle and isinstance(argv, list):
        text = " ".join(str(word) for word in argv)
        says = f"This is the whole launch line of {named(facts)} on {facts.host}."
        yield quoted(says, Quote(handle, text))


def flag_claim(facts: Facts, name: str) -> Iterator[Claim]:
    """Claim what the launch line gives a setting, or the whole line where it does not name it."""
    quote, value = facts.flag_quote(name), value_of(facts, name)
    if quote is None or value is None:
        yield from launch_claim(facts)
        return
    says = f"{named(facts)} on {facts.host} was launched with {quote.text}."
    yield set_to(says, name, value, "requested", quote)


def version_claim(facts: Facts, name: str, version: str) -> Iterator[Claim]:
    """Claim the version of an installed package by its metadata."""
    handle = facts.artifact(f"package:{facts.pid}")
    if handle:
        says = f"On {facts.host} the package behind {named(facts)} is {name} {version}."
        yield quoted(says, Quote(handle, f"dist={name}-{version}"))


def effective_rows(states: Mapping[str, View], host: str) -> dict[str, View]:
    """Return what the engines of a host said of themselves, by engine."""
    return {str(row.get("engine")): row for row in rows(states.get(host, {}), "engines")}


def effective(row: View, name: str) -> tuple[str | None, Quote | None]:
    """Return a setting in force as a server tells it, and where that stands."""
    told = row.get("effective")
    value = told.get(name) if isinstance(told, dict) else None
    if value is None:
        return None, None
    return str(value), Quote(str(row.get("artifact")), f"{name}: {value}")
