"""Compare derived settings with recorded ones: what an engine's argument code really made of launch lines.

Two forms of record are read: the compact JSON object kept with the tests (hardware and model configurations
in it), and JSON lines with every field, whose models lie as folders beside them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.lab.engine_args import Effective, LabArgumentError, derive
from evals.lab.engine_facts import Hardware

DRAWN = re.compile(r"\b[0-9a-f]{32}\b|<uuid>")
"""Identifiers drawn at random; they are compared as if they were equal."""


@dataclass(frozen=True, slots=True)
class Record:
    """Hold one launch line and what was recorded of it."""

    ident: str
    argv: list[str]
    environ: dict[str, str]
    hardware: Hardware
    models: Mapping[str, Mapping[str, Any]]
    fields: dict[str, Any]
    stage: str
    """Where it stopped: ``parse``, ``post_init``, ``check``, or ``done``."""
    error: str
    message: str


@dataclass(slots=True)
class Agreement:
    """Count records that agree, and say where others differ."""

    records: int = 0
    fields: int = 0
    differences: list[str] = field(default_factory=list)
    disagreeing: set[str] = field(default_factory=set)

    @property
    def agreeing(self) -> int:
        """Return how many records agree in everything that was recorded."""
        return self.records - len(self.disagreeing)


def read(path: Path, models: Path | None = None) -> Iterator[Record]:
    """Read records of either form; ``models`` is the folder of model folders for JSON lines."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        found = {
            p.parent.name: json.loads(p.read_text("utf-8")) for p in (models or path).glob("*/config.json")
        }
        for line in text.splitlines():
            raw = json.loads(line)
            yield _record(raw, _hardware_of(raw["hardware"]), found)
        return
    whole = json.loads(text)
    kinds = {
        name: Hardware(**{**h, "capability": tuple(h["capability"])}) for name, h in whole["hardware"].items()
    }
    for raw in whole["records"]:
        yield _record(raw, kinds[raw["hardware"]], whole["models"])


def _hardware_of(raw: Mapping[str, Any]) -> Hardware:
    return Hardware(
        gpu_name=raw["name"],
        count=raw["count"],
        memory_mib=raw["mem_mib"],
        capability=tuple(raw["capability"]),
        cuda=raw["torch_version_cuda"],
    )


def _record(raw: Mapping[str, Any], hardware: Hardware, models: Mapping[str, Mapping[str, Any]]) -> Record:
    check = raw.get("check")
    fails = (isinstance(check, dict) and not check["ok"]) or check is False
    error = (check["exception"] if isinstance(check, dict) and fails else raw.get("exception")) or {}
    fields = dict(raw.get("fields") or {})
    if isinstance(check, dict):
        fields |= check.get("changed") or {}
    return Record(
        ident=raw["id"],
        argv=raw["argv"],
        environ=raw["env"],
        hardware=hardware,
        models=models,
        fields=fields,
        stage=("check" if fails else "done") if raw["ok"] else raw["stage"],
        error=error.get("type", ""),
        message=error.get("message", ""),
    )


def compare(package_dir: Path, records: Iterator[Record]) -> Agreement:
    """Derive every record's settings anew and compare."""
    result = Agreement()
    for record in records:
        result.records += 1
        result.fields += len(record.fields)
        for text in differences(package_dir, record):
            result.differences.append(f"{record.ident}: {text}")
            result.disagreeing.add(record.ident)
    return result


def differences(package_dir: Path, record: Record) -> list[str]:
    """Return in words what of one record differs."""
    try:
        got = derive(
            package_dir,
            record.argv,
            hardware=record.hardware,
            config=lambda path: record.models.get(path.rsplit("/", 1)[-1]),
            environ=record.environ,
        )
    except LabArgumentError as error:
        return [str(error)]
    if got.stage != record.stage:
        return [f"stopped at {got.stage} ({got.error}: {got.message[:200]}), recorded is {record.stage}"]
    found = [
        f"{name} is {got.fields.get(name)!r}, recorded is {value!r}"
        for name, value in record.fields.items()
        if _masked(got.fields.get(name)) != _masked(value)
    ]
    if not _same_error(got, record):
        found.append(
            f"{got.error}: {got.message[:200]!r}, recorded is {record.error}: {record.message[:200]!r}"
        )
    return found


def _same_error(got: Effective, record: Record) -> bool:
    if record.error == "SystemExit":
        return got.error == "SystemExit" and record.message in got.output
    return (got.error, got.message) == (record.error, record.message)


def _masked(value: Any) -> Any:
    return DRAWN.sub("<drawn>", json.dumps(value, sort_keys=True))
