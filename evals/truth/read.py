"""Read records: JSON lines as `make` writes them, or the compact form that is kept with the tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from agent.errors import LeadlineError
from tools.settings.types import Engine

UUID: Final = "<uuid>"
_SEEDS: Final[Mapping[Engine, str]] = {"sglang": "random_seed"}
_SEED_FLAGS: Final = ("--random-seed", "--random-seed=")


class RecordError(LeadlineError):
    """Report that a file holds no records."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Hold one launch line and what the engine's own argument code made of it."""

    ident: str
    engine: Engine
    version: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    hardware: Mapping[str, Any]
    fields: Mapping[str, Any]
    """Every field as the scheduler gets it; empty when the line was refused."""
    accepted: bool
    refusal: str
    packages: Mapping[str, str] | None = None
    """What was installed; None: by the wheel's requirements."""

    def drawn(self, name: str) -> bool:
        """Tell whether a field's value was drawn at random, so that nobody can know it."""
        if name == _SEEDS.get(self.engine):
            return not any(word.startswith(_SEED_FLAGS) for word in self.argv)
        return UUID in json.dumps(self.fields[name])


@dataclass(frozen=True, slots=True)
class RecordFile:
    """Hold the records of one release."""

    path: Path
    engine: Engine
    version: str
    records: tuple[Recorded, ...]


def read(path: Path) -> RecordFile:
    """Return the records of a file; raise `RecordError` when it holds none."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            rows = [json.loads(line) for line in text.splitlines()]
        else:
            rows = list(_whole(json.loads(text)))
        packages = rows[0].get("packages")
        records = tuple(_recorded(row, packages) for row in rows)
    except (OSError, EOFError, ValueError, KeyError, IndexError, TypeError) as error:
        raise RecordError(
            f"{path}: no records of launch lines ({type(error).__name__}: {error})",
            do="name a file that `python -m evals.truth make` wrote",
        ) from None
    return RecordFile(path, records[0].engine, records[0].version, records)


def _whole(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give compact records their hardware, packages and the fields they share with the first."""
    base = whole["fields"]
    for row in whole["records"]:
        full = {**row, "hardware": whole["hardware"][row["hardware"]], "packages": whole["packages"]}
        if "fields" in row:
            kept = {name: value for name, value in base.items() if name not in row["without"]}
            full["fields"] = kept | row["fields"]
        yield full


def _recorded(row: Mapping[str, Any], packages: Mapping[str, str] | None) -> Recorded:
    check = row.get("check") or {"ok": True}
    accepted = bool(row["ok"] and check["ok"])
    error = row.get("exception") or check.get("exception") or {}
    fields = {**row["fields"], **check.get("changed", {})} if accepted else {}
    return Recorded(
        ident=row["id"],
        engine=cast(Engine, row["engine"]),
        version=row["version"],
        argv=tuple(row["argv"]),
        environment=row["env"],
        hardware=row["hardware"],
        fields=fields,
        accepted=accepted,
        refusal=f"{error.get('type', '')}: {error.get('message', '')}" if error else "",
        packages=packages,
    )


def compact(found: RecordFile) -> dict[str, Any]:
    """Return records as one object that repeats little: shared fields and machines once."""
    base = next(record.fields for record in found.records if record.accepted)
    return {
        "hardware": {record.hardware["id"]: dict(record.hardware) for record in found.records},
        "packages": dict(found.records[0].packages) if found.records[0].packages is not None else None,
        "fields": dict(base),
        "records": [_row(record, base) for record in found.records],
    }


def _row(record: Recorded, base: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": record.ident,
        "engine": record.engine,
        "version": record.version,
        "argv": list(record.argv),
        "env": dict(record.environment),
        "hardware": record.hardware["id"],
        "ok": record.accepted,
    }
    if not record.accepted:
        kind, _, message = record.refusal.partition(": ")
        return {**row, "exception": {"type": kind, "message": message}}
    other = {n: v for n, v in record.fields.items() if n not in base or base[n] != v}
    return {**row, "fields": other, "without": sorted(set(base) - set(record.fields))}
