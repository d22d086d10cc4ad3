"""Answer from the facts what a machine is, and with what its engines were started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.models.claims import opinion
from agent.models.questions_answer import Answer, Look, launch_claim, named, quoted, set_to, short
from agent.models.questions_query import Query
from agent.models.views import Quote, View, rows


def launch(query: Query, looks: Sequence[Look]) -> Answer:
    """Show the whole launch line of every engine."""
    answer = Answer(["HOST", "UNIT", "LAUNCH LINE"])
    told: list[str] = []
    for look in looks:
        for facts in look.engines:
            argv = facts.engine.get("argv")
            line = " ".join(str(word) for word in argv) if isinstance(argv, list) else "not known"
            answer.row(look.host, named(facts), line)
            answer.claims += launch_claim(facts)
            told.append(f"{named(facts)} on {look.host}: {short(line, 600)}")
            if line == "not known":
                answer.unknown.append(f"{look.host} ({named(facts)})")
        _without_engine(answer, look)
    answer.missing(looks)
    answer.said.append(f"The launch line of {'; '.join(told)}." if told else "No engine is seen to run.")
    answer.known = bool(answer.claims)
    return answer


def environ(query: Query, looks: Sequence[Look]) -> Answer:
    """Show the variables that engines run with, of those that are read."""
    answer = Answer(["HOST", "UNIT", "VARIABLE", "VALUE"])
    count = 0
    for look in looks:
        denied = any("environ" in str(one) for one in look.view.get("not_permitted") or [])
        for facts in look.engines:
            given = facts.engine.get("environ")
            handle = facts.artifact(f"environ:{facts.pid}")
            for name, value in (given if isinstance(given, dict) else {}).items():
                count += 1
                answer.row(look.host, named(facts), str(name), str(value))
                if handle:
                    says = f"{named(facts)} on {look.host} runs with {name}={value}."
                    quote = Quote(handle, f"{name}={value}")
                    answer.claims.append(set_to(says, str(name), str(value), "observed", quote))
            if denied:
                answer.unknown.append(f"{look.host} (its environment may not be read)")
        _without_engine(answer, look)
    answer.missing(looks)
    answer.said.append(
        f"{count} variables are seen. Only variables of engines and their libraries are read."
        if count
        else "No variable of an engine or its libraries is seen."
    )
    answer.known = bool(answer.claims)
    return answer


def hardware(query: Query, looks: Sequence[Look]) -> Answer:
    """Say how many processors, how much memory and how much of the disks a machine has."""
    answer = Answer(["HOST", "CPUS", "MEMORY GIB", "AVAILABLE GIB", "DISKS: FREE GIB OF GIB"])
    told: list[str] = []
    for look in looks:
        if look.error:
            continue
        part = look.view.get("hardware")
        machine: Mapping[str, Any] = part if isinstance(part, dict) else {}
        disks = rows(look.view, "disks")
        free = ", ".join(
            f"{row.get('mount')} {row.get('free_gib')} of {row.get('size_gib')}" for row in disks
        )
        cpus, model = machine.get("cpus", "?"), machine.get("cpu_model", "?")
        memory, available = machine.get("memory_gib", "?"), machine.get("memory_available_gib", "?")
        answer.row(look.host, f"{cpus} x {model}", str(memory), str(available), free or "-")
        told.append(f"{look.host}: {cpus} CPUs, {memory} GiB of memory, {available} GiB of it available")
        answer.claims += _hardware_claims(look, machine, disks)
    answer.missing(looks)
    answer.said.append(
        f"{'; '.join(told)}. Disks are those of /, /dev/shm and /tmp." if told else "Nothing is told."
    )
    answer.known = bool(answer.claims)
    return answer


def _hardware_claims(look: Look, machine: View, disks: Sequence[View]) -> Iterator[dict[str, Any]]:
    artifacts = look.view.get("artifacts")
    handles = artifacts if isinstance(artifacts, dict) else {}
    if "hardware" in handles and machine.get("cpus"):
        says = f"{look.host} has {machine['cpus']} processors."
        yield quoted(says, Quote(str(handles["hardware"]), f"cpus={machine['cpus']}"))
    if machine.get("memory_gib"):
        yield opinion(f"{look.host} has {machine['memory_gib']} GiB, worked out from MemTotal by `facts`.")
    for row in disks if "disks" in handles else ():
        says = f"{row.get('mount')} of {look.host} is {row.get('used')} full."
        yield quoted(says, Quote(str(handles["disks"]), f"{row.get('used')} {row.get('mount')}"))


def _without_engine(answer: Answer, look: Look) -> None:
    if not look.error and not look.engines:
        answer.row(look.host, "no engine is seen", *["-"] * (len(answer.head) - 2))
