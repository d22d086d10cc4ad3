"""Answer from the facts alone: versions, GPUs, drop-ins, units to reload, variables, what runs when."""

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
    quoted,
    set_to,
    version_claim,
)
from agent.models.questions_parse import Op, Query, version_key
from agent.models.views import Quote, View, rows

_COMPARE: dict[Op, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
_WORDS: dict[Op, str] = {"<": "below", "<=": "at most", "==": "exactly", ">=": "at least", ">": "above"}
_DIST = {"sglang": "sglang", "vllm": "vllm", "llama.cpp": "llama_cpp_python", "ollama": "ollama"}
IDLE_PERCENT = 5


def versions(query: Query, looks: Sequence[Look]) -> Answer:
    """Say which version runs where, and where it compares as asked."""
    what = query.package or query.engine
    asked = f"{_WORDS[query.op]} {query.version}" if query.op else ""
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
                holds = _COMPARE[query.op](version_key(version), version_key(query.version))
                verdict = "yes" if holds else "no"
                if holds:
                    found.setdefault(look.host, []).append(version)
            answer.row(look.host, subject, name, version or "?", *([verdict] if asked else []))
            answer.claims += claims
    label = what or "an engine"
    if query.op:
        where = ", ".join(f"{host} ({', '.join(dict.fromkeys(seen))})" for host, seen in found.items())
        answer.said.append(
            f"{label} {asked}: {where}." if where else f"No host that was read runs {label} {asked}."
        )
    else:
        groups = folded([(host, (cells[1], cells[2])) for host, cells in answer.cells if len(cells) > 2])
        told = "; ".join(f"{name} {version} on {hosts}" for hosts, name, version in groups)
        answer.said.append(f"{told}." if told else f"No version of {label} is seen.")
    answer.missing(looks)
    answer.cells.sort(key=lambda row: row[1][-1] != "yes")
    answer.known = bool(found) or (bool(answer.claims) and not answer.unknown) or not query.op
    if not answer.cells:
        answer.said = ["No engine is seen to run, so no version is either."]
    return answer


def _installed(look: Look, query: Query) -> Iterator[tuple[str, str, str | None, list[dict[str, Any]]]]:
    """Yield unit, package, version and its claims for all that a question may be about."""
    if query.package in ("driver", "cuda", "kernel"):
        if not look.error:
            version, quote = _machine(look.view, query.package)
            says = f"{look.host} has {query.package} {version}."
            yield "-", query.package, version, [quoted(says, quote)] if quote and version else []
        return
    for facts in look.engines:
        packages = facts.engine.get("packages")
        if query.package:
            versions = packages if isinstance(packages, dict) else {}
            name = next((one for one in versions if one.startswith(query.package)), query.package)
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
    value = driver.get("nvidia" if what == "driver" else "cuda") if isinstance(driver, dict) else None
    handle = artifacts.get("gpu_header")
    label = "Driver Version" if what == "driver" else "CUDA Version"
    return (
        (str(value), Quote(str(handle), f"{label}: {value}") if handle else None) if value else (None, None)
    )


def gpus(query: Query, looks: Sequence[Look]) -> Answer:
    """Count GPUs, and those that do nothing at the moment of the look."""
    answer = Answer(["HOST", "GPUS", "IDLE", "BUSY", "POWER W"])
    total = idle = busy = 0
    for look in looks:
        if look.error:
            continue
        cards = rows(look.view.get("hardware") or {}, "gpus")
        used = [row for row in cards if _load(row) is not None]
        still = [row for row in used if (_load(row) or 0) <= IDLE_PERCENT]
        total, idle = total + len(cards), idle + len(still)
        busy += len(used) - len(still)
        kinds = ", ".join(dict.fromkeys(str(row.get("name")) for row in cards))
        power = sum(float(row.get("power_w") or 0) for row in cards)
        label = f"{len(cards)} x {kinds}" if cards else "none is seen"
        answer.row(look.host, label, str(len(still)), str(len(used) - len(still)), f"{power:.0f}")
        if len(used) < len(cards):
            answer.unknown.append(f"{look.host} ({len(cards) - len(used)} GPUs tell no load)")
        answer.claims += card_claims(look, cards)
        problems = [str(one) for one in look.view.get("problems") or [] if "nvidia-smi" in str(one)]
        if problems or not cards:
            answer.unknown.append(f"{look.host} ({problems[0] if problems else 'no nvidia-smi there'})")
    answer.missing(looks)
    many = {"idle": f"{idle} of {total} GPUs are idle", "busy": f"{busy} of {total} GPUs are busy"}
    said = many.get(query.wants, f"{total} GPUs are seen; {idle} of them are idle")
    bound = "above" if query.wants == "busy" else "of at most"
    answer.said.append(f"{said}: utilization {bound} {IDLE_PERCENT} % at the moment of the look.")
    answer.known = total > 0
    return answer


def _load(row: View) -> float | None:
    value = row.get("utilization")
    return float(value) if isinstance(value, int | float) else None


def card_claims(look: Look, cards: Sequence[View]) -> Iterator[dict[str, Any]]:
    """Claim the row of each GPU, in one piece where every field of it is known."""
    artifacts, driver = look.view.get("artifacts"), look.view.get("driver")
    handle = artifacts.get("gpus") if isinstance(artifacts, dict) else None
    version = driver.get("nvidia") if isinstance(driver, dict) else None
    fields = ("power_w", "power_limit_w", "utilization", "sm_clock_mhz", "temperature_c")
    if handle is None or not cards:
        return
    whole = all(isinstance(row.get(name), int | float) for row in cards for name in fields)
    if whole and version:
        text = " ".join(_csv(row, str(version)) for row in cards)
        yield quoted(
            f"These are the GPUs of {look.host} at the moment of the look.", Quote(str(handle), text)
        )
        return
    for row in cards:
        text = f"{row.get('index')}, {row.get('name')}"
        yield quoted(f"{look.host} has GPU {row.get('index')}.", Quote(str(handle), text))


def _csv(row: View, driver: str) -> str:
    return (
        f"{row['index']}, {row['name']}, {row['memory_mib']} MiB, {row['power_w']:.2f} W, "
        f"{row['power_limit_w']:.2f} W, {row['utilization']} %, {row['sm_clock_mhz']} MHz, {row['pstate']}, "
        f"{row['temperature_c']}, {driver}"
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
            if hit:
                found.append(f"{unit} on {look.host}" + ("" if reload else f" ({text})"))
            if text == "not known":
                answer.unknown.append(f"{look.host} ({unit})")
            answer.claims += _unit_claims(look, unit, quote, [] if reload else service.get("dropins") or [])
    answer.missing(looks)
    what = "was edited since systemd read it" if reload else "has a drop-in"
    answer.said.append(
        f"{'Edited since systemd read them' if reload else 'With a drop-in'}: {'; '.join(found)}."
        if found
        else f"No unit of an engine that was read {what}."
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
    known = (
        "is set as the table shows" if found else "is not seen in the environment of any engine that was read"
    )
    answer.said.append(
        f"{', '.join(query.names)} {known}. Only variables of engines and their libraries are read."
    )
    answer.known = found
    return answer


def engines(query: Query, looks: Sequence[Look]) -> Answer:
    """Say what runs where."""
    answer = Answer(["HOST", "UNIT", "ENGINE", "VERSION", "MODEL", "PORT"])
    found = []
    for look in looks:
        for facts in look.engines:
            kind = str(facts.engine.get("engine"))
            model = next(
                (m for m in map(facts.flags.get, ("served_model_name", "model_path", "model", "alias")) if m),
                "-",
            )
            version, port = facts.engine.get("version") or "?", facts.engine.get("port") or "?"
            answer.row(look.host, named(facts), kind, str(version), str(model), str(port))
            answer.claims += launch_claim(facts)
            if query.engine in ("", kind):
                found.append(f"{named(facts)} on {look.host}")
        if not look.error and not look.engines:
            answer.row(look.host, "no engine is seen", "-", "-", "-", "-")
    answer.missing(looks)
    what = query.engine or "an engine"
    answer.said.append(f"{what} runs as {', '.join(found)}." if found else f"No process of {what} is seen.")
    answer.known = bool(found) or (bool(answer.claims) and not answer.unknown)
    return answer


def since(query: Query, looks: Sequence[Look]) -> Answer:
    """Say since when engines run, and how often their units were started again by systemd."""
    answer = Answer(["HOST", "UNIT", "RUNS SINCE", "RESTARTS BY SYSTEMD"])
    for look in looks:
        artifacts = look.view.get("artifacts")
        handles = artifacts if isinstance(artifacts, dict) else {}
        for facts in look.engines:
            started = facts.service.get("started_at")
            answer.row(
                look.host,
                named(facts),
                str(started or facts.engine.get("started_at") or "?"),
                str(facts.service.get("restarts", "?")),
            )
            handle = handles.get(f"show:{facts.unit}")
            if started and handle:
                says = f"{facts.unit} on {look.host} was started at {started}."
                quote = Quote(str(handle), f"ExecMainStartTimestamp={started}")
                answer.claims.append(quoted(says, quote))
            else:
                answer.claims += launch_claim(facts)
    answer.missing(looks)
    answer.said.append("This is since when each engine's process runs; what was before, `history` may tell.")
    answer.known = bool(answer.claims)
    return answer
