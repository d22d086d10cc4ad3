"""One record of the audit, and the line that it is kept as: sealed by its own hash and the one before."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.declared import Effect
from tools.wrong_fields import first_wrong

Kind = Literal[
    "command_started",
    "command_ended",
    "port_opened",
    "login_failed",
    "call_refused",
    "plan_made",
    "approval_asked",
    "approval_given",
    "approval_denied",
    "approval_refused",
    "approval_voided",
    "step_started",
    "step_ended",
    "lease_taken",
    "sink_down",
    "sink_back",
    "torn_line",
    "records_lost",
]

FIRST = "0" * 64
"""What the first record names as the hash of the one before."""

SEQ = re.compile(rb'\{"seq":(\d+),')
"""How a record's line begins, to find its number without reading all of it."""

_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
_SEAL_BYTES = len(b',"hash":""}') + 64


class Entry(BaseModel):
    """Say what happened; what is not known or does not apply is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    who: str = ""
    pid: int = 0
    thread: str | None = None
    host: str | None = None
    host_key: str | None = None
    effect: Effect | None = None
    of: int | None = None
    """Sequence number of the intent that an outcome belongs to."""
    what: str = ""
    command: str | None = None
    sha256: str | None = None
    """Of the command's exact words and of what it was sent, or of a torn line."""
    change: str | None = None
    digest: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    duration_s: float | None = None
    detail: str = ""


class Place(BaseModel):
    """Say where a record stands: its number, its time, its installation, and the hash of the one before."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seq: int
    at: datetime
    installation: str
    prev: str


class AuditRecord(Entry, Place):
    """Hold one record as it was read back."""

    hash: str


class Broken(ValueError):
    """Report a line that is no record, or not the one that was written."""


def seal(place: Place, entry: Entry) -> tuple[bytes, str]:
    """Return the line of a record, without its end, and its hash."""
    data = place.model_dump(mode="json") | entry.model_dump(exclude_defaults=True)
    body = json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode()[:-1]
    digest = hashlib.sha256(body).hexdigest()
    return body + b',"hash":"%s"}' % digest.encode(), digest


def read(line: bytes) -> AuditRecord:
    """Return the record of a line; raise `Broken` when it is none, or was edited after it was sealed."""
    found = _SEAL.search(line)
    try:
        record = AuditRecord.model_validate_json(line)
    except ValidationError as error:
        raise Broken(f"is no record ({first_wrong(error, 'line').text})") from error
    if found is None or hashlib.sha256(line[:-_SEAL_BYTES]).hexdigest() != record.hash:
        raise Broken(f"is not as it was written: record {record.seq} was edited")
    return record
