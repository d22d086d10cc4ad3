"""Answer what changed since a moment, and why one host may be slower than another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.models.claims import opinion
from agent.models.questions_answer import (
    Answer,
    Look,
    effective_rows,
    flag_claim,
    launch_claim,
    named,
    quoted,
    set_to,
    short,
    version_claim,
)
from agent.models.questions_gpus import card_claims
from agent.models.questions_query import Query
from agent.models.views import Quote, View, rows
from prompts.questions import known
from tools.facts_flat import flatten, text_of
from tools.history_diff import differences

_TOLD = ("file", "package", "journal", "dpkg")
_MOST_ROWS = 40


def changes(query: Query, looks: Sequence[Look], pasts: Mapping[str, View]) -> Answer:
    """Say what changed between the look before a moment and now, or what the host itself tells."""
    answer = Answer(["HOST", "WHAT", "BEFORE", "NOW", "BETWEEN"])
    for look in looks:
        past = pasts.get(look.host) or {"error": look.error or "its history was not told"}
        if past.get("error"):
            answer.unknown.append(f"{look.host} ({short(str(past['error']))})")
            answer.row(look.host, "not reached" if look.error else "not told", "-", "-", "-")
        else:
            if "changes" in past:
                _compared(answer, look.host, past)
            if "known_since" in past:
                _only_told(answer, look.host, past)
        if past.get("damaged"):
            answer.said.append(f"A part of the history of {look.host} is damaged and was left out.")
    return answer


def _compared(answer: Answer, host: str, past: View) -> None:
    before, after = past.get("before") or {}, past.get("after") or {}
    answer.known = answer.known or bool(past.get("changed")) or not past.get("known_since")
    start, end = before.get("last_seen"), after.get("at")
    found = rows(past, "changes")
    for row in found[:_MOST_ROWS]:
        name, old, new = str(row.get("name")), row.get("before"), row.get("after")
        between = " and ".join(row.get("between") or []) or f"{start} and {end}"
        was = "was not there" if old is None else str(old)
        answer.row(host, name, was, "no longer there" if new is None else str(new), between)
        for value, side, word in ((old, before, "was"), (new, after, "is")):
            if value is not None:
                says = f"{name} on {host} {word} {value} ({side.get('first_seen') or end})."
                answer.claims.append(quoted(says, Quote(str(side.get("artifact")), f"{name} = {value}")))
    gone = [str(one) for one in past.get("no_longer_runs") or []]
    for unit in gone:
        answer.row(host, f"{unit} engine", "ran", "does not run", f"{start} and {end}")
    count = f"{past.get('changed')} facts differ between {before.get('first_seen')} and {end}"
    answer.claims.append(quoted(f"On {host}, {count}.", Quote(str(past.get("summary_artifact")), count)))
    if not found and not gone:
        answer.row(host, "nothing", "-", "-", f"{before.get('first_seen')} and {end}")
    what = f"{past.get('changed')} facts changed" if found or gone else "nothing that is kept changed"
    answer.said.append(f"{host}: {what} between the looks of {before.get('first_seen')} and {end}.")
    if back := [str(one) for one in past.get("changed_and_back") or []]:
        answer.said.append(f"Changed and back again: {', '.join(back[:6])}.")
    if past.get("unreachable"):
        answer.unknown.append(f"{host} now: {short(str(past['unreachable']))}")


def _only_told(answer: Answer, host: str, past: View) -> None:
    """Say what the host itself tells, where no earlier look is there to compare with."""
    told = past.get("host_tells") or {}
    handle = str(told.get("artifact") or "")
    answer.said.append(f"{host} is known since {past.get('known_since')}.")
    count = 0
    for kind in _TOLD:
        for line in (told.get(kind) or [])[:_MOST_ROWS]:
            count += 1
            stamp, what = _split(kind, str(line))
            answer.row(host, what, "not known", "-", stamp)
            answer.claims.append(quoted(f"{host} itself tells: {short(str(line))}", Quote(handle, str(line))))
    since = ", ".join(f"{unit} runs since {at}" for unit, at in (past.get("running_since") or {}).items())
    newest = str(told.get("newest_file") or "")
    if newest and handle:
        answer.claims.append(quoted(f"The newest unit file of {host}: {newest}", Quote(handle, newest)))
    if count:
        answer.known = True
        answer.said.append(f"The host itself tells of {count} things since {past.get('since')}.")
    else:
        if "changes" not in past:
            answer.row(host, "nothing that is known", "-", "-", f"since {past.get('since')}")
        answer.unknown.append(f"{host} before now")
        answer.next_step = f"Keep looks from now on: leadline facts {host} --watch"
        answer.said.append(f"Nothing that can be read there is of after {past.get('since')}; {since}.")
    if hidden := [str(one) for one in told.get("not_permitted") or []]:
        answer.unknown.append(f"{host} ({', '.join(hidden[:4])}: may not be read)")


def _split(kind: str, line: str) -> tuple[str, str]:
    """Return the time and the rest of a line that the host tells."""
    words = line.split(" ")
    if kind in ("file", "package"):
        return " ".join([words[0], words[1].partition(".")[0]]), f"{kind} {' '.join(words[3:])}"
    if kind == "dpkg":
        return " ".join(words[:2]), f"package log: {' '.join(words[2:])}"
    # What a unit calls itself is left to the quote: it is text that anyone may have written.
    return words[0], short(f"journal: {' '.join(words[2:]).partition(' - ')[0]}", 90)


def compare(query: Query, looks: Sequence[Look], states: Mapping[str, View]) -> Answer:
    """Say in what two hosts differ that is known to bear on a phase, the strongest first."""
    first, second = query.hosts
    answer = Answer(["WHAT", first, second, "WHY IT MAY MATTER"])
    by_name = {look.host: look for look in looks}
    answer.missing([by_name[host] for host in query.hosts if host in by_name and by_name[host].error])
    pair = [by_name[host] for host in query.hosts if host in by_name and not by_name[host].error]
    if len(pair) < 2:
        answer.head, answer.cells = (
            ["HOST", "STATE"],
            [(host, ("not reached",)) for host in query.hosts if host not in {look.host for look in pair}],
        )
        answer.said.append(f"{first} and {second} cannot be compared: one of them was not reached.")
        return answer
    found = {one.name: one for one in differences({look.host: _flat(look, states) for look in pair})}
    bears = known().bears_on[query.phase] if query.phase else []
    ranked = [(found[one.name], one.why) for one in bears if one.name in found]
    others = [one for name, one in found.items() if _tells(name) and not any(one is hit for hit, _ in ranked)]
    for one, why in [*ranked, *((other, "not known to" if query.phase else "-") for other in others)][
        :_MOST_ROWS
    ]:
        values = {host: value for value, hosts in one.values for host in hosts}
        cells = [str(values.get(host) if values.get(host) is not None else "not set") for host in query.hosts]
        answer.cells.append((one.name, (*cells, why)))
    for look in pair:
        answer.claims += _claims_of(
            look, states, [one.name for one, _ in ranked] + [one.name for one in others]
        )
    _sum_up(answer, query, [one.name for one, _ in ranked])
    return answer


def _tells(name: str) -> bool:
    return name.partition(" ")[0] in (
        "flag",
        "effective",
        "env",
        "version",
        "driver",
        "package",
        "engine",
        "clocks",
    )


def _flat(look: Look, states: Mapping[str, View]) -> dict[str, str]:
    """Return the facts of a host with what its engines say, and what its GPUs do now."""
    flat = flatten(look.view)
    for unit, row in effective_rows(states, look.host).items():
        told = row.get("effective")
        flat |= {f"{unit} effective {n}": str(v) for n, v in (told if isinstance(told, dict) else {}).items()}
    cards = rows(look.view.get("hardware") or {}, "gpus")
    for name, key in (("power limit", "power_limit_w"), ("clocks", "sm_clock_mhz"), ("load", "utilization")):
        values = [float(row[key]) for row in cards if isinstance(row.get(key), int | float)]
        if values:
            mean = sum(values) / len(values)
            flat[name] = text_of(round(mean / 50) * 50 if name == "clocks" else round(mean / 5) * 5)
    flat = {name: value for name, value in flat.items() if not name.startswith("gpu ")}
    kinds = ", ".join(dict.fromkeys(str(row.get("name")) for row in cards))
    return flat | {"gpu": f"{len(cards)} x {kinds}"} if cards else flat


def _claims_of(look: Look, states: Mapping[str, View], names: Sequence[str]) -> list[dict[str, Any]]:
    claims: list[dict[str, Any]] = []
    told = effective_rows(states, look.host)
    for facts in look.engines:
        row = told.get(named(facts), {})
        for name in names[:_MOST_ROWS]:
            kind, _, rest = name.partition(" ")
            if kind == "flag":
                claims += flag_claim(facts, rest)
            values = row.get("effective") if kind == "effective" else None
            if isinstance(values, dict) and rest in values:
                quote = Quote(str(row.get("artifact")), f"{rest}: {values[rest]}")
                says = f"{named(facts)} on {look.host} says that {rest} = {values[rest]} is in force."
                claims.append(set_to(says, rest, str(values[rest]), "effective", quote))
            if kind == "version":
                engine, version = str(facts.engine.get("engine")), str(facts.engine.get("version"))
                claims += version_claim(facts, engine, version)
    if any(name.split(" ")[0] in ("gpu", "clocks", "power", "load") for name in names):
        claims += card_claims(look, rows(look.view.get("hardware") or {}, "gpus"))
    return claims or [claim for facts in look.engines for claim in launch_claim(facts)]


def _sum_up(answer: Answer, query: Query, ranked: Sequence[str]) -> None:
    first, second = query.hosts
    phase = query.phase or "speed"
    measure = (
        f"The same {'long prompt' if phase == 'prefill' else 'requests'} on both, one at a time, would tell: "
        f"`benchmark` on {first} and {second}, with --allow-load."
    )
    unique = list(dict.fromkeys(ranked))
    if not query.phase:
        names = [name for name, _ in answer.cells]
        told = f": {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""
        answer.said.append(f"{len(names)} facts differ between {first} and {second}{told}.")
        if query.wants == "why":
            answer.said.append("Which of them matters is not known: neither prefill nor decode was named.")
        answer.known = True
        return
    if unique:
        answer.said.append(
            f"Known to bear on {phase} and different between {first} and {second}, the strongest first: "
            f"{', '.join(unique)}. How much each of them costs here was not measured."
        )
        answer.known = True
    else:
        answer.said.append(
            f"Nothing that was read differs between {first} and {second} in what is known to bear on {phase}."
        )
    answer.next_step = measure
    answer.claims.append(opinion(f"No {phase} was measured: the facts hold no figure of it."))
