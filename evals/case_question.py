"""Parts of a case that asks a question of several hosts: what was before, and what the answer must hold."""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evals.patterns import stands_anywhere

DOWN: Final = "down"
"""In the place of a scenario: the host is named, and nothing is there."""


class Part(BaseModel):
    """Base of what a case is made of: a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def all_patterns(values: list[str]) -> list[str]:
    """Return values that are patterns; raise `ValueError` that names the first that is none or tells nothing.

    One that stands in every text would make any run right, or every run wrong.
    """
    for value in filter(None, values):
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{value!r} is no pattern: {error}") from None
        if stands_anywhere(value):
            raise ValueError(f"{value!r} stands in any text at all")
    return values


class Earlier(Part):
    """Say what a host was like at an earlier look: as it is now, but for these facts."""

    hours: float = Field(gt=0, description="How long before the question.")
    facts: dict[str, str | None] = Field(
        default_factory=dict, description="What was otherwise, by the fact's name; null: it was not there."
    )


class Wanted(Part):
    """Say what a right answer holds; patterns are searched for, case ignored."""

    rows: list[str] = Field(default_factory=list, description="Each finds one row, cells joined by ' | '.")
    no_rows: list[str] = Field(default_factory=list, description="None of these finds a row.")
    says: list[str] = Field(default_factory=list, description="Each stands in the summary.")
    not_says: list[str] = Field(
        default_factory=list, description="None stands in summary, table or next step."
    )
    turns: int = Field(ge=1, description="Turns of the model, at most.")

    _valid = field_validator("rows", "no_rows", "says", "not_says")(all_patterns)
