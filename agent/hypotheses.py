"""Work out one `hypothesis` call: what it adds to the ledger, and the status that follows from the evidence.

The rules and their reasons are in ``agent/ledger.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.actions import EvidenceArgs, HypothesisArgs, HypothesisUpdate, NewHypothesis
from agent.checks import evaluate, validate
from agent.events import Event, EvidenceAdded, HypothesisMoved
from agent.own_words import refuse_own_words
from agent.quotes import StoredTexts, citation
from agent.state import (
    Citation,
    Cite,
    Evidence,
    EvidenceKind,
    EvidenceLink,
    Hypothesis,
    HypothesisStatus,
    Prediction,
    TextCheck,
)
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, ToolError

if TYPE_CHECKING:
    from agent.ledger import Ledger

_CANNOT_GIVE: Mapping[EvidenceKind, frozenset[str]] = {
    "source": frozenset({"facts", "journal", "benchmark"}),
    "log": frozenset({"benchmark"}),
    "configuration": frozenset({"benchmark"}),
    "measurement": frozenset({"grep", "settings"}),
    "absence": frozenset(),
}
"""Tools whose output is never evidence of a kind; two kinds confirm, so a kind must not be made up."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a call adds: events for the transcript, and the view that the model gets back."""

    events: list[Event]
    view: dict[str, Any]


class Draft:
    """Work out one `hypothesis` call on copies, so that a refusal leaves nothing behind."""

    def __init__(self, ledger: Ledger, store: ArtifactStore) -> None:
        self._ledger = ledger
        self._texts = StoredTexts(store)
        self._hypotheses = dict(ledger.hypotheses)
        self._evidence = dict(ledger.evidence)
        self._events: list[Event] = []
        self._said: list[dict[str, Any]] = []

    def carry_out(self, args: HypothesisArgs) -> Step:
        """Add, then update, then check what must hold over all hypotheses."""
        touched = [self._add(new) for new in args.add]
        for update in args.update:
            touched.append(self._update(update))
        ranks: dict[int, str] = {}
        for item in self._hypotheses.values():
            if item.rank in ranks:
                free = max(other.rank for other in self._hypotheses.values()) + 1
                raise ToolError(
                    f"{ranks[item.rank]} and {item.id} share rank {item.rank}; rank {free} is free"
                )
            ranks[item.rank] = item.id
        for name in dict.fromkeys(touched):
            old = self._ledger.hypotheses.get(name)
            moved = self._hypotheses[name]
            self._events.append(HypothesisMoved(hypothesis=moved, before=old.status if old else None))
        ledger = [
            {"id": item.id, "rank": item.rank, "status": item.status, "statement": item.statement}
            for item in sorted(self._hypotheses.values(), key=lambda item: item.rank)
        ]
        return Step(self._events, {"hypotheses": ledger, "evidence": self._said})

    def _add(self, new: NewHypothesis) -> str:
        names = [prediction.id for prediction in new.predictions]
        if len(set(names)) != len(names):
            raise ToolError(f"prediction ids must differ inside a hypothesis: {', '.join(names)}")
        for side in ("for", "against"):
            if all(prediction.favours != side for prediction in new.predictions):
                raise ToolError(
                    f"{new.statement!r} needs a prediction with favours={side} too: what would be seen then"
                )
        for prediction in new.predictions:
            validate(prediction.check)
        name = f"H{len(self._hypotheses) + 1}"
        self._hypotheses[name] = Hypothesis(
            id=name, statement=new.statement, rank=new.rank, predictions=new.predictions
        )
        return name

    def _update(self, update: HypothesisUpdate) -> str:
        if update.id not in self._hypotheses:
            raise ToolError(
                f"there is no hypothesis {update.id}; known: {', '.join(self._hypotheses) or 'none'}"
            )
        item = self._hypotheses[update.id]
        item = item.model_copy(update={"links": [*item.links]})
        self._hypotheses[update.id] = item
        if update.rank is not None:
            item.rank = update.rank
        for given in update.evidence:
            self._link(item, given)
        item.status = status_of(item, self._evidence, self._ledger)
        return update.id

    def _link(self, item: Hypothesis, given: EvidenceArgs) -> None:
        prediction = next((p for p in item.predictions if p.id == given.prediction), None)
        if prediction is None:
            known = ", ".join(p.id for p in item.predictions)
            raise ToolError(f"{item.id} has no prediction {given.prediction}; it has {known}")
        judged = prediction.check.kind == "judgement"
        if judged and given.matches is None:
            raise ToolError(f"{prediction.id} is a judgement: say in `matches` whether the quote meets it")
        if not judged and given.matches is not None:
            raise ToolError(f"{prediction.id} has a check that the program evaluates; leave `matches` out")
        ref = self._artifact(item, given)
        cited, lines = self._cite(ref, given, prediction)
        matched = evaluate(prediction.check, cited.quote, lines, given.matches)
        proof = self._evidence_for(given, cited)
        link = EvidenceLink(evidence=proof.id, prediction=prediction.id, matched=matched, judged=judged)
        if link not in item.links:
            item.links.append(link)
        said: dict[str, Any] = {"id": proof.id, "hypothesis": item.id, "prediction": prediction.id}
        said |= {"favours": prediction.favours, "matched": matched, "cite": proof.citation.render()}
        if self._ledger.is_prior(item.id, ref.handle):
            said["prior"] = "known before the hypothesis: can support it, not confirm it"
        if not matched:
            said["note"] = "stored, but the quote does not meet the check: the status does not move"
        self._said.append(said)

    def _artifact(self, item: Hypothesis, given: EvidenceArgs) -> ArtifactRef:
        ref = self._ledger.artifacts.get(given.artifact)
        if ref is None:
            raise ToolError(f"there is no artifact {given.artifact}; cite a handle from a tool result")
        call = given.artifact.split(".")[0]
        if self._ledger.is_prior(item.id, ref.handle) and self._ledger.shown_in[ref.handle] > 0:
            raise ToolError(
                f"{given.artifact} was read before {item.id} was stated; ask again and cite the new result"
            )
        tool = self._ledger.calls[call].tool if call in self._ledger.calls else ""
        if tool in _CANNOT_GIVE[given.kind] or (ref.package and given.kind in {"log", "measurement"}):
            raise ToolError(f"{given.artifact} ({ref.label}) is no evidence of kind {given.kind}")
        refuse_own_words(tool, ref, given.quote)
        return ref

    def _cite(self, ref: ArtifactRef, given: EvidenceArgs, prediction: Prediction) -> tuple[Citation, str]:
        """Return the citation, and the text of the lines that the check may look at."""
        text = self._texts.of(ref)
        absent = isinstance(prediction.check, TextCheck) and not prediction.check.present
        if absent and given.lines is None:
            raise ToolError(f"{prediction.id} expects a text absent: give `lines`, the range where it is not")
        if absent and not ref.complete:
            raise ToolError(f"{ref.handle} is not complete: nothing can be shown absent in it")
        cite = Cite(artifact=given.artifact, quote=given.quote, lines=given.lines)
        cited = citation(ref, self._texts.first(ref, cite))
        if absent and given.lines is not None:
            first, last = max(given.lines[0], text.first_line), min(given.lines[1], text.last_line)
            cited = cited.model_copy(update={"lines": (first, last)})
        return cited, text.between(*cited.lines)

    def _evidence_for(self, given: EvidenceArgs, cited: Citation) -> Evidence:
        for known in self._evidence.values():
            if known.citation == cited and known.kind == given.kind:
                return known
        proof = Evidence(id=f"E{len(self._evidence) + 1}", kind=given.kind, citation=cited, note=given.note)
        self._evidence[proof.id] = proof
        self._events.append(EvidenceAdded(evidence=proof))
        return proof


def status_of(item: Hypothesis, evidence: Mapping[str, Evidence], ledger: Ledger) -> HypothesisStatus:
    """Compute a hypothesis' status from its links alone."""
    predictions = {prediction.id: prediction for prediction in item.predictions}
    matched = [link for link in item.links if link.matched]
    sides = {predictions[link.prediction].favours for link in matched}
    if sides != {"for"}:
        return "refuted" if sides == {"against"} else "open"
    typed = {p.id for p in item.predictions if p.favours == "for" and p.check.kind != "judgement"}
    met = [evidence[link.evidence] for link in matched if not link.judged]
    kinds = {proof.kind for proof in met}
    after = any(not ledger.is_prior(item.id, proof.citation.artifact) for proof in met)
    all_met = bool(typed) and typed <= {link.prediction for link in matched}
    return "confirmed" if all_met and len(kinds) > 1 and after else "supported"
