"""Events of an investigation: transcript schema v1. Later versions only add; readers refuse newer ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from agent.roles import Person
from agent.state import (
    Change,
    ClaimCheck,
    Comparison,
    Conclusion,
    Evidence,
    Hypothesis,
    Measurement,
    Mode,
    Outcome,
    Record,
    ToolCall,
    Usage,
)
from tools.contract import ArtifactRef

SCHEMA_VERSION = 1

ORIENTATION = "orientation"
"""Model of the turn, numbered 0, in which the program itself asks for the facts of every host."""

STDIN = "stdin"
"""Stands where an artifact names its host, for what the person who asks gave on standard input."""

BY_HAND = "by-hand"
"""Model of a turn that a person took: a command typed in the chat, shared with the model."""

Step = Literal["apply", "extend", "confirm", "roll_back"]
"""Steps of a change on its host that the execution ledger records."""

ActionOutcome = Literal[
    "applied", "extended", "confirmed", "rolled_back", "refused", "none", "failed", "unknown"
]
"""How a step ended; ``refused`` and ``none``: nothing on the host was changed."""

Phase = Literal["baseline", "after"]

UNSTAMPED = datetime.fromtimestamp(0, UTC)
"""Time of an event that no transcript has taken in yet; a stored event never has it."""


class EventBase(Record):
    """Carry what every event has: place in the order and time (both set on append), and its turn."""

    seq: int = Field(default=0, ge=0)
    at: datetime = UNSTAMPED
    turn: int = Field(default=0, ge=0)


class Started(EventBase):
    """Open a transcript: what was asked, where, by which model, with which limits."""

    type: Literal["started"] = "started"
    schema_version: int = SCHEMA_VERSION
    thread: str
    product: str = Field(description="Product version.")
    recorded: str = Field(
        description="playbook | openai:MODEL | scripted:FILE | baseline:MODEL | demonstration"
    )
    scenario: str | None = None
    symptom: str
    hosts: list[str]
    mode: Mode
    budget: dict[str, float] = Field(default_factory=dict)
    prompts: dict[str, str] = Field(
        default_factory=dict, description="Prompt file name, or tool:NAME for a tool's schema, to sha256."
    )
    requester: Person | None = Field(
        default=None, description="Who asked for it from elsewhere; null: the user at the terminal."
    )
    question: bool = Field(default=False, description="The symptom is a question about the hosts.")
    log: bool = Field(default=False, description="A log was given along, which is stored next.")


class Resumed(EventBase):
    """Mark that another process took the thread up again."""

    type: Literal["resumed"] = "resumed"
    process: str


class UserMessage(EventBase):
    """Hold what a person said."""

    type: Literal["user_message"] = "user_message"
    text: str
    steers: bool = Field(default=False, description="Said while work went on, which it did not stop.")


class SystemNote(EventBase):
    """Hold what the graph says to the model between turns (a guard's refusal, a budget's warning)."""

    type: Literal["system_note"] = "system_note"
    text: str


class TurnTaken(EventBase):
    """Hold one whole model turn."""

    type: Literal["turn_taken"] = "turn_taken"
    model: str
    text: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = Field(default_factory=list)
    usage: Usage = Field(default_factory=Usage)
    duration_s: float = 0.0
    unheard: int = Field(
        default=0, ge=0, description="How many messages before it were said while it was being taken."
    )


class ToolStarted(EventBase):
    """Record the intent of a call before it runs."""

    type: Literal["tool_started"] = "tool_started"
    call: str = Field(description="Short id of the call, such as t7; prefix of its artifact handles.")
    tool_call_id: str
    tool: str
    host: str | None = None
    describe: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)


class ToolFinished(EventBase):
    """Record what a call returned: the view the model sees and the artifacts behind it."""

    type: Literal["tool_finished"] = "tool_finished"
    call: str
    tool_call_id: str
    tool: str
    host: str | None = None
    status: Literal["ok", "tool_error"]
    view: str
    artifacts: list[ArtifactRef] = Field(default_factory=list)
    duration_s: float = 0.0


class EvidenceAdded(EventBase):
    """Record a quote that the ledger found again in the stored output."""

    type: Literal["evidence_added"] = "evidence_added"
    evidence: Evidence


class HypothesisMoved(EventBase):
    """Record a hypothesis after it was added or changed, with the status it had before."""

    type: Literal["hypothesis_moved"] = "hypothesis_moved"
    hypothesis: Hypothesis
    before: str | None = None


class ChangeMoved(EventBase):
    """Record a change after it was proposed or moved on."""

    type: Literal["change_moved"] = "change_moved"
    change: Change


class ConclusionChecked(EventBase):
    """Record a conclusion and what the verifier made of each claim."""

    type: Literal["conclusion_checked"] = "conclusion_checked"
    conclusion: Conclusion
    checks: list[ClaimCheck]
    accepted: bool
    problems: list[str] = Field(default_factory=list)


class PlanMade(EventBase):
    """Record the whole plan of a change, which an approval is bound to by its digest."""

    type: Literal["plan_made"] = "plan_made"
    change: str
    tool_call_id: str
    plan: dict[str, Any]
    digest: str


class ApprovalAsked(EventBase):
    """Record that a person is asked for a decision on a plan; the run stops here."""

    type: Literal["approval_asked"] = "approval_asked"
    change: str
    digest: str
    interrupt: str = Field(description="Id of the interrupt that the decision is given to.")
    expires_at: datetime


class ApprovalGiven(EventBase):
    """Record the one decision on a plan."""

    type: Literal["approval_given"] = "approval_given"
    change: str
    digest: str
    decision: Literal["approved", "denied"]
    by: str
    reason: str = ""


class ApprovalVoided(EventBase):
    """Record that a plan or its approval no longer holds; another plan needs another approval."""

    type: Literal["approval_voided"] = "approval_voided"
    change: str
    digest: str
    why: str


class ActionStarted(EventBase):
    """Record the intent of one step of a change on its host, on the disk before the step."""

    type: Literal["action_started"] = "action_started"
    action: str = Field(description="Id inside the change, such as C1.1.")
    change: str
    step: Step
    digest: str


class ActionFinished(EventBase):
    """Record how a step ended, as the host said; a step without this is looked up on the host."""

    type: Literal["action_finished"] = "action_finished"
    action: str
    change: str
    step: Step
    outcome: ActionOutcome
    detail: str = ""


class ModelChosen(EventBase):
    """Record that a person chose another model for the turns that follow."""

    type: Literal["model_chosen"] = "model_chosen"
    model: str = Field(description="As in `started.recorded`.")


class Compacted(EventBase):
    """Record that older results were folded to one line each in what the model is sent."""

    type: Literal["compacted"] = "compacted"
    calls: list[str] = Field(description="The tool_call_id of each result that was folded.")
    tokens_before: int
    tokens_after: int


class Forked(EventBase):
    """Record that what stands before was taken over from another thread, which stays as it is."""

    type: Literal["forked"] = "forked"
    thread: str = Field(description="The thread that it was taken from.")
    at_turn: int = Field(description="Last turn that was taken over.")


class UndoAsked(EventBase):
    """Record that a person wants a kept change taken back, which this thread is for."""

    type: Literal["undo_asked"] = "undo_asked"
    thread: str = Field(description="Thread in which the change was kept.")
    change: str = Field(description="The change there.")
    plan: dict[str, Any] = Field(description="The plan that was kept.")
    by: str


class Measured(EventBase):
    """Record a measurement of a service, before or after a change."""

    type: Literal["measured"] = "measured"
    change: str
    phase: Phase
    artifact: ArtifactRef
    measurement: Measurement


class Judged(EventBase):
    """Record what a change did, and whether it is kept."""

    type: Literal["judged"] = "judged"
    change: str
    comparison: Comparison
    predicted: str
    measured: str
    artifact: ArtifactRef


class BudgetUsed(EventBase):
    """Record what is used up so far."""

    type: Literal["budget_used"] = "budget_used"
    turns: int
    tokens: int
    cost_usd: float
    wall_s: float


class Failed(EventBase):
    """Record an error that ended a run; the thread can be resumed."""

    type: Literal["failed"] = "failed"
    error: str
    exit_code: int


class Ended(EventBase):
    """Close an investigation with its outcome."""

    type: Literal["ended"] = "ended"
    outcome: Outcome
    summary: str


Event = Annotated[
    Started
    | Resumed
    | UserMessage
    | SystemNote
    | TurnTaken
    | ToolStarted
    | ToolFinished
    | EvidenceAdded
    | HypothesisMoved
    | ChangeMoved
    | ConclusionChecked
    | PlanMade
    | ApprovalAsked
    | ApprovalGiven
    | ApprovalVoided
    | ActionStarted
    | ActionFinished
    | UndoAsked
    | ModelChosen
    | Compacted
    | Forked
    | Measured
    | Judged
    | BudgetUsed
    | Failed
    | Ended,
    Field(discriminator="type"),
]
"""One line of a transcript."""


class TextDelta(Record):
    """Show a piece of streamed text; never stored."""

    type: Literal["text_delta"] = "text_delta"
    text: str


class Progress(Record):
    """Show what a running call is doing; never stored."""

    type: Literal["progress"] = "progress"
    call: str
    text: str


Live = Event | TextDelta | Progress
"""What a surface receives: every stored event, and what is only shown."""

event_adapter: TypeAdapter[Event] = TypeAdapter(Event)
