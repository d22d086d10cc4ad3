"""Claims of a conclusion, made from what the views show; each carries the quote that proves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

import re2

from agent.models.explain import as_text, deciding, writes
from agent.models.views import Facts, Quote, View, find_quote, matches, rows

Claim = dict[str, Any]
_LITERAL = re2.compile(r"""None|True|False|-?[0-9.]+|"[^"]*"|'[^']*'""")


def requested(facts: Facts, name: str) -> Iterator[Claim]:
    """Claim what the command line of the running process asks for."""
    quote = facts.flag_quote(name)
    if quote is not None:
        value = as_text(facts.flags[name])
        says = f"The running process (pid {facts.pid}) was launched with {quote.text}."
        yield _setting(says, name, value, "requested", quote)


def effective(server_info: Sequence[View], name: str) -> Iterator[Claim]:
    """Claim what the scheduler's own copy of the arguments holds."""
    quote = reported(server_info, name)
    if quote is not None:
        value = quote.text.partition(":")[2].strip().strip('"}]')
        yield _setting(f"The server itself reports {name} = {value}.", name, value, "effective", quote)


def reported(server_info: Sequence[View], name: str) -> Quote | None:
    """Quote the pair of a name and its value from what the server reports, without what stands around it."""
    pattern = rf'"{name}": ?[^,\]}}]+'
    quote = find_quote(server_info, pattern)
    return quote and Quote(quote.artifact, re2.search(pattern, quote.text).group(0).strip(), quote.lines)


def default(greps: Sequence[View], name: str) -> Iterator[Claim]:
    """Claim the default that the installed source defines."""
    for view in greps:
        for result, match in matches(view):
            text = str(match.get("text", "")).strip()
            if match.get("kind") != "definition" or not text.startswith(f"{name}:") or "=" not in text:
                continue
            value = text.rpartition("=")[2].strip()
            if not _LITERAL.fullmatch(value):
                continue  # it goes on in the next line, or is computed
            value = value.strip("\"'")
            says = f"In the installed version {name} is {value} unless something sets it."
            quote = Quote(str(result.get("artifact")), text, _lines(match))
            yield _setting(says, name, value, "default", quote)
            return


def _setting(says: str, name: str, value: str, layer: str, quote: Quote) -> Claim:
    return {
        "type": "setting",
        "says": says,
        "name": name,
        "value": value,
        "layer": layer,
        "cite": quote.cite(),
    }


def guards(
    facts: Facts, name: str, greps: Sequence[View], server_info: Sequence[View], verdicts: Set[str]
) -> Iterator[Claim]:
    """Claim, for the assignments of a setting, whether each runs in this process and what decides that."""
    for result, match in writes(name, greps):
        guard = deciding_guard(match)
        unfit = guard is None or guard.get("unproven") or match.get("restores")
        if unfit or guard is None or match.get("verdict") not in verdicts:
            continue
        place = f"{str(result.get('path', '')).rpartition('/')[2]}:{match.get('line')}"
        verb = {"true": "runs here", "false": "does not run here"}.get(
            str(match.get("verdict")), "may run here"
        )
        says = f"The assignment of {name} at {place} {verb}: {guard.get('because', '')}."
        yield guard_claim(says, result, match, guard, facts, server_info)


def guard_claim(
    says: str, result: View, match: View, guard: View, facts: Facts, server_info: Sequence[View]
) -> Claim:
    """Build a guard claim: the statement, the condition that decides it, and the facts that decide that."""
    artifact = str(result.get("artifact"))
    return {
        "type": "guard",
        "says": says,
        "statement": Quote(artifact, str(match.get("text", "")).strip(), _lines(match)).cite(),
        "condition": Quote(artifact, str(guard.get("source", "")).strip()).cite()
        | {"lines": _guard_lines(guard)},
        "verdict": str(guard.get("verdict")),
        "facts": list(_guard_facts(guard, artifact, facts, server_info)),
    }


def deciding_guard(match: View) -> View | None:
    """Return the guard that decides whether a statement runs, one with known facts where there is one."""
    found = rows(match, "guards")
    verdict = match.get("verdict")
    same = [guard for guard in found if guard.get("verdict") == verdict]
    same = [guard for guard in same if not guard.get("unproven")] or same
    with_facts = [guard for guard in same if guard.get("decided_by")]
    best = with_facts or same
    return best[0 if verdict == "false" else -1] if best else None


def _guard_facts(guard: View, artifact: str, facts: Facts, server_info: Sequence[View]) -> Iterator[Claim]:
    named: set[str] = set()
    for fact in deciding({"guards": [guard]}):
        name = str(fact.get("name"))
        quote = None if name in named else _fact_quote(name, fact, artifact, facts, server_info)
        if quote is not None:
            named.add(name)
            yield {"name": name, "value": as_text(fact.get("value")), "cite": quote.cite()}


def _fact_quote(
    name: str, fact: View, artifact: str, facts: Facts, server_info: Sequence[View]
) -> Quote | None:
    if fact.get("origin") == "flag":
        return facts.flag_quote(name)
    if fact.get("origin") == "effective" and (quote := reported(server_info, name)):
        return quote
    if fact.get("text"):
        return Quote(str(fact.get("artifact") or artifact), str(fact["text"]).strip(), _lines(fact))
    return None


def _lines(row: View) -> tuple[int, int] | None:
    line = row.get("line")
    return (line, int(row.get("last_line") or line)) if isinstance(line, int) else None


def _guard_lines(guard: View) -> list[int] | None:
    place = _lines(guard)
    height = len(str(guard.get("source", "")).strip().splitlines())
    return [place[0], max(place[1], place[0] + max(height, 1) - 1)] if place else None


def observed(says: str, quote: Quote) -> Claim:
    """Claim that a line stands in a log or in command output."""
    return {"type": "log_event", "says": says, "cite": quote.cite()}


def absence(says: str, view: View) -> Iterator[Claim]:
    """Claim that a search found nothing, when it was complete and did find nothing."""
    call = str(view.get("artifact") or "").partition(".")[0]
    if view.get("complete") is True and view.get("matches") == 0 and call:
        named = {key: str(view.get(key) or "") for key in ("pattern", "scope")}
        yield {"type": "absence", "says": says, "call": call, **named}


def seen(says: str, name: str, value: str, quote: Quote) -> Claim:
    """Claim a value that the running server shows."""
    return _setting(says, name, value, "observed", quote)


def measurements(load: Sequence[View], slots: int) -> Iterator[Claim]:
    """Claim throughput and power at each measured concurrency, and how throughput grows with it."""
    for view in load:
        runs = {int(run.get("concurrency", 0)): run for run in rows(view, "runs")}
        for concurrency, run in sorted(runs.items()):
            yield from _measured(view, run, concurrency)
        if {1, slots} <= set(runs):
            yield from _growth(view, runs[1], runs[slots], slots)
        return


def _measured(view: View, run: View, concurrency: int) -> Iterator[Claim]:
    for key, unit, owner in (
        ("output_throughput", "tok/s", run),
        ("power_w_mean", "W", run.get("gpu") or {}),
    ):
        value = owner.get(key)
        if isinstance(value, int | float):
            what = "Output throughput" if key == "output_throughput" else "Mean power of a GPU"
            says = f"{what} at concurrency {concurrency} is {value:.4g} {unit}."
            number = _number(view, key, value)
            yield _measurement(says, float(value), unit, "a", {"a": number})


def _growth(view: View, one: View, many: View, slots: int) -> Iterator[Claim]:
    low, high = one.get("output_throughput"), many.get("output_throughput")
    if isinstance(low, int | float) and isinstance(high, int | float) and low > 0:
        says = f"From concurrency 1 to {slots} the throughput grows {high / low:.3g} x, of {slots} x."
        numbers = {
            "a": _number(view, "output_throughput", high),
            "b": _number(view, "output_throughput", low),
        }
        yield _measurement(says, high / low, "x", "a / b", numbers)


def _number(view: View, key: str, value: float) -> dict[str, Any]:
    cite = Quote(str(view.get("artifact")), f'"{key}": {value}').cite()
    return {"cite": cite, "pattern": rf'"{key}": ([0-9.]+)'}


def _measurement(says: str, value: float, unit: str, expression: str, numbers: dict[str, Any]) -> Claim:
    return {
        "type": "measurement",
        "says": says,
        "value": value,
        "unit": unit,
        "expression": expression,
        "numbers": numbers,
    }


def duty(server_info: Sequence[View]) -> Iterator[Claim]:
    """Claim the largest share of time that a stage can work at one request."""
    quote = find_quote(server_info, r'"pp_size": ?\d+')
    if quote is not None:
        size = int(quote.text.rpartition(":")[2])
        says = f"At one request a stage works at most 1/{size} of the time."
        number = {"cite": quote.cite(), "pattern": r'"pp_size": ?(\d+)'}
        yield _measurement(says, 1 / size, "of the time", "1 / a", {"a": number})


def opinion(says: str) -> Claim:
    """State what no evidence covers, to be shown as opinion."""
    return {"type": "opinion", "says": says}
