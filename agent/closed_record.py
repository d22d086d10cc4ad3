"""The base of what is stored and read back."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of what is stored and read back: closed, and refused when a field is unknown."""

    model_config = ConfigDict(extra="forbid")
