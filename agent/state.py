"""Types of an investigation: evidence, hypotheses, changes, claims, conclusion, graph state. No I/O."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from agent.answer_table import AnswerTable
from agent.closed_record import Record as Record
from agent.trial_records import Comparison as Comparison
from agent.trial_records import Level as Level
from agent.trial_records import LevelComparison as LevelComparison
from agent.trial_records import LevelOutputs as LevelOutputs
from agent.trial_records import Measurement as Measurement
from agent.trial_records import MechanismValue as MechanismValue
from agent.trial_records import OutputsState as OutputsState
from agent.trial_records import Scalar as Scalar
from agent.trial_records import TrialVerdict as TrialVerdict

Mode = Literal["read-only", "propose", "apply"]
SymptomOutcome = Literal["fixed", "diagnosed", "configuration_fine", "needs_person", "inconclusive"]
"""How an investigation of a symptom may end."""
Outcome = Literal[SymptomOutcome, "answered", "not_known"]
"""A question is answered, or nothing that could be read says so; both are ends in good order."""
HypothesisStatus = Literal["open", "supported", "refuted", "confirmed"]
EvidenceKind = Literal["source", "log", "configuration", "measurement", "absence"]
ChangeStatus = Literal["proposed", "approved", "applied", "verified", "rolled_back"]
Verdict = Literal["true", "false", "unknown"]


class Cite(Record):
    """Say where a quote stands, as a model writes it: artifact handle, line range if known, exact text."""

    artifact: str = Field(description="Handle from a tool result, such as t7.1.")
    quote: str = Field(min_length=1, description="Exact text; runs of white space compare as one space.")
    lines: tuple[int, int] | None = Field(
        default=None, description="First and last line, counted as the tool result shows them."
    )


class Citation(Record):
    """Name a quote that was found again in the stored output; every rendered form comes from here."""

    artifact: str
    sha256: str
    host: str
    path: str | None = None
    label: str
    version: str | None = None
    lines: tuple[int, int]
    quote: str
    taken_at: datetime

    def render(self) -> str:
        """Return ``host:path:line@version#sha256`` with the digest shortened."""
        short = self.label if len(self.label) <= 60 else f"{self.label[:57]}..."
        where = self.path or f"{self.artifact} ({short})"
        version = f"@{self.version}" if self.version else ""
        return f"{self.host}:{where}:{self.lines[0]}{version}#{self.sha256[:12]}"


class TextCheck(Record):
    """Expect a text (RE2 syntax) to be present in, or absent from, the cited quote."""

    kind: Literal["text"] = "text"
    pattern: str
    present: bool = True


class ValueCheck(Record):
    """Expect the number that ``pattern``'s first group finds in the cited quote to compare as said."""

    kind: Literal["value"] = "value"
    pattern: str
    op: Literal["<", "<=", "==", "!=", ">=", ">"]
    value: float


class RatioCheck(Record):
    """Expect the ratio of the first two numbers that ``pattern`` finds in the quote to compare as said."""

    kind: Literal["ratio"] = "ratio"
    pattern: str
    op: Literal["<", "<=", ">=", ">"]
    value: float


class JudgementCheck(Record):
    """Leave the match to the model's judgement; stored and shown as judgement."""

    kind: Literal["judgement"] = "judgement"


Check = Annotated[TextCheck | ValueCheck | RatioCheck | JudgementCheck, Field(discriminator="kind")]


class Prediction(Record):
    """State, before looking, what would be seen if the hypothesis were true (`for`) or false (`against`)."""

    id: str = Field(description="Unique inside the hypothesis, such as P1.")
    favours: Literal["for", "against"]
    says: str
    check: Check


class Evidence(Record):
    """Hold one checked quote under an id (E1, E2, ...)."""

    id: str
    kind: EvidenceKind
    citation: Citation
    note: str = ""


class EvidenceLink(Record):
    """Tie evidence to the prediction it was cited for, and whether the prediction's check matched."""

    evidence: str
    prediction: str
    matched: bool
    judged: bool = Field(default=False, description="True when the match is a model's judgement.")


class Hypothesis(Record):
    """State a possible cause with its predictions; its status is computed from the links alone."""

    id: str
    statement: str
    rank: int
    predictions: list[Prediction]
    links: list[EvidenceLink] = Field(default_factory=list)
    status: HypothesisStatus = "open"


class Change(Record):
    """Describe the smallest change that a supported hypothesis asks for."""

    id: str
    host: str
    unit: str
    setting: str
    from_value: str | None
    to_value: str | None = Field(description="None: the setting is left out, so that its default holds.")
    reason: str
    hypotheses: list[str]
    predicted_effect: str
    mechanism: str = Field(description="The metric that must move, or why none can be observed.")
    rollback: str
    cautions: list[str] = Field(default_factory=list)
    instructions: list[str] = Field(
        default_factory=list, description="Steps for a person, where no unit starts the engine."
    )
    status: ChangeStatus = "proposed"


class SettingClaim(Record):
    """Claim the value of a setting in one layer; the quote holds its name and value."""

    type: Literal["setting"] = "setting"
    says: str
    name: str
    value: str
    layer: Literal["default", "requested", "effective", "observed"]
    cite: Cite


class GuardFact(Record):
    """Name a value that decides a guard, and where it stands (None: the argument's default in the source)."""

    name: str
    value: str
    cite: Cite


class GuardClaim(Record):
    """Claim whether a condition in the source lets the statement run, and by which facts."""

    type: Literal["guard"] = "guard"
    says: str
    statement: Cite
    condition: Cite = Field(description="The whole condition as written, such as `if not self.enable_mis:`.")
    verdict: Verdict = Field(
        description="true: it lets the statement run; false: it keeps it from running (early return taken)."
    )
    facts: list[GuardFact] = Field(default_factory=list)


class LogClaim(Record):
    """Claim that an event stands in a log or in command output."""

    type: Literal["log_event"] = "log_event"
    says: str
    cite: Cite


class Number(Record):
    """Take one number out of a quote by a pattern with one group."""

    cite: Cite
    pattern: str


class MeasurementClaim(Record):
    """Claim a number, and how it is computed from quoted numbers (names, + - * /, min, max)."""

    type: Literal["measurement"] = "measurement"
    says: str
    value: float
    unit: str = ""
    expression: str
    numbers: dict[str, Number]
    tolerance: float = Field(default=0.01, ge=0, le=0.1, description="Relative.")


class AbsenceClaim(Record):
    """Claim that a search found nothing: the call, its pattern and scope; it must not be truncated."""

    type: Literal["absence"] = "absence"
    says: str
    call: str = Field(description="Id of the grep, journal or run call that searched, such as t9.")
    pattern: str
    scope: str


class OpinionClaim(Record):
    """Say what no evidence covers; shown as opinion."""

    type: Literal["opinion"] = "opinion"
    says: str


Claim = Annotated[
    SettingClaim | GuardClaim | LogClaim | MeasurementClaim | AbsenceClaim | OpinionClaim,
    Field(discriminator="type"),
]


class RuledOut(Record):
    """Name a hypothesis that does not hold and say why in a sentence."""

    hypothesis: str
    because: str


class Concluded(Record):
    """Hold what every end says: what it is, the claims that carry it, what was ruled out, what comes next."""

    outcome: Outcome
    summary: str
    causes: list[str] = Field(default_factory=list, description="Ids of supported or confirmed hypotheses.")
    claims: list[Claim]
    ruled_out: list[RuledOut] = Field(default_factory=list)
    changes: list[str] = Field(default_factory=list, description="Ids of changes proposed or applied.")
    inherent: list[str] = Field(
        default_factory=list, description="What the symptom holds that no setting changes, and why."
    )
    next_step: str = ""


class Conclusion(Concluded):
    """End an investigation, or answer a question."""

    table: AnswerTable | None = Field(
        default=None, description="Rows of the answer to a question; hosts with the same answer in one row."
    )


class ClaimCheck(Record):
    """Say whether the verifier could establish one claim, and if not, why."""

    index: int
    status: Literal["verified", "unverified", "opinion"]
    why: str = ""
    citations: list[Citation] = Field(default_factory=list)


class ToolCall(Record):
    """Name one tool call of a turn; ``arguments`` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class Usage(Record):
    """Count what one model turn used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    estimated: bool = Field(
        default=False, description="True when tokens are counted as bytes / 4, since the server did not say."
    )


class AssistantTurn(Record):
    """Hold what a model said in one turn: text, reasoning if any, and tool calls."""

    text: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = Field(default_factory=list)
    usage: Usage = Field(default_factory=Usage)


Message = dict[str, Any]
"""One chat message in the OpenAI wire form (role, content, tool_calls, tool_call_id)."""


class GraphState(TypedDict, total=False):
    """What a checkpoint holds: small and of constant size; everything else is in the transcript."""

    thread: str
    turn: int
    route: Literal["reason", "act", "review", "experiment", "conclude", "end"]
    sent_back: int
    approved: str
    """Digest of the plan that was approved or denied at the last review."""
