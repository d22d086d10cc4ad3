"""Parts of a case that asks a question of several hosts: what was before, and what the answer must hold."""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

DOWN: Final = "down"
"""In the place of a scenario: the host is named, and nothing is there."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Earlier(_Part):
    """Say what a host was like at an earlier look: as it is now, but for these facts."""

    hours: float = Field(gt=0, description="How long before the question.")
    facts: dict[str, str | None] = Field(
        default_factory=dict, description="What was otherwise, by the fact's name; null: it was not there."
    )


class Wanted(_Part):
    """Say what a right answer holds; patterns are searched for, case ignored."""

    rows: list[str] = Field(default_factory=list, description="Each finds one row, cells joined by ' | '.")
    no_rows: list[str] = Field(default_factory=list, description="None of these finds a row.")
    says: list[str] = Field(default_factory=list, description="Each stands in the summary.")
    not_says: list[str] = Field(
        default_factory=list, description="None stands in summary, table or next step."
    )
    turns: int = Field(ge=1, description="Turns of the model, at most.")

    @field_validator("rows", "no_rows", "says", "not_says")
    @classmethod
    def _are_patterns(cls, values: list[str]) -> list[str]:
        for value in values:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{value!r} is no pattern: {error}") from None
        return values
