"""What the baseline answers, and the events that follow from it: what was found again is evidence. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import Field

from agent.events import Event, EvidenceAdded, HypothesisMoved
from agent.state import (
    Change,
    Citation,
    Cite,
    Claim,
    Conclusion,
    Evidence,
    EvidenceKind,
    EvidenceLink,
    Hypothesis,
    JudgementCheck,
    LogClaim,
    OpinionClaim,
    Prediction,
    RuledOut,
    SymptomOutcome,
)
from tools.contract import Args

NOT_STATED = "not stated"
"""Stands where a record has a field that a plain agent is not asked for."""

Value = str | int | float | bool | None


class QuoteArgs(Args):
    """Quote what a command printed."""

    quote: str = Field(min_length=1, max_length=2000, description="Exact text, as it was printed.")
    seen_in: str = Field(
        min_length=1, description="Id of the command that printed it, such as t3, or the path of the file."
    )
    kind: EvidenceKind = Field(default="log", description="What the quoted text is.")
    shows: str = Field(default="", description="What it shows, in a sentence.")


class CauseArgs(Args):
    """State one cause."""

    statement: str = Field(min_length=1)
    evidence: list[QuoteArgs] = Field(default_factory=list)


class FixArgs(Args):
    """State one fix; ``to`` null: the setting is left out."""

    unit: str
    setting: str = Field(min_length=1, description="One flag, environment variable or unit directive.")
    from_value: Value = Field(default=None, alias="from")
    to_value: Value = Field(alias="to", description="null: leave the setting out.")
    applied: bool = Field(description="Is it in force on the host now?")
    predicted_effect: str = ""
    causes: list[int] = Field(default_factory=list, description="Which of `causes` it cures, counted from 1.")


class RuledOutArgs(Args):
    """Name a cause that it is not."""

    statement: str = Field(min_length=1)
    because: str
    evidence: list[QuoteArgs] = Field(default_factory=list)


class SubmitArgs(Args):
    """Hold the whole answer."""

    outcome: SymptomOutcome
    causes: list[CauseArgs] = Field(default_factory=list)
    fixes: list[FixArgs] = Field(default_factory=list)
    ruled_out: list[RuledOutArgs] = Field(default_factory=list)
    summary: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold one quoted piece: how a claim cites it, and its citation when it was found again."""

    given: QuoteArgs
    cite: Cite
    citation: Citation | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold a submitted answer with its pieces looked up: those of each cause, of each thing ruled out."""

    args: SubmitArgs
    causes: Sequence[Sequence[Piece]]
    ruled_out: Sequence[Sequence[Piece]]


@dataclass(slots=True)
class Told:
    """Collect what an answer becomes: events of the ledger, and the conclusion."""

    events: list[Event] = field(default_factory=list)
    hypotheses: list[Hypothesis] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    evidence: int = 0

    def add(self, statement: str, pieces: Sequence[Piece], *, cause: bool) -> Hypothesis:
        """State a hypothesis with the evidence that was found for it, or against it."""
        found = Hypothesis(
            id=f"H{len(self.hypotheses) + 1}",
            statement=statement,
            rank=len(self.hypotheses) + 1,
            predictions=[_prediction(number, piece, cause=cause) for number, piece in enumerate(pieces, 1)],
        )
        for number, piece in enumerate(pieces, 1):
            says = piece.given.shows or statement
            self.claims.append(LogClaim(says=says, cite=piece.cite))
            if piece.citation is None:
                continue
            self.evidence += 1
            proof = Evidence(
                id=f"E{self.evidence}",
                kind=piece.given.kind,
                citation=piece.citation,
                note=piece.given.shows,
            )
            self.events.append(EvidenceAdded(evidence=proof))
            found.links.append(
                EvidenceLink(evidence=proof.id, prediction=f"P{number}", matched=True, judged=True)
            )
        if not pieces and cause:
            self.claims.append(OpinionClaim(says=statement))
        if found.links:
            found.status = "supported" if cause else "refuted"
        self.hypotheses.append(found)
        self.events.append(HypothesisMoved(hypothesis=found))
        return found


def _prediction(number: int, piece: Piece, *, cause: bool) -> Prediction:
    says = piece.given.shows or f"The output holds: {piece.given.quote}"
    return Prediction(
        id=f"P{number}", favours="for" if cause else "against", says=says, check=JudgementCheck()
    )


def tell(answer: Answer) -> tuple[Told, list[RuledOut]]:
    """Return hypotheses, evidence and claims of an answer, and what evidence rules out."""
    told = Told()
    args = answer.args
    for cause, pieces in zip(args.causes, answer.causes, strict=True):
        told.add(cause.statement, pieces, cause=True)
    ruled: list[RuledOut] = []
    for item, pieces in zip(args.ruled_out, answer.ruled_out, strict=True):
        found = told.add(item.statement, pieces, cause=False)
        if found.status == "refuted":
            ruled.append(RuledOut(hypothesis=found.id, because=item.because))
    return told, ruled


def conclude(answer: Answer, told: Told, ruled: list[RuledOut], changes: Sequence[Change]) -> Conclusion:
    """Return the conclusion: every cause and every fix that the answer names, whatever was found for them."""
    return Conclusion(
        outcome=answer.args.outcome,
        summary=answer.args.summary,
        causes=[item.id for item in told.hypotheses[: len(answer.args.causes)]],
        claims=told.claims,
        ruled_out=ruled,
        changes=[change.id for change in changes],
    )


def change_of(number: int, host: str, fix: FixArgs, causes: Sequence[CauseArgs]) -> Change:
    """Return a fix as a proposed change; whether it is in force, the host says later."""
    cured = [place for place in fix.causes if 1 <= place <= len(causes)]
    return Change(
        id=f"C{number}",
        host=host,
        unit=fix.unit,
        setting=fix.setting,
        from_value=_text(fix.from_value),
        to_value=_text(fix.to_value),
        reason="; ".join(causes[place - 1].statement for place in cured) or NOT_STATED,
        hypotheses=[f"H{place}" for place in cured],
        predicted_effect=fix.predicted_effect or NOT_STATED,
        mechanism=NOT_STATED,
        rollback=NOT_STATED,
    )


def _text(value: Value) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
