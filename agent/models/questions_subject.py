"""Choose the one of several hosts that a symptom is about: by name, role, or engine, else the first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.messages import NOTE
from agent.models.questions_words import english
from agent.models.views import Facts, named_most
from agent.questions import asked
from agent.state import Message

_ROLES: Final = re.compile(r"\ARoles of the hosts, by the settings: (.+)\.\s*\Z")
_ROLE_WORDS: Final = ("router", "prefill", "decode", "worker")
_FINE: Final = (
    r"(?:still )?(?:is|are|runs?|works?|looks?|seems?|stays?)(?: \w+)? "
    r"(?:fine|ok|okay|good|normal|fast|faster|healthy|quick|unaffected)"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """Hold the host that is looked into, and what is to be said of the choice."""

    facts: Facts | None
    because: str = ""
    """Why it is this one; empty where the symptom names it and no other."""
    left: str = ""
    """What the symptom names and is not looked into, for the conclusion."""


def roles_of(messages: Sequence[Message]) -> dict[str, str]:
    """Return the roles of hosts that the program tells of."""
    for message in messages:
        text = str(message["content"])
        if message["role"] == "user" and text.startswith(NOTE) and (found := _ROLES.match(text[len(NOTE) :])):
            pairs = [one.rpartition(" ") for one in found[1].split("; ")]
            return {name: role for name, _, role in pairs if name and role in _ROLE_WORDS}
    return {}


def choose(facts: Sequence[Facts], symptom: str, roles: Mapping[str, str] | None = None) -> Subject:
    """Return the host to look into; none where the symptom names one on which no engine is seen to run."""
    running = [one for one in facts if one.engine]
    said = english(asked(symptom)).lower()
    named = sorted(
        (one for one in facts if _place(one.host, said) >= 0), key=lambda one: _place(one.host, said)
    )
    blamed = [one for one in named if not _is_fine(one.host.lower(), said)] or named
    if blamed:
        return _of_named(blamed, running)
    if len(running) < 2:
        return Subject(running[0] if running else None)
    stranger = _stranger(said, [one.host for one in facts])
    left = f"{stranger} is named and is none of the hosts that are looked at." if stranger else ""
    for because, fits in _kinds(said, running, roles or {}):
        if 0 < len(fits) < len(running):
            more = f", the first of {', '.join(one.host for one in fits)}" if len(fits) > 1 else ""
            return Subject(fits[0], f"{because}{more}.", left)
    return Subject(running[0], left or "No host is named, so it is the first that runs an engine.", left)


def _of_named(blamed: Sequence[Facts], running: Sequence[Facts]) -> Subject:
    first = next((one for one in blamed if one in running), None)
    if first is None:
        hosts = ", ".join(one.host for one in blamed)
        return Subject(None, f"On {hosts} no engine is seen to run." if running else "")
    others = [one.host for one in blamed if one is not first]
    if not others:
        return Subject(first)
    left = f"{', '.join(others)} is named too: ask about it apart, or why one differs from the other."
    return Subject(first, f"{first.host} is named first.", left)


def _kinds(
    said: str, running: Sequence[Facts], roles: Mapping[str, str]
) -> list[tuple[str, Sequence[Facts]]]:
    """Return reasons to take some of the hosts, the strongest first, with the hosts."""
    found: list[tuple[str, Sequence[Facts]]] = []
    for role in _ROLE_WORDS:
        if re.search(rf"\b{role}(s|r|rs|ing)?\b", said):
            found.append((f"It is the {role} host", [one for one in running if role_of(one, roles) == role]))
    most = max((named_most(one.view, said) for one in running), default=0)
    if most:
        fits = [one for one in running if named_most(one.view, said) == most]
        found.append(("What is named runs there", fits))
    return found


def role_of(facts: Facts, roles: Mapping[str, str]) -> str:
    """Return the role of a host: as the settings say, else as its engine was launched, else by its name."""
    if facts.host in roles:
        return roles[facts.host]
    mode = str(facts.flags.get("disaggregation_mode") or "").lower()
    if mode in _ROLE_WORDS:
        return mode
    transfer = str(facts.flags.get("kv_transfer_config") or "")
    for kind, role in (("kv_producer", "prefill"), ("kv_consumer", "decode")):
        if kind in transfer:
            return role
    words = re.split(r"[^a-z]+", facts.host.lower())
    return next((role for role in _ROLE_WORDS if role in words), "")


def _place(host: str, said: str) -> int:
    found = re.search(rf"(?<![\w.-]){re.escape(host.lower())}(?![\w-]|\.\w)", said)
    return found.start() if found else -1


def _is_fine(host: str, said: str) -> bool:
    """Tell whether a host is named only to compare with."""
    name = rf"(?<![\w.-]){re.escape(host)}(?![\w-])"
    beside = r"(?:than|unlike|not|versus|vs\.?|compared (?:to|with)|as|like|while)(?: on| with)?"
    return (
        re.search(
            rf"\b{beside} {name}|{name} {_FINE}\b|\bon {name} (?:it|all|everything) "
            rf"{_FINE}",
            said,
        )
        is not None
    )


def _stranger(said: str, hosts: Sequence[str]) -> str:
    """Return a word that is named as the hosts are, and is none of them."""
    stems = {re.sub(r"\d+$", "", host.lower()) for host in hosts if re.search(r"[a-z]-?\d+$", host.lower())}
    known = {host.lower() for host in hosts}
    for word in re.findall(r"(?<![\w./-])([a-z][\w-]*?\d+)(?![\w-]|\.\w)", said):
        if word not in known and re.sub(r"\d+$", "", word) in stems:
            return str(word)
    return ""
