"""What a scenario records of its host's past: boots, and lines of the journal."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_SPAN = re.compile(r"-?(?:\d+(?:\.\d+)?[dhms])+")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def span(text: str) -> float:
    """Return the seconds of a time span such as ``-3d4h`` or ``90s``."""
    if not _SPAN.fullmatch(text):
        raise ValueError(f"{text!r} is not a time span such as -3d4h or 90s")
    total = sum(float(n) * _SECONDS[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)([dhms])", text))
    return -total if text.startswith("-") else total


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Load(_Part):
    """Describe a past stretch of load, as its decode lines tell it."""

    concurrency: int = Field(ge=1)
    minutes: float = Field(gt=0, le=120)
    graphs: bool
    depth: int = Field(default=0, ge=0)
    micro_batch: int = Field(ge=1, description="Requests that share one micro-batch.")
    stages: int = 8
    tensor: int = 1
    workers: int = Field(default=1, description="Data-parallel schedulers; the lines of the first are told.")
    overlap: bool = False
    drafts: bool = Field(default=False, description="Speculative decoding was on.")
    prompt: int = Field(default=128, ge=1, description="Tokens of a prompt; long ones tell their prefill.")
    output: int = Field(default=512, ge=1)
    queued: int = Field(default=0, ge=0)
    slowed: float = Field(default=1.0, ge=1, description="How much longer each step took than usual.")

    @property
    def rank(self) -> str:
        """Return what the lines carry behind the time."""
        parts = (("DP0", self.workers), ("PP0", self.stages), ("TP0", self.tensor))
        return "".join(f" {name}" for name, count in parts if count > 1)


class Line(_Part):
    """Hold recorded lines of the journal: a text, or the decode lines of some load."""

    at: str = Field(description="When, before the lab's start: -3d4h.")
    unit: str = ""
    ident: str = "python"
    pid: int = 0
    priority: int = Field(default=6, ge=0, le=7)
    kernel: bool = False
    text: str = Field(default="", description="One entry a line; {time} becomes the entry's own time.")
    load: Load | None = None

    @field_validator("at")
    @classmethod
    def _past(cls, value: str) -> str:
        if span(value) >= 0:
            raise ValueError("must lie in the past, such as -3d4h")
        return value

    @model_validator(mode="after")
    def _one_of(self) -> Line:
        if bool(self.text) == (self.load is not None):
            raise ValueError("give exactly one of `text` and `load`")
        return self


class Boot(_Part):
    """Give one boot of the host by its first and, unless it is the current one, last moment."""

    start: str
    end: str | None = None

    @field_validator("start", "end")
    @classmethod
    def _span(cls, value: str | None) -> str | None:
        if value is not None:
            span(value)
        return value
