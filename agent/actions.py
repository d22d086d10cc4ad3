"""Arguments of the three tools that act on the investigation itself: its ledger, its changes, its end.

The models here are the schemas that a language model sees, so their descriptions teach how to use the
tools. What the calls do is in ``agent/ledger.py`` and ``agent/verifier.py``.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.state import Concluded, Conclusion, EvidenceKind, Outcome, Prediction, SymptomOutcome
from tools.contract import Args, HostArgs

ActionName = Literal["hypothesis", "propose_change", "conclude"]
"""The tools that the graph itself carries out."""

DESCRIPTIONS: dict[ActionName, str] = {
    "hypothesis": (
        "Add hypotheses to the ledger, or give them evidence and new ranks. Add before you look: source "
        "may be read only once a hypothesis stands, and only evidence gathered after it can confirm it. "
        "Each hypothesis has a unique rank (1 = likeliest) and at least one prediction that would speak "
        "for it and one that would speak against it, each with a check the program can evaluate on a "
        "quote. The status is computed: refuted by matched `against` predictions, supported by matched "
        "`for` predictions, confirmed when every checkable `for` prediction is matched by evidence of two"
        " kinds. The answer lists the ids (H1, E1, ...)."
    ),
    "propose_change": (
        "Propose the smallest change of one setting of one service. Allowed once every named hypothesis "
        "is supported or confirmed and has evidence from source, log or configuration. One setting a "
        "call; nothing on the host changes before a person approves. The answer gives the id (C1, ...)."
    ),
    "conclude": (
        "End the investigation. Every claim is checked against the stored raw output: quotes must be "
        "found, numbers are recomputed, guards are evaluated again. Claims that fail come back once with "
        "the reason. Refused for `diagnosed` and `fixed` while a likelier hypothesis is still open; "
        "`inconclusive` and `needs_person` are always possible and say the next step."
    ),
}
"""What a model reads about each of the three tools."""


class Part(BaseModel):
    """Base of nested arguments: closed, so that a misspelt field is refused with its name."""

    model_config = ConfigDict(extra="forbid")


class NewHypothesis(Part):
    """A possible cause, with what would be seen if it were true and if it were false."""

    statement: str = Field(min_length=1, description="One sentence naming a cause and its effect.")
    rank: int = Field(ge=1, description="Unique among all hypotheses; 1 is the likeliest.")
    predictions: list[Prediction] = Field(
        min_length=2,
        description=(
            "Ids P1, P2, ... At least one with favours=for and one with favours=against. Checks look at "
            "the quote you cite later: text (RE2 pattern present, or absent from a cited line range), "
            "value (first group is a number, compared), ratio (first two numbers compared), judgement "
            "(you decide; say so)."
        ),
    )


class EvidenceArgs(Part):
    """A quote from a tool result, cited for one prediction of the hypothesis."""

    prediction: str = Field(description="Id of the prediction this speaks to, such as P1.")
    kind: EvidenceKind = Field(description="Where the quote comes from; confirming takes two kinds.")
    artifact: str = Field(description="Handle from a tool result, such as t7.1.")
    quote: str = Field(min_length=1, description="Exact text from it; runs of white space compare as one.")
    lines: tuple[int, int] | None = Field(
        default=None,
        description="First and last line as the tool shows them; needed when the check wants a text absent.",
    )
    note: str = Field(default="", description="What the quote means, in a sentence.")
    matches: bool | None = Field(
        default=None, description="Only for predictions with a judgement check: does the quote match it?"
    )


class HypothesisUpdate(Part):
    """New evidence for, or a new rank of, a hypothesis that stands already."""

    id: str = Field(description="Such as H1.")
    rank: int | None = Field(default=None, ge=1, description="New rank; all ranks must differ afterwards.")
    evidence: list[EvidenceArgs] = Field(default_factory=list)


class HypothesisArgs(Args):
    """Arguments of ``hypothesis``; additions are carried out before updates."""

    add: list[NewHypothesis] = Field(default_factory=list)
    update: list[HypothesisUpdate] = Field(default_factory=list)


class ProposeChangeArgs(HostArgs):
    """Arguments of ``propose_change``; describes one setting of one unit."""

    unit: str = Field(description="Service whose launch the change edits, such as sglang.service.")
    setting: str = Field(
        description="Flag as written on the command line (--disable-cuda-graph), environment NAME, or "
        "drop-in for directives of the unit itself (limits, priorities), with from_value left out."
    )
    from_value: str | None = Field(
        default=None, description="Value now; `true` for a bare flag; leave out when it is not set."
    )
    to_value: str | None = Field(
        default=None,
        description="Value wanted; leave out to remove the setting so that its default holds. Of drop-in: "
        "Key=Value; Key=Value.",
    )
    reason: str = Field(min_length=1, description="Why, in a sentence, naming evidence ids.")
    hypotheses: list[str] = Field(min_length=1, description="Ids of the hypotheses that ask for it.")
    predicted_effect: str = Field(
        min_length=1, description="Which number moves to about what, at which concurrency."
    )
    mechanism: str = Field(
        min_length=1,
        description="Metric that must move if the cause is right (cuda graph: True), or why none can be.",
    )
    rollback: str = Field(min_length=1, description="How the old state is restored.")
    cautions: list[str] = Field(default_factory=list, description="What may go wrong and how it would show.")


class ConcludeArgs(Concluded, Args):
    """Arguments of ``conclude``."""

    outcome: SymptomOutcome

    def conclusion(self) -> Conclusion:
        """Return the plain record, as events store it."""
        return Conclusion.model_validate(self.model_dump())


class AnswerArgs(Conclusion, Args):
    """Arguments of ``conclude`` where a question was asked: it may also be answered, or not be known."""

    outcome: Outcome = Field(
        description="answered: what was read says so. not_known: nothing that was read does; never guess."
    )

    def conclusion(self) -> Conclusion:
        """Return the plain record, as events store it."""
        return Conclusion.model_validate(self.model_dump())


ACTION_ARGS: dict[ActionName, type[Args]] = {
    "hypothesis": HypothesisArgs,
    "propose_change": ProposeChangeArgs,
    "conclude": ConcludeArgs,
}
"""Which model validates the arguments of which tool."""
