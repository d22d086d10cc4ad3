"""Types of a change to a service: what is asked, the plan that is approved, and how it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ChangeState = Literal["none", "armed", "applied", "confirmed", "rolled_back", "failed", "unknown"]
"""Where a plan stands on its host; ``unknown`` is never success, and only a person can settle ``failed``."""

Progress = Callable[[str], None]


class ChangeRequest(BaseModel):
    """Ask for one setting of one unit to change; `None` as ``to_value`` removes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: str = Field(description="The systemd unit, such as sglang.service.")
    setting: str = Field(
        description="A flag of the command line (--x), the NAME of an environment variable, or drop-in."
    )
    from_value: str | None = Field(
        description="Its value now; 'true' for a bare flag, null when it is not set."
    )
    to_value: str | None = Field(description="Its value then; 'true' for a bare flag, null to remove it.")


class EnvironmentChange(BaseModel):
    """Name an environment variable that a plan sets or unsets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    before: str | None
    after: str | None


class ChangePlan(BaseModel):
    """Hold everything that is approved; one changed byte of it is another plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    host: str
    host_key: str | None
    unit: str
    setting: str
    from_value: str | None
    to_value: str | None
    exec_start_before: list[str]
    exec_start_after: list[str]
    environment: EnvironmentChange | None
    dropin_path: str
    dropin_text: str
    preimage_sha256: str = Field(description="Of `systemctl cat UNIT` and the list of its drop-ins.")
    diff: str = Field(description="Unified, for people.")
    running_requests: int | None = Field(description="None: could not be read.")
    queued_requests: int | None
    startup_s: float | None = Field(description="Longest start seen in the journal; None: none seen.")
    rollback_after_s: float = Field(description="The armed timer restores the old state after so long.")
    readiness_s: float
    port: int
    blast_radius: list[str]
    restarts_needed: int = Field(description="Starts it uses when it has to be rolled back as well.")
    created_at: datetime
    expires_at: datetime
    clock_skew_s: float = Field(default=0.0, description="How far the host's clock was ahead of ours.")
    undoes: str | None = Field(
        default=None,
        description="Id of the kept plan whose drop-in this one takes away; None: this one writes it.",
    )

    def canonical(self) -> bytes:
        """Return the plan as the one JSON text that its digest is made of.

        A field that older plans lack is left out at its default, so that their digests stay.
        """
        whole = self.model_dump(mode="json")
        if self.clock_skew_s == 0.0:
            del whole["clock_skew_s"]
        if self.undoes is None:
            del whole["undoes"]
        return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()

    def digest(self) -> str:
        """Return the sha256 that an approval is bound to."""
        return hashlib.sha256(self.canonical()).hexdigest()


class ChangeStatus(BaseModel):
    """Tell where a plan stands, as its host says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ChangeState
    detail: str = Field(description="One line for people.")
    reason: str = Field(default="", description="Why it was rolled back or failed; empty otherwise.")
    rolled_back_by: Literal["", "readiness", "timer", "request"] = ""
    stranded: bool = Field(
        default=False, description="The change is there, and no timer will take it back: it must be ordered."
    )
    rollback_at: datetime | None = Field(
        default=None, description="When the armed timer fires, by the host's clock."
    )
    progress: list[str] = Field(
        default_factory=list, description="What the transaction said so far, oldest first."
    )
    notes: list[str] = Field(default_factory=list, description="Checks that could not be made, and why.")
    lines: list[str] = Field(
        default_factory=list, description="The unit's last journal lines before a rollback."
    )


class Applied(BaseModel):
    """Tell how applying ended: only ``applied`` means that the new state runs and answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    outcome: Literal["applied", "rolled_back", "failed", "unknown"]
    plan_id: str
    detail: str
    status: ChangeStatus
    seconds: float


class Finished(BaseModel):
    """Tell how a plan was closed: kept, undone, or not known to be either."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    outcome: Literal["confirmed", "rolled_back", "failed", "unknown"]
    plan_id: str
    detail: str
    status: ChangeStatus
