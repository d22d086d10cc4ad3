"""The case file: what an investigation found, built from its transcript, in a form that anyone can check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar, assert_never

from agent.case_left import left
from agent.case_records import CaseFile, ClaimRow, Ledgered, Reason, Source, TimelineRow
from agent.case_trials import trials
from agent.events import (
    BudgetUsed,
    ConclusionChecked,
    Ended,
    Event,
    Failed,
    Resumed,
    Started,
    SystemNote,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from agent.ledger import Ledger
from agent.state import (
    AbsenceClaim,
    Citation,
    Claim,
    GuardClaim,
    LogClaim,
    MeasurementClaim,
    OpinionClaim,
    SettingClaim,
)
from agent.threads import begun_at
from tools.artifacts import ArtifactStore
from tools.display import visible_json

__all__ = ["CaseFile", "build", "settings_table", "to_json", "to_markdown", "what"]

_E = TypeVar("_E")
_SUMMED = ("concurrency", "output_throughput", "tok_s_per_request", "mean_ttft_ms", "mean_tpot_ms")


def build(events: Sequence[Event], store: ArtifactStore) -> CaseFile:
    """Return the case file of a transcript, finished or not; its first event must be `Started`."""
    started = events[0]
    if not isinstance(started, Started):
        raise ValueError("a transcript begins with a started event")
    ledger = Ledger()
    for event in events:
        ledger.apply(event)
    checked = _last(events, ConclusionChecked)
    ended, failed, used = _last(events, Ended), _last(events, Failed), _last(events, BudgetUsed)
    claims = _claims(checked) if checked else []
    done = checked.conclusion if checked and (checked.accepted or ended) else None
    return CaseFile(
        thread=started.thread,
        product=started.product,
        recorded=started.recorded,
        scenario=started.scenario,
        symptom=started.symptom,
        hosts=started.hosts,
        mode=started.mode,
        started_at=begun_at(events),
        last_at=events[-1].at,
        outcome=ended.outcome if ended else None,
        summary=ended.summary if ended else "",
        failed=failed.error if failed and not ended else None,
        conclusion=done,
        claims=claims if done else [],
        problems=checked.problems if checked and done else [],
        ledger=_ledgered(ledger),
        changes=list(ledger.changes.values()),
        trials=trials(events),
        left=left(events),
        benchmarks=_benchmarks(events),
        sources=_sources(ledger, claims, store),
        timeline=_timeline(events),
        budget=started.budget,
        used=_used(used),
    )


def to_json(case: CaseFile) -> str:
    """Return the case file as JSON text."""
    return visible_json(case.model_dump_json(indent=2))


def to_markdown(case: CaseFile) -> str:
    """Return the case file as Markdown, with all text from hosts and models inert."""
    from agent import inert
    from prompts.render import render

    words = {"line": inert.line, "prose": inert.prose, "code": inert.code}
    words |= {"cell": inert.cell, "block": inert.block}
    return render("case", case=case, settings=settings_table(case), **words)


def settings_table(case: CaseFile) -> dict[str, dict[str, str]]:
    """Return the verified value of each setting in each layer."""
    table: dict[str, dict[str, str]] = {}
    for row in case.of("setting"):
        if isinstance(row.claim, SettingClaim):
            name = row.claim.name.lstrip("-").replace("-", "_")
            table.setdefault(name, {})[row.claim.layer] = row.claim.value
    return table


def _last(events: Sequence[Event], kind: type[_E]) -> _E | None:
    return next((event for event in reversed(events) if isinstance(event, kind)), None)


def _used(used: BudgetUsed | None) -> dict[str, float]:
    if used is None:
        return {}
    return {"turns": used.turns, "tokens": used.tokens, "cost_usd": used.cost_usd, "wall_s": used.wall_s}


def _claims(checked: ConclusionChecked) -> list[ClaimRow]:
    return [
        ClaimRow(number=number, claim=claim, check=found, what=what(claim))
        for number, (claim, found) in enumerate(
            zip(checked.conclusion.claims, checked.checks, strict=True), start=1
        )
    ]


def what(claim: Claim) -> str:
    """Return in one line what the verifier looked for, apart from the model's words."""
    if isinstance(claim, SettingClaim):
        return f"{claim.name} = {claim.value} ({claim.layer})"
    if isinstance(claim, GuardClaim):
        facts = ", ".join(f"{fact.name} = {fact.value}" for fact in claim.facts)
        return f"guard is {claim.verdict}" + (f" because {facts}" if facts else "")
    if isinstance(claim, LogClaim):
        return "the quoted text stands in the output"
    if isinstance(claim, MeasurementClaim):
        return f"{claim.expression} = {claim.value:g} {claim.unit}".strip()
    if isinstance(claim, AbsenceClaim):
        return f"{claim.call} searched {claim.scope} for {claim.pattern} and found nothing"
    if isinstance(claim, OpinionClaim):
        return "not checked"
    assert_never(claim)


def _ledgered(ledger: Ledger) -> list[Ledgered]:
    entries: list[Ledgered] = []
    for item in sorted(ledger.hypotheses.values(), key=lambda item: item.rank):
        predictions = {prediction.id: prediction for prediction in item.predictions}
        reasons = [
            Reason(
                prediction=link.prediction,
                says=predictions[link.prediction].says,
                favours=predictions[link.prediction].favours,
                matched=link.matched,
                judged=link.judged,
                prior=ledger.is_prior(item.id, ledger.evidence[link.evidence].citation.artifact),
                evidence=ledger.evidence[link.evidence],
            )
            for link in item.links
        ]
        entries.append(Ledgered(hypothesis=item, reasons=reasons))
    return entries


def _benchmarks(events: Sequence[Event]) -> list[dict[str, float | str]]:
    rows: list[dict[str, float | str]] = []
    for event in events:
        if not isinstance(event, ToolFinished) or event.tool != "benchmark" or event.status != "ok":
            continue
        view: Any = json.loads(event.view)
        for run in view.get("runs", []):
            row: dict[str, float | str] = {"call": event.call}
            row |= {key: run[key] for key in _SUMMED if isinstance(run.get(key), int | float)}
            watts = (run.get("gpu") or {}).get("power_w_mean")
            rows.append(row | ({"power_w_mean": watts} if isinstance(watts, int | float) else {}))
    return rows


def _sources(ledger: Ledger, claims: Sequence[ClaimRow], store: ArtifactStore) -> list[Source]:
    cited: list[Citation] = [proof.citation for proof in ledger.evidence.values()]
    cited += [citation for row in claims for citation in row.check.citations]
    sources: list[Source] = []
    for handle in dict.fromkeys(citation.artifact for citation in cited):
        ref = ledger.artifacts.get(handle)
        if ref is None:
            continue
        sources.append(
            Source(
                handle=handle,
                sha256=ref.sha256,
                label=ref.path or ref.label,
                host=ref.host,
                first_line=ref.first_line,
                taken_at=ref.taken_at,
                intact=_intact(store, ref.sha256),
            )
        )
    return sources


def _intact(store: ArtifactStore, sha256: str) -> bool:
    try:
        store.get(sha256)
    except (KeyError, ValueError):
        return False
    return True


def _timeline(events: Sequence[Event]) -> list[TimelineRow]:
    rows: list[TimelineRow] = []
    for event in events:
        told = _told(event)
        if told is not None:
            rows.append(TimelineRow(at=event.at, turn=event.turn, what=told[0], text=told[1]))
    return rows


def _told(event: Event) -> tuple[str, str] | None:
    if isinstance(event, ToolStarted):
        return event.call, event.describe or event.tool
    if isinstance(event, ToolFinished) and event.status == "tool_error":
        return event.call, f"refused: {event.view}"
    if isinstance(event, Resumed):
        return "resumed", event.process
    if isinstance(event, UserMessage | SystemNote):
        return "person" if isinstance(event, UserMessage) else "note", event.text
    if isinstance(event, ConclusionChecked):
        verified = sum(check.status == "verified" for check in event.checks)
        verb = "accepted" if event.accepted else "sent back"
        return (
            "conclusion",
            f"{event.conclusion.outcome}, {verb}; {verified} of {len(event.checks)} claims verified",
        )
    if isinstance(event, Failed):
        return "failed", event.error
    return None
