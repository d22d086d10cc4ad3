"""Settings of the chat in a terminal."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ChatSettings(BaseModel):
    """Hold how the chat is typed at and when it calls."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vi: bool = Field(default=False, description="Edit the input line with the keys of vi.")
    bell: bool = Field(default=True, description="Ring when a person is needed or an answer is there.")
