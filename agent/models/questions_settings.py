"""Answer what is set and what is in force: one setting, a feature, health, and where hosts differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.models.questions_answer import (
    Answer,
    Look,
    effective,
    effective_rows,
    flag_claim,
    named,
    quoted,
    set_to,
    value_of,
)
from agent.models.questions_query import Query
from agent.models.views import Facts, Quote, View, rows
from tools.facts_flat import flatten
from tools.history_diff import differences, kind_of

_FROM_SOURCE = "`leadline settings HOST {name}` works out from the installed source what is in force."
_MOST_DIFFERENCES = 40
_TOLD = frozenset({"flag", "env", "version", "engine", "driver", "package", "gpus", "kernel", "os"})


def feature(query: Query, looks: Sequence[Look], states: Mapping[str, View]) -> Answer:
    """Say where a feature is off, by what a server says is in force, else by its launch line."""
    assert query.feature is not None
    answer = Answer(["HOST", "UNIT", query.feature.name.upper(), "BECAUSE"])
    found: dict[str, list[str]] = {"off": [], "on": []}
    for look in looks:
        told = effective_rows(states, look.host)
        for facts in look.engines:
            state, because, claims = _state(facts, told.get(named(facts), {}), query)
            answer.row(look.host, named(facts), state, because)
            answer.claims += claims
            found.get(state, answer.unknown).append(f"{look.host} ({because})")
        if not look.error and not look.engines:
            answer.row(look.host, "no engine is seen", "-", "-")
    answer.missing(looks)
    _say_of_feature(answer, query, found)
    other = {"off": "on", "on": "off"}.get(query.wants, "")
    hits = [*found["off"], *found["on"]] if not query.wants else found[query.wants]
    answer.known = bool(found[other] if query.every and other else hits) or not answer.unknown
    if not answer.known:
        settings = next(iter(query.feature.switched_off.values()))
        answer.next_step = _FROM_SOURCE.format(name=next(iter(settings)))
    return answer


def _say_of_feature(answer: Answer, query: Query, found: Mapping[str, list[str]]) -> None:
    """Say yes or no to what was asked, or where the feature is on and off."""
    assert query.feature is not None
    name, wants = query.feature.name, query.wants
    other = "on" if wants == "off" else "off"
    if not wants:
        told = [f"{state} on {'; '.join(found[state])}" for state in ("off", "on") if found[state]]
        answer.said.append(
            f"{name} is {', '.join(told)}." if told else f"Nothing tells whether {name} is on."
        )
        if query.because:
            answer.said.append("That is what makes it so; who decided it, and why, stands on no host.")
    elif query.every and found[other]:
        answer.said.append(f"No: {name} is {other} on {'; '.join(found[other])}.")
    elif query.every and answer.unknown:
        answer.said.append(f"{name} is seen {other} nowhere, but not everything could be read.")
    elif found[wants]:
        answer.said.append(f"Yes: {name} is {wants} on {'; '.join(found[wants])}.")
    elif answer.unknown:
        answer.said.append(f"{name} is seen {wants} nowhere, but not everything could be read.")
    elif query.named:
        answer.said.append(f"No: {name} is {other} on {'; '.join(found[other])}.")
    else:
        answer.said.append(f"No: on no host that was read is {name} {wants}.")


def _state(facts: Facts, told: View, query: Query) -> tuple[str, str, list[dict[str, object]]]:
    """Return whether a feature is on, off or not known, why, and what shows it."""
    assert query.feature is not None
    names = query.feature.switched_off.get(str(facts.engine.get("engine")))
    if names is None:
        return "not known", f"no setting of {facts.engine.get('engine')} is known for it", []
    for name, off in names.items():
        value, quote = effective(told, name)
        if value is not None and quote is not None:
            says = f"{named(facts)} on {facts.host} says that {name} = {value} is in force."
            state = "off" if value.lower() == off else "on"
            return state, f"{name} = {value}, in force", [set_to(says, name, value, "effective", quote)]
        asked = value_of(facts, name)
        if asked is not None:
            state = "off" if asked.lower() == off else "on"
            return state, f"{name} = {asked}, by the launch line", list(flag_claim(facts, name))
    name = next(iter(names))
    because = f"{name} is not on the launch line, and the server does not tell what is in force"
    return "not known", because, list(flag_claim(facts, name))


def setting(query: Query, looks: Sequence[Look], states: Mapping[str, View]) -> Answer:
    """Say what launch lines give settings, and what servers say is in force."""
    answer = Answer(["HOST", "UNIT", "SETTING", "LAUNCH LINE", "IN FORCE"])
    values: dict[str, dict[str, list[str]]] = {}
    for look in looks:
        told = effective_rows(states, look.host)
        for facts in look.engines:
            for name in _of_engine(query, facts, told.get(named(facts), {})):
                asked = value_of(facts, name)
                value, quote = effective(told.get(named(facts), {}), name)
                answer.row(look.host, named(facts), name, asked or "not set", value or "not told")
                answer.claims += flag_claim(facts, name)
                if value is not None and quote is not None:
                    says = f"{named(facts)} on {look.host} says that {name} = {value} is in force."
                    answer.claims.append(set_to(says, name, value, "effective", quote))
                if value is None and asked is None:
                    answer.unknown.append(f"{look.host} ({name} is neither set nor told)")
                else:
                    seen = value if value is not None else asked
                    values.setdefault(name, {}).setdefault(str(seen), []).append(look.host)
    answer.missing(looks)
    for name in [one for one in query.names if not query.either or one in values] or query.names[:1]:
        groups = values.get(name, {})
        told_values = "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in groups.items())
        if query.wants == "differ":
            verb = "differs" if len(groups) > 1 else "is the same wherever it is known"
            answer.said.append(f"{name} {verb}: {told_values}." if groups else f"{name}: nothing tells it.")
        else:
            answer.said.append(
                f"{name}: {told_values}." if groups else f"{name}: nothing that was read tells it."
            )
    answer.known = bool(values) and (query.either or all(name in values for name in query.names))
    if answer.unknown or not answer.known:
        answer.next_step = _FROM_SOURCE.format(name=query.names[0])
    return answer


def _of_engine(query: Query, facts: Facts, told: View) -> Sequence[str]:
    """Return the names that the settings have in one engine, where several engines have a word each."""
    if not query.either:
        return query.names
    known = [
        one for one in query.names if value_of(facts, one) is not None or effective(told, one)[0] is not None
    ]
    return known or query.names[:1]


def who(query: Query, looks: Sequence[Look]) -> Answer:
    """Say that what is read of hosts holds what is set, and neither who set it nor why."""
    answer = Answer(["HOST", "UNIT", "SETTING", "LAUNCH LINE"])
    for look in looks:
        for facts in look.engines:
            for name in query.names:
                answer.row(look.host, named(facts), name, value_of(facts, name) or "not set")
                answer.claims += flag_claim(facts, name)
    answer.missing(looks)
    answer.said.append("I do not know: nothing that can be read from the hosts says who did that, or why.")
    answer.next_step = (
        "Ask who runs them; `history` tells between which looks a setting changed, and no more."
    )
    return answer


def health(query: Query, looks: Sequence[Look], states: Mapping[str, View]) -> Answer:
    """Say which hosts are reached, and what their engines answer when asked for their health."""
    answer = Answer(["HOST", "UNIT", "HEALTH"])
    bad: list[str] = []
    good: list[str] = []
    for look in looks:
        if look.error:
            bad.append(f"{look.host} is not reached")
            continue
        for row in effective_rows(states, look.host).values():
            said = str(row.get("health"))
            answer.row(look.host, str(row.get("engine")), said)
            says = f"{row.get('engine')} on {look.host} answered: {said}."
            answer.claims.append(quoted(says, Quote(str(row.get("artifact")), f"health: {said}")))
            (good if said == "ok" else bad).append(
                f"{row.get('engine')} on {look.host}" + ("" if said == "ok" else f": {said}")
            )
        for service in rows(look.view, "services"):
            if service.get("active") not in ("active", None):
                answer.row(look.host, str(service.get("unit")), str(service.get("active")))
                bad.append(f"{service.get('unit')} on {look.host} is {service.get('active')}")
        if not look.engines:
            answer.row(look.host, "no engine is seen", "-")
    answer.missing(looks)
    answer.said += [f"Not in order: {'; '.join(bad)}."] if bad else []
    every = "Every engine that was asked answers" if not bad else "These answer"
    answer.said.append(f"{every}: {'; '.join(good)}." if good else "No engine was asked that answers.")
    answer.known = bool(answer.claims)
    return answer


def differ(query: Query, looks: Sequence[Look]) -> Answer:
    """Say in what hosts differ, the same left out."""
    answer = Answer(["HOST", "WHAT", "VALUE"])
    flats = {look.host: flatten(look.view) for look in looks if not look.error}
    found = [one for one in differences(flats) if kind_of(one.name) in _TOLD] if len(flats) > 1 else []
    for one in found[:_MOST_DIFFERENCES]:
        for value, hosts in one.values:
            for host in hosts:
                answer.row(host, one.name, "not set" if value is None else value)
    for look in looks:
        for facts in look.engines:
            changed = [one.name for one in found if one.name.startswith("flag ")]
            for name in changed[:_MOST_DIFFERENCES]:
                answer.claims += flag_claim(facts, name.removeprefix("flag "))
    if not answer.claims:
        answer.claims = [c for look in looks for facts in look.engines for c in flag_claim(facts, "")]
    answer.missing(looks)
    count = len(found)
    answer.said.append(
        f"{count} facts differ between {', '.join(flats)}; what is the same is left out."
        if found
        else f"Nothing that was read differs between {', '.join(flats)}."
    )
    answer.known = len(flats) > 1
    return answer
