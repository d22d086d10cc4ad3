"""Answer from the facts alone: versions, drop-ins, units to reload, variables, what runs where since when."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agent.models.questions_answer import (
    Answer,
    Look,
    folded,
    launch_claim,
    named,
    placed,
    quoted,
    set_to,
    version_claim,
)
from agent.models.questions_query import Op, Query
from agent.models.questions_terms import version_key
from agent.models.views import Facts, Quote, View, rows

_COMPARE: dict[Op, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
_WORDS: dict[Op, str] = {"<": "below", "<=": "at most", "==": "exactly", ">=": "at least", ">": "above"}
_DIST = {"sglang": "sglang", "vllm": "vllm", "llama.cpp": "llama_cpp_python", "ollama": "ollama"}


def versions(query: Query, looks: Sequence[Look]) -> Answer:
    """Say which version runs where, and where it compares as asked."""
    what = query.package or query.engine
    asked = f"{'not ' if query.denied else ''}{_WORDS[query.op]} {query.version}" if query.op else ""
    answer = Answer(["HOST", "UNIT", "PACKAGE", "VERSION", *([asked.upper()] if asked else [])])
    found: dict[str, list[str]] = {}
    others = False
    for look in looks:
        for subject, name, version, claims in _installed(look, query):
            relevant = not query.engine or query.package or name == query.engine
            others = others or not relevant
            verdict = "-"
            if relevant and version is None:
                answer.unknown.append(f"{look.host} ({name}: its version is not told)")
                verdict = "not known"
            elif relevant and query.op and version:
                holds = (
                    _COMPARE[query.op](version_key(version), version_key(query.version)) is not query.denied
                )
                verdict = "yes" if holds else "no"
                if holds:
                    found.setdefault(look.host, []).append(version)
            answer.row(look.host, subject, name, version or "?", *([verdict] if asked else []))
            answer.claims += claims
    label = what or "an engine"
    if query.op:
        where = ", ".join(f"{host} ({', '.join(dict.fromkeys(seen))})" for host, seen in found.items())
        nowhere = f"No host that was read runs {label} {asked}."
        if query.named:
            nowhere = f"{label} {asked} is not seen {_read(query, looks)}."
        answer.said.append(f"{label} {asked}: {where}." if where else nowhere)
    else:
        groups = folded([(host, (cells[1], cells[2])) for host, cells in answer.cells if len(cells) > 2])
        told = "; ".join(f"{name} {version} on {hosts}" for hosts, name, version in groups)
        answer.said.append(f"{told}." if told else f"No version of {label} is seen.")
        answer.said[:0] = _alike(query, [(name, version, hosts) for hosts, name, version in groups])
    answer.missing(looks)
    answer.cells.sort(key=lambda row: row[1][-1] != "yes")
    answer.known = bool(found) or (bool(answer.claims) and not answer.unknown) or not query.op
    if not answer.cells:
        answer.said = ["No engine is seen to run, so no version is either."]
    return answer


def _read(query: Query, looks: Sequence[Look]) -> str:
    """Return of which hosts an answer says that something is nowhere."""
    hosts = ", ".join(look.host for look in looks if not look.error)
    return f"on {hosts}" if query.named and hosts else "that was read"


def _alike(query: Query, groups: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Say whether what was asked for has one version, or which of several is the lowest or highest."""
    asked = query.package or query.engine
    name_of = (
        (lambda name: name == query.engine) if query.engine and not query.package else (lambda name: True)
    )
    found = [(name, version, hosts) for name, version, hosts in groups if name_of(name) and version != "?"]
    if query.in_part or not found:
        return
    if query.wants == "same":
        names = {name for name, _, _ in found}
        if not asked and len(names) > 1:
            yield f"They run different engines: {', '.join(sorted(names))}."
        else:
            yield "One version wherever it is seen:" if len(found) == 1 else f"No, {len(found)} versions:"
    elif query.wants in ("oldest", "newest") and (asked or len({name for name, _, _ in found}) == 1):
        edge = min if query.wants == "oldest" else max
        name, version, hosts = edge(found, key=lambda one: version_key(one[1]))
        yield f"The {query.wants} that is seen: {name} {version} on {hosts}. All of them:"


def _installed(look: Look, query: Query) -> Iterator[tuple[str, str, str | None, list[dict[str, Any]]]]:
    """Yield unit, package, version and its claims for all that a question may be about."""
    if query.package in ("driver", "cuda", "kernel", "os"):
        if not look.error:
            version, quote = _machine(look.view, query.package)
            says = f"{look.host} has {query.package} {version}."
            yield "-", query.package, version, [quoted(says, quote)] if quote and version else []
        return
    for facts in look.engines:
        packages = facts.engine.get("packages")
        if query.package:
            versions = packages if isinstance(packages, dict) else {}
            name = next((one for one in versions if query.package in one), query.package)
            version = versions.get(name)
            yield named(facts), name, version, list(version_claim(facts, name, version)) if version else []
            continue
        name = str(facts.engine.get("engine"))
        version = facts.engine.get("version")
        claims = list(version_claim(facts, _DIST.get(name, name), str(version))) if version else []
        yield named(facts), name, str(version) if version else None, claims or list(launch_claim(facts))


def _machine(view: View, what: str) -> tuple[str | None, Quote | None]:
    artifacts = view.get("artifacts") if isinstance(view.get("artifacts"), dict) else {}
    assert isinstance(artifacts, dict)
    system, driver = view.get("os"), view.get("driver")
    if what == "kernel" and isinstance(system, dict):
        text = str(system.get("kernel") or "")
        handle = artifacts.get("os")
        words = text.split()
        version = words[1].partition("-")[0] if len(words) > 1 else None
        return version, Quote(str(handle), f"uname={text}") if handle and text else None
    if what == "os":
        name = str(system.get("name") or "") if isinstance(system, dict) else ""
        handle = artifacts.get("os")
        return name or None, Quote(str(handle), f'PRETTY_NAME="{name}"') if handle and name else None
    value = driver.get("nvidia" if what == "driver" else "cuda") if isinstance(driver, dict) else None
    handle = artifacts.get("gpu_header")
    label = "Driver Version" if what == "driver" else "CUDA Version"
    return (
        (str(value), Quote(str(handle), f"{label}: {value}") if handle else None) if value else (None, None)
    )


def services(query: Query, looks: Sequence[Look]) -> Answer:
    """Say which units have drop-ins, or were edited since systemd read them."""
    reload = query.kind == "reload"
    answer = Answer(["HOST", "UNIT", "TO BE RELOADED" if reload else "DROP-INS"])
    found: list[str] = []
    for look in looks:
        for service in [] if look.error else rows(look.view, "services"):
            unit = str(service.get("unit"))
            if reload:
                due = service.get("need_daemon_reload")
                hit = due is True
                text = "yes" if hit else "no" if due is False else "not known"
                quote = f"NeedDaemonReload={text}"
            else:
                paths = [str(path) for path in service.get("dropins") or []]
                text, hit, quote = ", ".join(paths) or "none", bool(paths), "DropInPaths="
            answer.row(look.host, unit, text)
            if hit is not query.denied and text != "not known":
                found.append(f"{unit} on {look.host}" + ("" if reload or query.denied else f" ({text})"))
            if text == "not known":
                answer.unknown.append(f"{look.host} ({unit})")
            answer.claims += _unit_claims(look, unit, quote, [] if reload else service.get("dropins") or [])
    answer.missing(looks)
    what = "was edited since systemd read it" if reload else f"{'lacks' if query.denied else 'has'} a drop-in"
    head = "Edited since systemd read them" if reload else f"With{'out' if query.denied else ''} a drop-in"
    answer.said.append(
        f"{head}: {'; '.join(found)}." if found else f"No unit of an engine {_read(query, looks)} {what}."
    )
    answer.known = bool(found) or (bool(answer.claims) and not answer.unknown)
    return answer


def _unit_claims(look: Look, unit: str, quote: str, paths: Sequence[Any]) -> Iterator[dict[str, Any]]:
    artifacts = look.view.get("artifacts")
    handles = artifacts if isinstance(artifacts, dict) else {}
    for path in paths:
        if f"unit:{unit}" in handles:
            says = f"{unit} on {look.host} has the drop-in {path}."
            yield quoted(says, Quote(str(handles[f"unit:{unit}"]), f"# {path}"))
    if not paths and f"show:{unit}" in handles:
        says = f"systemd says of {unit} on {look.host}: {quote}"
        yield quoted(says, Quote(str(handles[f"show:{unit}"]), quote))


def variables(query: Query, looks: Sequence[Look]) -> Answer:
    """Say which engine processes have a variable, and its value."""
    answer = Answer(["HOST", "UNIT", *query.names])
    found = False
    for look in looks:
        for facts in look.engines:
            environ = facts.engine.get("environ")
            values = environ if isinstance(environ, dict) else {}
            denied = any("environ" in str(one) for one in look.view.get("not_permitted") or [])
            cells = ["not known" if denied else str(values.get(name, "not set")) for name in query.names]
            answer.row(look.host, named(facts), *cells)
            if denied:
                answer.unknown.append(f"{look.host} (its environment may not be read)")
            handle = facts.artifact(f"environ:{facts.pid}")
            for name in query.names:
                if name in values and handle:
                    found = True
                    says = f"{named(facts)} on {look.host} runs with {name}={values[name]}."
                    quote = Quote(handle, f"{name}={values[name]}")
                    answer.claims.append(set_to(says, name, str(values[name]), "observed", quote))
            answer.claims += launch_claim(facts)
    answer.missing(looks)
    for place, name in enumerate(query.names, 1):
        groups = folded([(host, (cells[place],)) for host, cells in answer.cells if len(cells) > place])
        told = "; ".join(f"{value} on {hosts}" for hosts, value in groups)
        nowhere = f"is not seen in the environment of any engine {_read(query, looks)}"
        answer.said.append(f"{name}: {told}." if found else f"{name} {nowhere}.")
    answer.said.append("Only variables of engines and their libraries are read.")
    answer.known = found
    return answer


def engines(query: Query, looks: Sequence[Look]) -> Answer:
    """Say what runs where, or where something does not run."""
    answer = Answer(["HOST", "UNIT", "ENGINE", "VERSION", "MODEL", "PORT"])
    found: list[str] = []
    hosts: set[str] = set()
    for look in looks:
        for facts in look.engines:
            kind, model = str(facts.engine.get("engine")), model_of(facts)
            version, port = facts.engine.get("version") or "?", facts.engine.get("port") or "?"
            answer.row(look.host, placed(facts), kind, str(version), model, str(port))
            answer.claims += launch_claim(facts)
            called = f"{facts.names.lower()}\n{named(facts).lower()}"
            if query.engine in ("", kind) and all(word in called for word in query.names):
                found.append(f"{placed(facts)} on {look.host} ({kind} {version}, {model}, port {port})")
                hosts.add(look.host)
        if not look.error and not look.engines:
            answer.row(look.host, "no engine is seen", "-", "-", "-", "-")
    answer.missing(looks)
    what = " ".join([query.engine, *query.names]).strip() or "an engine"
    away = "" if not query.named else f" on {', '.join(look.host for look in looks if not look.error)}"
    others = [look.host for look in looks if not look.error and not look.left_out and look.host not in hosts]
    elsewhere = f"No process of {what} is seen on {', '.join(others)}."
    if query.denied:
        answer.said.append(elsewhere if others else f"No host is seen that does not run {what}.")
        answer.known = bool(answer.claims)
        return answer
    answer.said.append(
        f"{what} runs as {', '.join(found)}." if found else f"No process of {what} is seen{away}."
    )
    if query.every and found and others and what != "an engine":
        answer.said.append(elsewhere)
    answer.known = bool(found) or (bool(answer.claims) and not answer.unknown)
    return answer


def model_of(facts: Facts) -> str:
    """Return what an engine's model is called, or a dash."""
    names = map(facts.flags.get, ("served_model_name", "model_path", "model", "alias"))
    return str(next((name for name in names if name), "-"))


def since(query: Query, looks: Sequence[Look]) -> Answer:
    """Say since when engines run, and how often their units were started again by systemd."""
    answer = Answer(["HOST", "UNIT", "RUNS SINCE", "RESTARTS BY SYSTEMD", "MACHINE UP"])
    told: list[str] = []
    for look in looks:
        artifacts = look.view.get("artifacts")
        handles = artifacts if isinstance(artifacts, dict) else {}
        for facts in look.engines:
            started = facts.service.get("started_at")
            answer.row(
                look.host,
                placed(facts),
                str(started or facts.engine.get("started_at") or "?"),
                str(facts.service.get("restarts", "?")),
                _up(look.view),
            )
            since_when = started or facts.engine.get("started_at") or "?"
            told.append(f"{placed(facts)} on {look.host} runs since {since_when}")
            if "restarts" in facts.service:
                told[-1] += f" (started again by systemd {facts.service['restarts']} times)"
            handle = handles.get(f"show:{facts.unit}")
            if started and handle:
                says = f"{facts.unit} on {look.host} was started at {started}."
                quote = Quote(str(handle), f"ExecMainStartTimestamp={started}")
                answer.claims.append(quoted(says, quote))
            else:
                answer.claims += launch_claim(facts)
    answer.missing(looks)
    answer.said += [f"{'; '.join(told)}."] if told else []
    answer.said.append("This is since when each engine's process runs; what was before, `history` may tell.")
    answer.known = bool(answer.claims)
    return answer


def _up(view: View) -> str:
    """Return how long the machine is up, in hours."""
    system = view.get("os")
    seconds = system.get("uptime_s") if isinstance(system, dict) else None
    return f"{float(seconds) / 3600:.1f} h" if isinstance(seconds, int | float) else "?"
