"""Settings of notes: which files besides the site's and the person's are read and shown to the model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class NotesSettings(BaseModel):
    """Hold what stands under ``[notes]``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: bool = Field(
        default=False, description="Is the nearest AGENTS.md, from the current folder up, read as well?"
    )
    on_hosts: str | None = Field(
        default=None,
        pattern=r"^/[^\n]*$",
        description="A file of notes on the hosts themselves, such as /etc/leadline/notes.md; never trusted.",
    )
