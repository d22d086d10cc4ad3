"""What a case file holds, in every form: the records that its Markdown, JSON and HTML are made from."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from agent.case_left import LeftRow
from agent.case_trials import Trial
from agent.state import Change, Claim, ClaimCheck, Conclusion, Evidence, Hypothesis, Mode, Outcome, Record


class ClaimRow(Record):
    """One claim as the verifier left it; ``what`` is what was checked, ``claim.says`` the model's words."""

    number: int
    claim: Claim
    check: ClaimCheck
    what: str


class Reason(Record):
    """One link of a hypothesis to evidence, with the prediction it speaks to."""

    prediction: str
    says: str
    favours: str
    matched: bool
    judged: bool
    prior: bool
    evidence: Evidence


class Ledgered(Record):
    """A hypothesis with everything that speaks for or against it."""

    hypothesis: Hypothesis
    reasons: list[Reason]


class TimelineRow(Record):
    """One thing that happened, for people."""

    at: datetime
    turn: int
    what: str
    text: str


class Source(Record):
    """An output that is cited, where its bytes lie, and whether they are still the ones that were read."""

    handle: str
    sha256: str
    label: str
    host: str
    first_line: int
    taken_at: datetime
    intact: bool


class CaseFile(Record):
    """Hold everything that the Markdown, JSON and HTML forms of a case show."""

    schema_version: int = 1
    thread: str
    product: str
    recorded: str
    scenario: str | None
    symptom: str
    hosts: list[str]
    mode: Mode
    started_at: datetime
    last_at: datetime
    outcome: Outcome | None = Field(description="None: not concluded yet.")
    summary: str
    failed: str | None
    conclusion: Conclusion | None
    claims: list[ClaimRow]
    problems: list[str]
    ledger: list[Ledgered]
    changes: list[Change]
    trials: dict[str, Trial] = Field(default_factory=dict, description="What was tried, by change.")
    left: list[LeftRow] = Field(default_factory=list, description="What was left on the hosts.")
    benchmarks: list[dict[str, float | str]]
    sources: list[Source]
    timeline: list[TimelineRow]
    budget: dict[str, float]
    used: dict[str, float]

    def of(self, *types: str) -> list[ClaimRow]:
        """Return the verified claims of some types."""
        return [row for row in self.claims if row.check.status == "verified" and row.claim.type in types]

    def with_status(self, status: str) -> list[ClaimRow]:
        """Return the claims that the verifier left as ``status``."""
        return [row for row in self.claims if row.check.status == status]

    def entry(self, name: str) -> Ledgered | None:
        """Return the ledger's entry of one hypothesis; None when it has none."""
        return next((item for item in self.ledger if item.hypothesis.id == name), None)
