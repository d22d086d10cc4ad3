"""Answer who asks for an action: what speaks for it and against it by the facts, and how it would be done."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from agent.models.questions_answer import (
    Answer,
    Claim,
    Look,
    effective,
    effective_rows,
    flag_claim,
    folded,
    launch_claim,
    named,
    quoted,
    set_to,
    value_of,
    version_claim,
)
from agent.models.questions_gpus import IDLE_PERCENT, card_claims
from agent.models.questions_query import Query
from agent.models.questions_terms import bound_in, engine_in, feature_in, setting_names, version_key
from agent.models.views import Facts, Quote, View, rows
from agent.questions import Wish
from prompts.questions import Feature, known

Deed = Literal["restart", "stop", "start", "reboot", "drain", "upgrade", "roll back", "set", "clear", "scale"]
Side = Literal["for", "against", "-"]

_DEEDS: Final[tuple[tuple[Deed, str], ...]] = (
    ("restart", r"restart\w*|bounce\w*|power.?cycle|reload\w*|reset"),
    ("reboot", r"reboot\w*"),
    ("drain", r"(un)?drain\w*|cordon|evict|migrate"),
    ("stop", r"stop\w*|kill\w*|shut ?down"),
    ("start", r"start(ed)?"),
    ("upgrade", r"(up|down)grad\w*|updat\w*|bump|install|uninstall|patch|deploy"),
    ("roll back", r"roll(ed)? ?back|revert\w*|undo"),
    ("clear", r"clear|flush"),
    ("scale", r"scale"),
)
_HOW: Final[Mapping[Deed, str]] = {
    "restart": "A person restarts it there: `sudo systemctl restart {unit}` on {host}, once its traffic "
    "is elsewhere.",
    "reboot": "A person reboots it there, once its traffic is elsewhere.",
    "stop": "A person stops it there: `sudo systemctl stop {unit}` on {host}, once its traffic is elsewhere.",
    "start": "A person starts it there: `sudo systemctl start {unit}` on {host}.",
    "drain": "A router takes a server out of traffic; none is spoken to from here, so its operator does "
    "that.",
    "upgrade": "Leadline installs nothing: a person does, in the environment that runs there (`leadline "
    "facts {host}`).",
    "roll back": (
        "A change that Leadline kept is taken back with `leadline undo ID` (`leadline sessions list`); "
        "any other by who "
        'made it. What changed, `leadline ask {host} "what changed since yesterday?"` tells.'
    ),
    "set": "A person edits the unit (`sudo systemctl edit {unit}`) and restarts it.",
    "clear": "A person does that on the server; a restart empties its caches too.",
    "scale": "Who runs the fleet does that; Leadline starts and removes no servers.",
}
_TRIED: Final = (
    ' Leadline itself changes a setting only to mend a symptom: `leadline ask {host} "decode is slow" '
    "--mode propose` "
    "proposes, `--mode apply` tries what is approved, measured before and after, with the rollback armed."
)
_OFF_WORDS: Final = re.compile(
    r"disable\w*|turn(ed)? off|switch(ed)? off|unset|removed?|delete|drop", re.IGNORECASE
)
_TURNS: Final = re.compile(r"enable\w*|turn(ed)? on|switch(ed)? on|add", re.IGNORECASE)


@dataclass(slots=True)
class _Weighed:
    """Collect what speaks for and against something on one engine."""

    rows: list[tuple[str, Side]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def add(self, says: str, side: Side, *claims: Claim) -> None:
        self.rows.append((says, side))
        self.claims += claims


def deed_of(verb: str) -> Deed:
    """Return what a verb asks for; what is none of the others is a setting to be changed."""
    return next((deed for deed, words in _DEEDS if re.fullmatch(words, verb)), "set")


def wanted_settings(verb: str, text: str) -> tuple[tuple[str, ...], Feature | None]:
    """Return the settings that a wish is about, and the feature, where it names one."""
    low = text.lower()
    if names := setting_names(text):
        return names, None
    for one in known().spoken:
        if re.search(rf"(?<![\w-])(?:{one.words})(?![\w-])", low):
            return tuple(one.settings), None
    feature = feature_in(low) if deed_of(verb) == "set" else None
    found = [name for one in feature.switched_off.values() for name in one] if feature else []
    return tuple(dict.fromkeys(found)), feature


def weighed(
    asked: Wish, question: str, query: Query, looks: Sequence[Look], states: Mapping[str, View]
) -> Answer:
    """Say that an action is asked for, that none was taken, what the facts say of it, and how it is done."""
    manner, verb, _ = asked
    deed = deed_of(verb)
    answer = Answer(["HOST", "UNIT", "WHAT IS SO", "SPEAKS"])
    sides: dict[Side, list[tuple[str, tuple[str, ...]]]] = {"for": [], "against": [], "-": []}
    for look in looks:
        told = effective_rows(states, look.host)
        for facts in look.engines:
            found = _of_engine(deed, verb, question, look, facts, told.get(named(facts), {}))
            for says, side in found.rows:
                answer.row(look.host, named(facts), says, side)
                sides[side].append((look.host, (says,)))
            answer.claims += found.claims
        if not look.error and not look.engines:
            answer.row(look.host, "-", "no engine is seen to run", "-")
    answer.missing(looks)
    where = f" on {', '.join(query.hosts)}" if query.named else ""
    asks = "asks for" if manner == "do" else "asks how to take" if manner == "how" else "asks about"
    answer.said.append(f"This {asks} an action ({verb}{where}), and nothing was done.")
    for side, label in _SIDES:
        told_of = "; ".join(f"{says} ({hosts})" for hosts, says in folded(sides[side]))
        answer.said += [f"{label}: {told_of}."] if told_of else []
    answer.said.append(
        "Whether to, a person decides: traffic, and what other hosts can take over, is not read here."
    )
    if query.strangers:
        answer.said.append(f"{', '.join(query.strangers)} is none of the hosts that are looked at.")
    answer.next_step = _next_step(deed, looks)
    answer.known = bool(answer.claims) and manner != "do"
    answer.outcome = "needs_person" if manner == "do" else ""
    return answer


_SIDES: Final[tuple[tuple[Side, str], ...]] = (("for", "For it"), ("against", "Against it"), ("-", "Also so"))


def _next_step(deed: Deed, looks: Sequence[Look]) -> str:
    """Return how it is done; commands name the host and unit where there is one."""
    found = [(look.host, named(facts)) for look in looks for facts in look.engines]
    host, unit = found[0] if len(found) == 1 else ("HOST", "UNIT")
    tried = _TRIED if deed == "set" else ""
    return (_HOW[deed] + tried).format(host=host, unit=unit)


def _of_engine(deed: Deed, verb: str, question: str, look: Look, facts: Facts, told: View) -> _Weighed:
    found = _Weighed()
    if deed == "upgrade":
        _upgrade(found, question, facts)
    if deed in ("set", "clear"):
        _setting(found, verb, question, facts, told)
    if deed != "start":
        _cut_off(found, look)
    _state(found, deed, facts, told)
    if not found.claims:
        found.claims += launch_claim(facts)
    return found


def _upgrade(found: _Weighed, question: str, facts: Facts) -> None:
    """Compare the version that is asked for with the one that runs."""
    low = question.lower()
    wanted, engine = bound_in(question, low)[1], engine_in(low)
    kind, version = str(facts.engine.get("engine")), str(facts.engine.get("version") or "")
    claims = list(version_claim(facts, kind, version)) if version else []
    if engine and engine != kind:
        found.add(f"it runs {kind} {version}, not {engine}", "against", *claims)
    elif not version:
        found.add(f"the version of {kind} is not told", "-")
    elif not wanted:
        found.add(f"it runs {kind} {version}; which releases there are stands on no host", "-", *claims)
    elif not engine and version_key(version)[0][:1] == version_key(wanted)[0][:1] and _far(version, wanted):
        found.add(
            f"it runs {kind} {version}; {wanted} may mean another engine, which was not named", "-", *claims
        )
    elif version_key(version) < version_key(wanted):
        found.add(f"it runs {kind} {version}, which is below {wanted}", "for", *claims)
    else:
        same = version_key(version) == version_key(wanted)
        found.add(
            f"it runs {kind} {version}, which is {'that' if same else f'above {wanted}'}", "against", *claims
        )


def _far(version: str, wanted: str) -> bool:
    """Tell whether two versions are too far apart for one to follow the other."""
    mine, asked = version_key(version)[0], version_key(wanted)[0]
    return len(mine) > 1 and len(asked) > 1 and abs(mine[1] - asked[1]) > 4


def _setting(found: _Weighed, verb: str, question: str, facts: Facts, told: View) -> None:
    """Say what a setting is now, and whether it is so already."""
    names, feature = wanted_settings(verb, question)
    off_values = (feature.switched_off.get(str(facts.engine.get("engine"))) or {}) if feature else {}
    names = tuple(off_values) if feature else names
    for name in names:
        value, quote = effective(told, name)
        launched = value_of(facts, name)
        if value is None and launched is None and len(names) > 1:
            continue
        claims = list(flag_claim(facts, name))
        if value is not None and quote is not None:
            says = f"{named(facts)} on {facts.host} says that {name} = {value} is in force."
            claims.append(set_to(says, name, value, "effective", quote))
        now = value if value is not None else launched
        layer = (
            "in force" if value is not None else "by the launch line" if launched is not None else "not told"
        )
        side = _side(verb, question, name, now, off_values.get(name))
        so = {"against": "it is so already: ", "for": "it is not so yet: "}.get(side, "")
        says = f"{so}{name} is {now if now is not None else 'not set'} ({layer})"
        found.add(says, "against" if side == "against" else "-", *claims)
    if feature and not names:
        found.add(f"no setting of {facts.engine.get('engine')} is known for {feature.name}", "-")


def _side(verb: str, question: str, name: str, now: str | None, off: str | None) -> Side:
    """Tell whether a value speaks for a wish: against it where it is so already."""
    if now is None:
        return "-"
    if off is not None:
        wants_off = _OFF_WORDS.fullmatch(verb) is not None
        if not wants_off and not _TURNS.fullmatch(verb):
            return "-"
        return "against" if (now.lower() == off) == wants_off else "for"
    if _OFF_WORDS.fullmatch(verb) or _TURNS.fullmatch(verb):
        there = now.lower() not in ("false", "none", "-1")  # a switch of the launch line is there, or is not
        return "against" if there == (_TURNS.fullmatch(verb) is not None) else "for"
    wanted = re.search(
        rf"(?:to|=)\s*([\w.]+)\s*(?:on\b|[?.!]|$)|{re.escape(name)}\s*=?\s*(\d[\w.]*)", question
    )
    value = (wanted[1] or wanted[2]) if wanted else None
    return "-" if value is None else "against" if value.lower() == now.lower() else "for"


def _cut_off(found: _Weighed, look: Look) -> None:
    """Say whether GPUs are at work: what they do would be cut off."""
    cards = rows(look.view.get("hardware") or {}, "gpus")
    loads = [float(row["utilization"]) for row in cards if isinstance(row.get("utilization"), int | float)]
    if not loads:
        found.add("how busy its GPUs are is not told", "-")
        return
    busy = sum(load > IDLE_PERCENT for load in loads)
    claims = list(card_claims(look, cards))
    if busy:
        found.add(
            f"{busy} of {len(loads)} GPUs are at work: what they do would be cut off", "against", *claims
        )
    else:
        says = f"all {len(loads)} GPUs are idle at the moment of the look: little would be cut off"
        found.add(says, "-", *claims)


def _state(found: _Weighed, deed: Deed, facts: Facts, told: View) -> None:
    """Say whether the engine answers, since when it runs, and whether its unit waits to be read again."""
    said = str(told.get("health") or "")
    if said:
        says = f"{named(facts)} on {facts.host} answered: {said}."
        claim = quoted(says, Quote(str(told.get("artifact")), f"health: {said}"))
        mends = deed in ("restart", "reboot", "start")
        against: Side = "against" if mends else "-"
        found.add(f"it answers, health {said}" if said == "ok" else f"its health is: {said}",
                  against if said == "ok" else "for" if mends else "-", claim)  # fmt: skip
    handle, service = facts.artifact(f"show:{facts.unit}"), facts.service
    started: Any = service.get("started_at")
    if started and handle:
        says = f"{facts.unit} on {facts.host} was started at {started}."
        claim = quoted(says, Quote(str(handle), f"ExecMainStartTimestamp={started}"))
        found.add(f"it runs since {started}", "-", claim)
    if service.get("need_daemon_reload") is True and handle and deed in ("restart", "start", "set"):
        claim = quoted(f"systemd says so of {facts.unit}", Quote(str(handle), "NeedDaemonReload=yes"))
        found.add(
            "its unit was edited and not read again: `systemctl daemon-reload` comes first", "for", claim
        )


def calls_for(looks: Sequence[Look], verb: str, question: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is asked of the servers: health, and the settings that the wish is about."""
    names = list(wanted_settings(verb, question)[0]) or ["version"]
    for look in looks:
        if not look.error and look.engines:
            yield "engine_state", {"host": look.host, "names": names[:16]}
