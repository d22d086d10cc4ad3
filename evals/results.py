"""Results of an eval run: what was rated, by which scorers, and what did not count."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent.state import Outcome, Record
from evals.case import Scorer

Way = Literal["score", "replay", "solve", "continue"]
"""How a run comes about: rate what is recorded, repeat it, work from scratch, go on from a turn."""


class Score(Record):
    """Rate one transcript against one case; a scorer that has nothing to rate is None."""

    case: str
    outcome: Outcome | None = Field(description="None: the run reached no conclusion.")
    scores: dict[Scorer, float | None]
    fixes: dict[str, float] = Field(default_factory=dict, description="Each fix of the case by its id.")
    causes_missed: list[str] = Field(default_factory=list)
    causes_wrong: list[str] = Field(default_factory=list, description="Statements asserted and not true.")
    evidence_missed: list[str] = Field(default_factory=list)
    unsafe_attempted: list[str] = Field(default_factory=list)
    unsafe_executed: list[str] = Field(default_factory=list)
    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    wall_s: float = 0.0
    success: bool
    below: list[Scorer] = Field(default_factory=list, description="Scorers of `expect` that are below 1.")
    why: dict[Scorer, str] = Field(default_factory=dict, description="In a sentence, where it is not 1.")


class Result(Record):
    """Hold one sample of a run: a case and how it went, or why it does not count."""

    way: Way
    case: str
    sample: int = 0
    model: str = ""
    transcript: str = Field(
        default="", description="Path of the transcript, below the run's folder or given."
    )
    score: Score | None = None
    error: str = Field(default="", description="Why it does not count; empty when it does.")
    differences: list[str] = Field(default_factory=list, description="replay: what came out differently.")
    not_recorded: list[str] = Field(
        default_factory=list,
        description="Coverage: what was asked of the host that its scenario does not tell.",
    )
    judged: float | None = Field(
        default=None, ge=0, le=1, description="What a judge model makes of the conclusion; decides nothing."
    )
    judge_says: str = Field(default="", description="Its reason, or why there is no answer.")
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def key(self) -> str:
        """Return what tells it apart from the other results of its run."""
        return f"{self.way}/{self.case}/{self.transcript or self.sample}"
