"""Settings of the audit: where copies of its records go, and what happens when one cannot be written."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SystemLog = Literal["off", "syslog", "journald"]

SOCKETS: dict[SystemLog, Path] = {
    "syslog": Path("/dev/log"),
    "journald": Path("/run/systemd/journal/socket"),
}


class AuditSettings(BaseModel):
    """Hold what stands under ``[audit]``; the first copy always lies in the state folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    copy_to: list[Path] = Field(
        default_factory=list,
        description="Further files that get every record, such as one on another machine's mount.",
    )
    syslog: SystemLog = Field(default="off", description="Send every record to the system's log as well.")
    syslog_socket: Path | None = Field(default=None, description="Default: the usual socket of that log.")
    required: bool = Field(
        default=True, description="Is a change refused while a copy or the system's log cannot be written?"
    )
    max_bytes: int = Field(default=16 << 20, ge=1 << 12, description="A larger file is set aside, whole.")
