"""Types of a trial: what was measured, before and after, and what the comparison says. No I/O."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from agent.closed_record import Record

TrialVerdict = Literal["improved", "worse", "no_effect", "inconclusive"]
Scalar = bool | int | float | str | None


class Level(Record):
    """Hold the repeats of a measurement at one concurrency."""

    concurrency: int
    throughput: list[float] = Field(
        description="Decode tok/s of all requests together, one a repeat: concurrency x speed of one."
    )
    total: list[float] = Field(
        default_factory=list, description="Output tok/s over the whole of each repeat, waiting included."
    )
    errors: int = 0
    power_w: float | None = Field(default=None, description="Mean over GPUs and repeats.")


class Measurement(Record):
    """Hold one measurement of a service: its repeats, and what the server said of itself beside it."""

    artifact: str = Field(description="Handle of the benchmark's own figures, with the outputs' digests.")
    taken_at: datetime
    seed: int = Field(description="Prompts follow from it; a comparison uses the same.")
    levels: list[Level]
    observed: dict[str, Scalar] = Field(
        default_factory=dict, description="Mechanism metrics, and the changed setting as it is in force."
    )
    state: str = Field(default="", description="Digest of the settings in force; empty: not told.")
    notes: list[str] = Field(default_factory=list)


class LevelComparison(Record):
    """Compare two measurements at one concurrency; the interval is that of the ratio, at 99 %."""

    concurrency: int
    before: float | None
    after: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: TrialVerdict
    repeats: int
    why: str = ""


class MechanismValue(Record):
    """Hold one metric before and after."""

    name: str
    before: Scalar
    after: Scalar
    moved: bool


OutputsState = Literal["equal", "changed", "not_comparable", "equality_open", "nothing_compared"]
"""``equality_open``: not comparable, although the change's own caution asks for equal outputs."""


class LevelOutputs(Record):
    """Compare the greedy outputs at one concurrency, with what the server changes in them by itself."""

    concurrency: int
    equal: bool | None = Field(description="None: the server did not reproduce its own before the change.")
    compared: int
    different: int
    repeated: int = Field(description="Prompts sent twice before the change; 0: none were.")
    unlike: int = Field(description="Of these, answered in two ways by the same configuration.")
    repeated_after: int = 0
    unlike_after: int = 0
    why: str = ""


class Comparison(Record):
    """Say what a change did: per concurrency, its mechanism, its outputs, and whether it is kept."""

    levels: list[LevelComparison]
    verdict: TrialVerdict
    mechanism: list[MechanismValue] = Field(default_factory=list)
    mechanism_moved: bool | None = Field(description="None: not observable.")
    mechanism_says: str
    effective: MechanismValue | None = Field(default=None, description="The changed setting as in force.")
    outputs_equal: bool | None = Field(
        description="Greedy outputs; None: nothing could be compared, or not everywhere (outputs_state)."
    )
    outputs_compared: int = Field(description="Where the server reproduces its own outputs.")
    outputs_different: int
    outputs_state: OutputsState | None = Field(default=None, description="None: recorded before it was told.")
    outputs_says: str = ""
    outputs: list[LevelOutputs] = Field(default_factory=list, description="By concurrency.")
    kept: bool
    why: str
