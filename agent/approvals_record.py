"""One approval as every surface sees it, and the seal that tells our own records from edited ones.

The seal is an HMAC over the whole record with a key of this installation (``approvals.key``, 0600, in the
state folder). It protects from whoever can write the store but not read the key: a restored or copied
database, a file that was edited in place, another installation's row, a bug that writes half a record. It
does not protect from the user the program runs as: they can read the key, seal what they like, and could
run any command on the hosts themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from agent.errors import LeadlineError, UsageError
from agent.roles import Person
from agent.state import Record
from agent.whole_file import put_whole

State = Literal["waiting", "approved", "denied", "voided", "expired", "used"]

NEXT: Final[dict[State, frozenset[State]]] = {
    "waiting": frozenset({"approved", "denied", "voided", "expired"}),
    "approved": frozenset({"used", "voided", "expired"}),
    "denied": frozenset(),
    "voided": frozenset(),
    "expired": frozenset(),
    "used": frozenset(),
}
"""Where a record may go from each state; four of them are ends."""

KEY = "approvals.key"
_KEY_BYTES = 32


class ApprovalRefused(UsageError):
    """Report a decision that does not count: wrong plan, wrong person, too late, or not the first."""


class ApprovalForged(ApprovalRefused):
    """Report a stored approval that does not carry this installation's seal."""


class ApprovalRecord(Record):
    """Hold one plan that waits for a decision, and what became of it."""

    id: str
    thread: str
    change: str
    digest: str = Field(description="sha256 of the plan; the plan itself stands in the thread's transcript.")
    host: str
    host_key: str | None
    unit: str
    setting: str
    requester: Person
    risk: list[str] = Field(description="What the change touches, one line each.")
    policy_digest: str
    created_at: datetime
    expires_at: datetime
    state: State = "waiting"
    decided_by: Person | None = None
    decided_at: datetime | None = None
    reason: str = Field(default="", description="Of a denial, or why it is void.")

    def canonical(self) -> bytes:
        """Return the record as the one JSON text that is sealed."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()


def id_of(thread: str, change: str, digest: str) -> str:
    """Return the id of the approval of a plan: the same however often it is asked for."""
    return hashlib.sha256(json.dumps([thread, change, digest]).encode()).hexdigest()[:12]


def seal_of(key: bytes, record: ApprovalRecord) -> str:
    """Return the seal of a record."""
    return hmac.new(key, b"leadline approval 1\n" + record.canonical(), hashlib.sha256).hexdigest()


def read_key(state_dir: Path) -> bytes:
    """Return this installation's key, made at the first use; raise when others could read it."""
    path = state_dir / KEY
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        put_whole(path, secrets.token_bytes(_KEY_BYTES))
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        key = file.read(_KEY_BYTES + 1)
    if found.st_uid != state_dir.stat().st_uid or found.st_mode & 0o077:
        raise LeadlineError(
            f"{path} can be read by others, so approvals cannot be trusted",
            do="delete it; what was approved and not used is asked for anew",
        )
    if len(key) != _KEY_BYTES:
        raise LeadlineError(f"{path} is damaged", do="delete it; what was approved is asked for anew")
    return key
