"""Make a scenario of a real host from one investigation of it, and say what of it could not be recorded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from agent.errors import UsageError
from evals import capture_files, capture_journal, capture_service, capture_units
from evals.capture_units import Engine
from evals.captured_host import HostRecord, asked_urls
from evals.lab.package import PINS
from evals.lab.scenario import Scenario
from tools import facts_parse
from tools.wrong_fields import first_wrong

_CAPABILITY: Final = (
    (r"RTX PRO \d+ Blackwell|RTX 50\d\d|GB10", (12, 0)),
    (r"\bG?B[23]00\b", (10, 0)),
    (r"\bG?H[12]00\b|\bH20\b", (9, 0)),
    (r"\bL4\b|\bL40S?\b|RTX 40\d\d|RTX \d000 Ada", (8, 9)),
    (r"\bA(?:10|40|16)\b|RTX A\d000|RTX 30\d\d", (8, 6)),
    (r"\bA(?:100|30|800)\b", (8, 0)),
    (r"\bT4\b|RTX 20\d\d|Quadro RTX", (7, 5)),
    (r"\bV100\b", (7, 0)),
)
"""CUDA compute capability by a card's name, as NVIDIA lists it; `facts` does not ask for it."""
_ANSWERED: Final = re.compile(
    r"(?:sudo )?(?:cat|ls|head|tail|grep|rg|ps|pgrep|systemctl|journalctl|nvidia-smi|nproc|lscpu|free|uname"
    r"|df|id|env|whoami|hostname|uptime|ss|sed|awk|wc|find|stat|readlink|test|curl|wget|pip|python3?|date)\b"
)
"""Programs whose questions a lab host answers by its own state, as far as that was recorded."""


@dataclass(slots=True)
class Recorded:
    """Hold a scenario's fields, what a person has to add, and what was not recorded."""

    fields: dict[str, Any]
    todo: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def capture_scenario(record: HostRecord, name: str, hostname: str) -> Recorded:
    """Return the scenario of a host; raise `UsageError` when too little of it was read."""
    served = capture_units.engines(record)
    units = capture_units.units(record, served)
    if not units.units:
        raise UsageError(
            f"no service of {hostname} was read, so there is no host to record",
            do="write the scenario by hand, see docs/scenarios.md",
        )
    made = Recorded({"name": name, "description": _description(served, record), "hostname": hostname})
    made.missing += units.missing
    main = served[0] if served else None
    if main is not None:
        _package(made, main)
    made.fields["units"] = units.units
    log = capture_journal.read_of(record)
    _services(made, record, served, log.entries)
    _machine(made, record)
    read, missing = capture_files.files(record, set())
    made.fields |= {"files": files} if (files := {**units.files, **read}) else {}
    made.missing += missing
    _history(made, record, log, [main.site] if main and main.site else [])
    made.missing += _unanswered(record, served)
    made.missing = list(dict.fromkeys(made.missing))
    _check(made)
    return made


def _description(served: Sequence[Engine], record: HostRecord) -> str:
    gpus = facts_parse.gpu_rows(record.facts.text("gpus"))
    what = ", ".join(f"{one.api} {one.version}".strip() for one in served) or "services"
    cards = f", {len(gpus)} x {gpus[0].get('name')}" if gpus else ""
    return f"Recorded from a host on {record.started.at:%Y-%m-%d}: {what}{cards}."


def _package(made: Recorded, engine: Engine) -> None:
    """Pin the package where its digest is known here; else leave it to a person, and never guess."""
    packages = {key: value for key, value in engine.packages.items() if key != engine.api}
    if engine.api in ("sglang", "vllm"):
        if (engine.api, engine.version) in PINS:
            made.fields["package"] = {"name": engine.api, "version": engine.version}
        elif engine.version:
            known = ", ".join(version for name, version in PINS if name == engine.api)
            made.todo.append(
                f"package: {{name: {engine.api}, version: {engine.version}}} - its digest is not pinned in "
                f"evals/lab/package.py, which knows {known}; without it no source of it lies on the host"
            )
            packages[engine.api] = engine.version
        else:
            made.todo.append(
                f"package: {{name: {engine.api}, version: ?}} - the host did not tell the version"
            )
    if packages:
        made.fields["packages"] = packages
    if engine.venv and (place := capture_units.here(engine.venv)):
        made.fields["venv"] = place


def _services(
    made: Recorded, record: HostRecord, served: Sequence[Engine], lines: Sequence[capture_journal.Entry]
) -> None:
    services: dict[str, Any] = {}
    for engine in served:
        if engine.unit in made.fields["units"] and engine.unit not in services:
            told = capture_service.service(record, engine, lines)
            services[engine.unit] = told.fields
            made.missing += told.missing
        else:
            made.missing.append(f"process {engine.pid}, a second one of {engine.unit}")
    if services:
        made.fields["services"] = services
        unit = next(iter(services))
        path = "/" if services[unit]["api"] == "ollama" else "/health"
        made.fields["ready"] = {"unit": unit, "port": served[0].port, "path": path}


def _machine(made: Recorded, record: HostRecord) -> None:
    """Add GPUs, processors and memory."""
    gpus = facts_parse.gpu_rows(record.facts.text("gpus"))
    driver = facts_parse.driver_view(record.facts.text("gpu_header"), record.facts.text("hardware"), gpus)
    if gpus:
        card = str(gpus[0].get("name") or "GPU")
        capability = next((value for pattern, value in _CAPABILITY if re.search(pattern, card)), None)
        if capability is None:
            made.todo.append(f"hardware.capability: the CUDA compute capability of {card}; it stands as 0.0")
        drawn = [row["power_w"] for row in gpus if isinstance(row.get("power_w"), int | float)]
        given = {
            "gpu_name": card,
            "count": len(gpus),
            "memory_mib": gpus[0].get("memory_mib"),
            "capability": list(capability or (0, 0)),
            "power_limit_w": gpus[0].get("power_limit_w"),
            "idle_w": min(drawn) if drawn else None,
            "cuda": driver["cuda"],
            "driver": driver["nvidia"],
        }
        made.fields["hardware"] = {key: value for key, value in given.items() if value is not None}
        if made.fields["hardware"].get("memory_mib") is None:
            made.fields["hardware"]["memory_mib"] = 1
            made.todo.append("hardware.memory_mib: the cards did not tell it")
        if len({row.get("name") for row in gpus}) > 1:
            made.missing.append("the other kinds of GPU; all are as the first one")
    seen = facts_parse.hardware_view(record.facts.text("hardware"))
    shm = next(
        (row for row in facts_parse.disk_rows(record.facts.text("disks")) if row["mount"] == "/dev/shm"), None
    )
    host = {
        "cpus": seen.get("cpus") or None,
        "cpu_model": seen.get("cpu_model"),
        "memory_gib": seen.get("memory_gib") or None,
        "shm_mib": round(shm["size_gib"] * 1024) if shm and 0 < shm["size_gib"] * 1024 <= 256 else None,
    }
    if host := {key: value for key, value in host.items() if value is not None}:
        made.fields["host"] = host


def _history(
    made: Recorded,
    record: HostRecord,
    log: capture_journal.Read,
    sites: Sequence[str],
) -> None:
    past = [line for line in log.entries if line.at < record.zero - 1]
    kept = capture_journal.bounded(past)
    if len(past) > len(kept):
        made.missing.append(f"{len(past) - len(kept)} of {len(past)} log lines, most of which repeat others")
    booted = facts_parse.boot_time(record.facts.text("os"))
    made.fields["boots"] = capture_journal.boots(log, booted, record.zero)
    if history := capture_journal.history(kept, record.zero, [capture_units.here(site) for site in sites]):
        for item in history.values():
            item["text"] = capture_units.here(item["text"])
        made.fields["history"] = history


def _unanswered(record: HostRecord, served: Sequence[Engine]) -> list[str]:
    """Return what was asked of the host and a lab host does not answer from what was recorded."""
    ports = {engine.port for engine in served}
    found = [
        f"what port {port} answers at {path}" for port, path, _ in asked_urls(record) if port not in ports
    ]
    for output in record.outputs:
        if output.command and not _ANSWERED.match(output.command):
            found.append(f"the output of: {' '.join(output.command.split())[:160]}")
        elif output.tool == "grep" and output.ref.path is None and output.arguments.get("path"):
            found.append(f"files searched below {output.arguments['path']}, but for those that were read")
    listening = facts_parse.port_rows(record.facts.text("ports"))
    others = sorted({row["port"] for row in listening} - ports)
    if others:
        found.append(f"what listens on port {', '.join(map(str, others[:12]))}")
    return found


def _check(made: Recorded) -> None:
    """Raise `UsageError` when the scenario would not load: one line that says which field is at fault."""
    try:
        Scenario.model_validate(made.fields)
    except ValidationError as error:
        raise UsageError(
            f"the host cannot be recorded as it is: {first_wrong(error, 'scenario').text[:240]}",
            do="write the scenario by hand, see docs/scenarios.md",
        ) from None
