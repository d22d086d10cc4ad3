"""The hypothesis ledger: a fold of events that says what a model may do next, and refuses what it may not.

A ledger never writes. Its methods return the events that a call would add; the caller appends them to the
transcript and feeds every event back through `Ledger.apply`, so a ledger rebuilt from a transcript is the
same.

What the rules mean:

* **Before and after.** Turns are counted by `TurnTaken`. A call belongs to the turn that asked for it, a
  hypothesis to the turn that added it. A result is *after* a hypothesis when its call belongs to the same
  turn or a later one: nothing of it was on view when the predictions were written, even if both ran side by
  side.
* **Prior facts.** Results from before the first turn (orientation) may be cited for any hypothesis, but
  they were known when it was written: they support or refute it and can never alone confirm it. Other
  results from before a hypothesis was stated are refused; the same question asked again gives one that may
  be cited, even where an unchanged file keeps its handle. Paging on stored output asks nothing.
* **Status** is computed from links whose check matched: refuted by `against` alone, open with both or none,
  supported by `for` alone. Confirmed: supported, every typed `for` prediction matched, and the matched
  evidence is of two kinds or more, at least one gathered after the hypothesis. Judgements can support,
  never confirm.
* **Evidence that does not match** is stored, shown, and moves nothing.
* A call is carried out whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.actions import HypothesisArgs, ProposeChangeArgs
from agent.events import (
    ORIENTATION,
    ApprovalGiven,
    ChangeMoved,
    Event,
    EvidenceAdded,
    HypothesisMoved,
    Judged,
    Started,
    ToolFinished,
    ToolStarted,
    TurnTaken,
)
from agent.hypotheses import Draft, Step
from agent.state import (
    Change,
    Conclusion,
    Evidence,
    EvidenceKind,
    Hypothesis,
    OpinionClaim,
)
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, ToolError

_HANDLE = re.compile(r'"(t\d+\.\d+)"')
# Flags, variables, directives of a unit (AllowedCPUs), and the parameters of an Ollama model (num_thread).
_SETTING = re.compile(r"--?[A-Za-z][A-Za-z0-9._-]*|[A-Z][A-Za-z0-9_]*|num_[a-z]+|drop-in")
LONGEST_PROPOSAL = 8000
"""Characters of a proposed change that a person can read, and that fit into what a model is shown of it."""
_GROUNDS: frozenset[EvidenceKind] = frozenset({"source", "log", "configuration"})


@dataclass(slots=True)
class Ledger:
    """Hold hypotheses, evidence, changes and the order in which results came."""

    hosts: list[str] = field(default_factory=list)
    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    artifacts: dict[str, ArtifactRef] = field(default_factory=dict)
    calls: dict[str, ToolFinished] = field(default_factory=dict)
    question: bool = False
    """What opened the thread is a question: it is answered from what is read, without hypotheses."""
    applies: bool = False
    """Changes are tried here, so that one that could not be tried may be proposed again."""
    denied: set[str] = field(default_factory=set)
    measured: dict[str, str] = field(default_factory=dict)
    """By change: what was measured of one that was not kept, until another change of its unit is kept."""
    turn: int = 0
    stated_in: dict[str, int] = field(default_factory=dict)
    asked_in: dict[str, int] = field(default_factory=dict)
    shown_in: dict[str, int] = field(default_factory=dict)
    """By artifact: the last turn whose calls went to the host and showed it; a file may keep its handle."""
    paged: set[str] = field(default_factory=set)
    """Calls that only paged on stored output: they show nothing new."""

    def apply(self, event: Event) -> None:
        """Take one event in; events that say nothing to the ledger are passed over."""
        if isinstance(event, Started):
            self.hosts = list(event.hosts)
            self.applies = event.mode == "apply"
            self.question = event.question
        elif isinstance(event, TurnTaken):
            self.turn += event.model != ORIENTATION
        elif isinstance(event, ToolStarted):
            self.asked_in.setdefault(event.call, self.turn)
            if event.arguments.get("artifact"):
                self.paged.add(event.call)
        elif isinstance(event, ToolFinished):
            self._finished(event)
        elif isinstance(event, HypothesisMoved):
            self.hypotheses[event.hypothesis.id] = event.hypothesis
            self.stated_in.setdefault(event.hypothesis.id, self.turn)
        elif isinstance(event, EvidenceAdded):
            self.evidence[event.evidence.id] = event.evidence
        elif isinstance(event, ChangeMoved | Judged | ApprovalGiven):
            self._of_change(event)

    def _of_change(self, event: ChangeMoved | Judged | ApprovalGiven) -> None:
        if isinstance(event, Judged):
            if _is_clear(event):
                self.measured[event.change] = event.comparison.why
        elif isinstance(event, ApprovalGiven):
            if event.decision == "denied":
                self.denied.add(event.change)
        else:
            self.changes[event.change.id] = event.change
            if event.change.status == "verified":
                self._kept(event.change)

    def _finished(self, event: ToolFinished) -> None:
        turn = self.asked_in.setdefault(event.call, self.turn)
        self.calls[event.call] = event
        self.artifacts.update({ref.handle: ref for ref in event.artifacts})
        shown = {ref.handle for ref in event.artifacts}
        if event.call not in self.paged:
            shown |= set(_HANDLE.findall(event.view)) & self.artifacts.keys()
        for handle in shown:
            self.shown_in[handle] = max(turn, self.shown_in.get(handle, 0))

    def _kept(self, change: Change) -> None:
        """Forget what was measured of the unit in another state than it is in now."""
        place = (change.host, change.unit)
        for name in list(self.measured):
            other = self.changes.get(name)
            if other is None or (other.host, other.unit) == place:
                del self.measured[name]

    def is_prior(self, hypothesis: str, artifact: str) -> bool:
        """Tell whether calls to the host last showed an artifact before the hypothesis was stated."""
        stated = self.stated_in.get(hypothesis, self.turn)
        return self.shown_in.get(artifact, 0) < stated

    def may_read_source(self, tool: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Raise `ToolError` when source is asked for and no hypothesis stands; stored output may be paged.

        A question may be answered from source: nothing is blamed then. Who names a cause or proposes a change
        needs hypotheses all the same, stated before the evidence that confirms them.
        """
        paging = tool == "read_file" and bool((arguments or {}).get("artifact"))
        if (
            tool in {"grep", "read_file", "settings"}
            and not self.hypotheses
            and not (paging or self.question)
        ):
            raise ToolError(
                "state at least one hypothesis with its predictions (tool `hypothesis`) before reading source"
            )

    def hypothesis(self, args: HypothesisArgs, store: ArtifactStore) -> Step:
        """Carry out a `hypothesis` call; `ToolError` when any part of it breaks a rule."""
        if not args.add and not args.update:
            raise ToolError("give `add` or `update`; both are empty")
        return Draft(self, store).carry_out(args)

    def propose_change(self, args: ProposeChangeArgs) -> Step:
        """Carry out a `propose_change` call; `ToolError` when it is not grounded or not well-formed."""
        host = args.host or (self.hosts[0] if len(self.hosts) == 1 else None)
        if host is None or (self.hosts and host not in self.hosts):
            raise ToolError(f"name one of the hosts of this investigation: {', '.join(self.hosts)}")
        if not _SETTING.fullmatch(args.setting):
            raise ToolError(
                f"{args.setting!r} is not one setting; write the flag (--pp-size) or environment NAME alone"
            )
        if args.from_value == args.to_value:
            raise ToolError("from_value and to_value are the same; a change needs two different values")
        if len(args.model_dump_json()) > LONGEST_PROPOSAL:
            raise ToolError(
                f"the proposal is longer than {LONGEST_PROPOSAL} characters; nobody could approve it"
            )
        for name in args.hypotheses:
            self._grounded(name)
        fields = args.model_dump(exclude={"process_root", "host"})
        change = Change(id=f"C{len(self.changes) + 1}", host=host, **fields)
        for other in self.changes.values():
            if _aim(other) == _aim(change) and (not self.applies or other.id in self.denied):
                said = (
                    "was denied by a person"
                    if other.id in self.denied
                    else "proposes the same change already"
                )
                raise ToolError(f"{other.id} {said}")
            if _aim(other)[:-1] == _aim(change)[:-1] and other.id in self.measured:
                raise ToolError(
                    f"{other.id} was this change and was not kept: {self.measured[other.id]}; the same is "
                    "not tried twice in the same state, so propose another one"
                )
        view = {"change": change.id, "status": change.status, "host": host, "setting": change.setting}
        return Step([ChangeMoved(change=change)], view)

    def _grounded(self, name: str) -> None:
        known = self._known(name)
        if known.status not in {"supported", "confirmed"}:
            raise ToolError(
                f"{name} is {known.status}; a change needs a supported hypothesis: cite evidence first"
            )
        kinds = {self.evidence[link.evidence].kind for link in known.links if link.matched}
        if not kinds & _GROUNDS:
            raise ToolError(
                f"{name} rests on {', '.join(kinds)} alone; cite source, log or configuration as well"
            )

    def _known(self, name: str) -> Hypothesis:
        if name not in self.hypotheses:
            raise ToolError(f"there is no hypothesis {name}; known: {', '.join(self.hypotheses) or 'none'}")
        return self.hypotheses[name]

    def may_conclude(self, conclusion: Conclusion) -> None:
        """Raise `ToolError` when the ledger does not allow the conclusion yet."""
        if conclusion.outcome in {"answered", "not_known"}:
            self._may_answer(conclusion)
            return
        for ruled in conclusion.ruled_out:
            if self._known(ruled.hypothesis).status != "refuted":
                raise ToolError(
                    f"{ruled.hypothesis} is not refuted; cite evidence against it or leave it out"
                )
        for change in conclusion.changes:
            if change not in self.changes:
                raise ToolError(f"there is no change {change}; known: {', '.join(self.changes) or 'none'}")
        for cause in conclusion.causes:
            status = self._known(cause).status
            if status not in {"supported", "confirmed"}:
                raise ToolError(f"{cause} is {status} and cannot be named as a cause")
        if conclusion.outcome in {"diagnosed", "fixed"}:
            self._no_untested_rival(conclusion)
        elif conclusion.outcome == "configuration_fine":
            self._nothing_wrong(conclusion)
        else:
            _says_what_next(conclusion)

    def _may_answer(self, conclusion: Conclusion) -> None:
        if not self.question:
            raise ToolError(f"a symptom was told, and no question asked: `{conclusion.outcome}` does not fit")
        if conclusion.causes or conclusion.changes or conclusion.ruled_out:
            raise ToolError("an answer names no causes and no changes; for these say `diagnosed`")
        if conclusion.outcome == "not_known":
            _says_what_next(conclusion)
        elif all(isinstance(one, OpinionClaim) for one in conclusion.claims):
            raise ToolError("`answered` needs a claim that cites what says so; without one say `not_known`")

    def _no_untested_rival(self, conclusion: Conclusion) -> None:
        if not conclusion.causes:
            raise ToolError(f"`{conclusion.outcome}` names no cause; give causes, or say `inconclusive`")
        last = max(self.hypotheses[cause].rank for cause in conclusion.causes)
        for rival in sorted(self.hypotheses.values(), key=lambda item: item.rank):
            if rival.status == "open" and rival.rank < last:
                raise ToolError(
                    f"untested rival: {rival.id} (rank {rival.rank}) is likelier than a named cause "
                    "and still open; cite evidence for or against it, or rank it lower"
                )
        done = any(self.changes[change].status == "verified" for change in conclusion.changes)
        if conclusion.outcome == "fixed" and not done:
            raise ToolError("`fixed` needs a verified change; without one the outcome is `diagnosed`")

    def _nothing_wrong(self, conclusion: Conclusion) -> None:
        if conclusion.causes:
            raise ToolError("`configuration_fine` has no causes; leave them out, or say `diagnosed`")
        for change in self.changes.values():
            live = [n for n in change.hypotheses if self.hypotheses[n].status in {"supported", "confirmed"}]
            if live and change.status != "rolled_back":
                raise ToolError(f"{change.id} is proposed for {live[0]}; that is not `configuration_fine`")
        untested = [item.id for item in self.hypotheses.values() if not item.links]
        if untested:
            raise ToolError(f"{untested[0]} is untested; cite evidence on it, or say `inconclusive`")


def _says_what_next(conclusion: Conclusion) -> None:
    if not conclusion.next_step.strip():
        raise ToolError(f"`{conclusion.outcome}` needs a next_step: what would settle it, and who can do it")


def _aim(change: Change) -> tuple[str | None, ...]:
    return change.host, change.unit, change.setting, change.from_value, change.to_value, change.status


def _is_clear(event: Judged) -> bool:
    """Tell whether a change was measured and found not worth keeping; noise may be measured again."""
    return not event.comparison.kept and event.comparison.verdict != "inconclusive"
