"""What a run said and did, folded from its events: causes, changes, evidence, commands, and in which order.

A fold reads the transcript alone: it opens no artifact and knows no case. Places are positions in the
sequence of events, so that order is judged even where two events have the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agent.events import (
    ORIENTATION,
    ActionFinished,
    BudgetUsed,
    ChangeMoved,
    ConclusionChecked,
    Event,
    EvidenceAdded,
    HypothesisMoved,
    Judged,
    Started,
    ToolFinished,
    ToolStarted,
    TurnTaken,
)
from agent.state import Change, ClaimCheck, Conclusion, Evidence, Hypothesis
from tools.contract import ArtifactRef

_COMMANDS: Final = frozenset({"run", "bash"})
"""Tools whose argument ``command`` is a command line."""
_IN_FORCE: Final = frozenset({"applied", "verified"})


@dataclass(slots=True)
class Call:
    """Hold one tool call: what was asked, where it stands, and how it ended."""

    name: str
    tool: str
    arguments: dict[str, Any]
    place: int
    finished: ToolFinished | None = None

    @property
    def command(self) -> str:
        """Return the command line that was given; empty for tools that take none."""
        return str(self.arguments.get("command") or "") if self.tool in _COMMANDS else ""

    @property
    def ran(self) -> bool:
        """Tell whether it was carried out: a command that was started and never heard of counts as run."""
        if self.finished is None:
            return self.tool == "bash"
        return self.finished.status == "ok" or (self.tool == "bash" and bool(self.finished.artifacts))


@dataclass(slots=True)
class Proposal:
    """Hold a change as it ended, where it was first proposed, and the evidence that stood by then."""

    change: Change
    place: int
    before: dict[str, list[Evidence]]
    """By hypothesis named as its reason: matched evidence that was recorded earlier."""
    applied: bool = False
    """True when it was in force on the host at any time, also when it was rolled back later."""
    judged: Judged | None = None


@dataclass(slots=True)
class Totals:
    """Count what a run used."""

    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    wall_s: float = 0.0


@dataclass(slots=True)
class Findings:
    """Hold what a run said and did."""

    started: Started | None = None
    conclusion: Conclusion | None = None
    checks: Sequence[ClaimCheck] = ()
    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    stated: dict[str, int] = field(default_factory=dict)
    """Place at which each hypothesis was first recorded."""
    evidence: dict[str, Evidence] = field(default_factory=dict)
    proposals: dict[str, Proposal] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    artifacts: dict[str, ArtifactRef] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)

    @property
    def by_shell(self) -> bool:
        """Tell whether a plain shell agent ran, which has no plans, trials and approvals of its own."""
        return self.started is not None and self.started.recorded.startswith("baseline:")

    @property
    def may_change(self) -> bool:
        """Tell whether it was asked to change the host, and had nothing but commands to do it with."""
        return self.by_shell and self.started is not None and self.started.mode == "apply"

    def matched(self, hypothesis: Hypothesis) -> list[Evidence]:
        """Return the evidence that met a prediction of a hypothesis, each piece once."""
        names = dict.fromkeys(link.evidence for link in hypothesis.links if link.matched)
        return [self.evidence[name] for name in names if name in self.evidence]

    def named(self) -> list[Hypothesis]:
        """Return the hypotheses that the conclusion names, as causes or as ruled out."""
        if self.conclusion is None:
            return []
        names = [*self.conclusion.causes, *(ruled.hypothesis for ruled in self.conclusion.ruled_out)]
        return [self.hypotheses[name] for name in dict.fromkeys(names) if name in self.hypotheses]

    def based_on(self, hypothesis: str) -> list[Change]:
        """Return the changes that give a hypothesis as their reason."""
        return [item.change for item in self.proposals.values() if hypothesis in item.change.hypotheses]

    def commands(self) -> list[Call]:
        """Return the calls that were given a command line."""
        return [call for call in self.calls.values() if call.command]


def fold(events: Sequence[Event]) -> Findings:
    """Return what a run said and did."""
    return _Fold().over(events)


class _Fold:
    def __init__(self) -> None:
        self.found = Findings()
        self._place = 0
        self._checked: ConclusionChecked | None = None
        self._used: BudgetUsed | None = None
        self._turns: list[TurnTaken] = []

    def over(self, events: Sequence[Event]) -> Findings:
        for self._place, event in enumerate(events):
            if (take := _TAKES.get(type(event))) is not None:
                take(self, event)
        if self._checked is not None:
            self.found.conclusion = self._checked.conclusion
            self.found.checks = self._checked.checks
        self.found.totals = self._totals(events)
        return self.found

    def _started(self, event: Started) -> None:
        self.found.started = event

    def _turn_taken(self, event: TurnTaken) -> None:
        if event.model != ORIENTATION:
            self._turns.append(event)

    def _budget_used(self, event: BudgetUsed) -> None:
        self._used = event

    def _tool_started(self, event: ToolStarted) -> None:
        self.found.calls.setdefault(event.call, Call(event.call, event.tool, event.arguments, self._place))

    def _tool_finished(self, event: ToolFinished) -> None:
        call = self.found.calls.setdefault(event.call, Call(event.call, event.tool, {}, self._place))
        call.finished = event
        self.found.artifacts.update({ref.handle: ref for ref in event.artifacts})

    def _evidence_added(self, event: EvidenceAdded) -> None:
        self.found.evidence[event.evidence.id] = event.evidence

    def _hypothesis_moved(self, event: HypothesisMoved) -> None:
        self.found.hypotheses[event.hypothesis.id] = event.hypothesis
        self.found.stated.setdefault(event.hypothesis.id, self._place)

    def _change_moved(self, event: ChangeMoved) -> None:
        change = event.change
        known = self.found.proposals.get(change.id)
        if known is None:
            known = Proposal(change, self._place, self._standing(change))
            self.found.proposals[change.id] = known
        known.change = change
        known.applied |= change.status in _IN_FORCE

    def _action_finished(self, event: ActionFinished) -> None:
        if event.step == "apply" and event.outcome == "applied" and event.change in self.found.proposals:
            self.found.proposals[event.change].applied = True

    def _judged(self, event: Judged) -> None:
        if event.change in self.found.proposals:
            self.found.proposals[event.change].judged = event

    def _conclusion_checked(self, event: ConclusionChecked) -> None:
        if event.accepted or self._checked is None or not self._checked.accepted:
            self._checked = event

    def _standing(self, change: Change) -> dict[str, list[Evidence]]:
        known = self.found.hypotheses
        return {name: self.found.matched(known[name]) if name in known else [] for name in change.hypotheses}

    def _totals(self, events: Sequence[Event]) -> Totals:
        if (used := self._used) is not None:
            return Totals(used.turns, used.tokens, used.cost_usd, used.wall_s)
        usages = [turn.usage for turn in self._turns]
        seconds = (events[-1].at - events[0].at).total_seconds() if events else 0.0
        return Totals(
            turns=len(self._turns),
            tokens=sum(usage.input_tokens + usage.output_tokens for usage in usages),
            cost_usd=sum(usage.cost_usd for usage in usages),
            wall_s=max(0.0, seconds),
        )


_TAKES: Final[Mapping[type, Callable[[_Fold, Any], None]]] = {
    Started: _Fold._started,
    TurnTaken: _Fold._turn_taken,
    BudgetUsed: _Fold._budget_used,
    ToolStarted: _Fold._tool_started,
    ToolFinished: _Fold._tool_finished,
    EvidenceAdded: _Fold._evidence_added,
    HypothesisMoved: _Fold._hypothesis_moved,
    ChangeMoved: _Fold._change_moved,
    ActionFinished: _Fold._action_finished,
    Judged: _Fold._judged,
    ConclusionChecked: _Fold._conclusion_checked,
}
"""What each event adds; the others say nothing that a scorer looks at."""
