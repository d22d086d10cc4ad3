"""Read what the built-in model knows for questions about hosts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Phase = Literal["prefill", "decode"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Feature(_Part):
    """Name something that a setting switches off."""

    name: str
    words: str = Field(description="Pattern for how people call it.")
    switched_off: dict[str, dict[str, str]] = Field(
        description="Engine to setting to the value that means off."
    )

    @field_validator("words")
    @classmethod
    def _is_a_pattern(cls, value: str) -> str:
        re.compile(value)
        return value


class Bears(_Part):
    """Name a fact that bears on a phase, and why."""

    name: str
    why: str


class Spoken(_Part):
    """Name the settings that people mean by a few words, one an engine."""

    words: str = Field(description="Pattern for how people call it.")
    settings: list[str] = Field(min_length=1)

    @field_validator("words")
    @classmethod
    def _is_a_pattern(cls, value: str) -> str:
        re.compile(value)
        return value


class Known(_Part):
    """Hold the whole file."""

    features: list[Feature]
    spoken: list[Spoken]
    bears_on: dict[Phase, list[Bears]]


@cache
def known() -> Known:
    """Return what stands in ``questions.yaml``."""
    from prompts.strict_yaml import read

    return Known.model_validate(read(Path(__file__).with_name("questions.yaml").read_text("utf-8"))[0])
