"""Run the probes of the leads: load first and alone, then what waits for it, equal calls once."""

from __future__ import annotations

import shlex
from typing import Any

import re2

from agent.models.method import Call, Case, Step, Steps, fill
from prompts.playbooks import Probe


def probe(case: Case) -> Steps:
    """Run every lead's probes in waves: load first and alone, then what waited for it; equal calls once."""
    pending = {
        f"{lead.book.name}.{name}": (lead, probe)
        for lead in case.leads
        for name, probe in lead.book.probes.items()
    }
    done: set[str] = set()
    common = True
    while pending:
        ready = {key: item for key, item in pending.items() if _ready(key, item[1], done)}
        load = {key: item for key, item in ready.items() if item[1].tool == "benchmark"}
        wave: dict[str, Call] = {
            key: _call(item[1], case)
            for key, item in (load or ready).items()
            if not _in_vain(key, item[1].after, case)
        }
        done |= set(load or ready)
        pending = {key: item for key, item in pending.items() if key not in done}
        if common and not load:
            wave |= common_probes(case)
            common = False
        if wave:
            yield from _run(case, wave)
    if common:
        yield from _run(case, common_probes(case))


def _ready(key: str, probe: Probe, done: set[str]) -> bool:
    book = key.partition(".")[0]
    return all(f"{book}.{other}" in done for other in (probe.after, probe.wait_for) if other)


def _in_vain(key: str, after: str | None, case: Case) -> bool:
    """Tell whether the probe this one builds on gave nothing."""
    before = case.probes.get(f"{key.partition('.')[0]}.{after}", {"error": "not run"})
    return after is not None and "error" in before


def common_probes(case: Case) -> dict[str, Call]:
    """Return the probes that do not belong to one playbook: settings in force, and the unit's text."""
    calls: dict[str, Call] = {
        "cmdline": ("run", {"command": f"cat /proc/{case.facts.pid}/cmdline | tr '\\000' '\\n'"})
    }
    if case.facts.engine.get("engine") == "sglang":
        calls["server_info"] = ("run", {"command": _ask_server(case)})
    if case.facts.unit:
        calls["unit"] = ("run", {"command": f"systemctl cat {case.facts.unit} --no-pager"})
    return calls


def _ask_server(case: Case) -> str:
    names = sorted({name for lead in case.leads for name in lead.book.effective} | set(case.facts.flags))
    values = case.facts.values()
    address = f"http://{values['address']}:{values['port']}"
    # Versions before 0.5 know the second name alone; newer ones log a warning when it is asked for.
    old = str(case.facts.engine.get("version") or "0.").startswith(("0.1", "0.2", "0.3", "0.4"))
    path = "get_server_info" if old else "server_info"
    quoted = "|".join(re2.escape(name) for name in names)
    return f"curl -s -m 5 {address}/{path} | tr ',' '\\n' | grep -E '\"({quoted})\"'"


def _run(case: Case, wave: dict[str, Call]) -> Steps:
    unique: dict[str, Call] = {}
    for call in wave.values():
        unique.setdefault(repr(call), call)
    says = (
        "I ask for load on the server, to watch it work."
        if "benchmark" in repr(list(unique))
        else "I look at what runs."
    )
    results = yield Step(says, list(unique.values()))
    by_call = dict(zip(unique, results, strict=False))
    for key, call in wave.items():
        case.probes[key] = by_call.get(repr(call), {"error": "no answer"})
    case.unit_text = case.probes.get("unit", case.unit_text)


def _call(probe: Probe, case: Case) -> Call:
    """Fill in a probe; without a unit there is no journal, so the process's own log file is searched."""
    arguments = _filled(probe.args, case)
    if probe.tool != "journal" or case.facts.unit or not case.facts.log_file:
        return probe.tool, {key: value for key, value in arguments.items() if value != ""}
    words = f"grep -aP {shlex.quote(str(arguments.get('pattern', '')))} {case.facts.log_file}"
    return "run", {"command": f"{words} | tail -n 60"}


def _filled(value: Any, case: Case) -> Any:
    """Fill braces in a probe's arguments; a text that is one number becomes a number."""
    if isinstance(value, dict):
        return {key: _filled(item, case) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, case) for item in value]
    return fill(value, case.facts) if isinstance(value, str) else value
