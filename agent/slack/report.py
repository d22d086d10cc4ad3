"""What a thread is told on demand, and at the end: the answer, where it stands, why, and the proof of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from agent.casefile import CaseFile
from agent.events import (
    BudgetUsed,
    ConclusionChecked,
    Ended,
    Event,
    HypothesisMoved,
    Judged,
    ToolFinished,
)
from agent.ledger import Ledger
from agent.models.concluding import ATTACH
from agent.slack.door import Block
from agent.slack.text import SECTION_CHARS, Cleaner, escaped, fenced, packed, split
from agent.state import Change, Conclusion
from agent.surfaces.answer_text import edit

DETAILS: Final = {
    "hypotheses": "Hypotheses",
    "evidence": "Evidence",
    "plot": "Before / after",
    "case": "Case file",
}
"""Buttons below an answer, by their action."""

_QUOTE_CHARS: Final = 1200
_TABLE_CHARS: Final = 2000
"""Of a table in one block of code, which must not be cut in two once it is one."""

_COMMAND: Final = ATTACH[ATTACH.index(":") :].rstrip(".")
_SETTINGS: Final = " (`model` and `base_url` in the settings; docs/slack.md)"
"""Instead of a command that nobody types in Slack."""

HELP: Final = (
    "In this thread: `status`, `why`, `stop`, `go on`; anything else steers the investigation or asks on. "
    "A new one: mention me, or write to me, with what is wrong and `on HOST`."
)


def ledger_of(events: Sequence[Event]) -> Ledger:
    """Return the ledger of a transcript."""
    ledger = Ledger()
    for event in events:
        ledger.apply(event)
    return ledger


def conclusion_of(events: Sequence[Event]) -> Conclusion | None:
    """Return the last conclusion that the verifier let pass."""
    found = [event for event in events if isinstance(event, ConclusionChecked) and event.accepted]
    return found[-1].conclusion if found else None


def answer(events: Sequence[Event], ended: Ended, clean: Cleaner) -> list[str]:
    """Return the answer in pieces that fit a block each: the short of it first."""
    found = conclusion_of(events)
    gained = _gained(events) if ended.outcome == "fixed" else ""
    first = f"*{ended.outcome.replace('_', ' ')}*: {gained}"
    parts = [f"{first}\n{_prose(ended.summary, clean)}" if gained else first + _prose(ended.summary, clean)]
    if found is not None:
        if found.table is not None:
            rows = split(clean.exact(found.table.text().rstrip()), _TABLE_CHARS)
            parts += [fenced(piece) for piece in rows]
        ledger = ledger_of(events)
        named = [ledger.changes[name] for name in found.changes if name in ledger.changes]
        parts += [_change(change, clean) for change in named if change.status == "proposed"]
        if found.next_step:
            parts.append(f"*Next*: {_prose(found.next_step.replace(_COMMAND, _SETTINGS), clean)}")
    return packed(parts, SECTION_CHARS)


def buttons(events: Sequence[Event], thread: str) -> Block:
    """Return the buttons below an answer; there is no plot where nothing was measured twice."""
    from agent.slack.plot import has_plot

    shown = [name for name in DETAILS if name != "plot" or has_plot(events)]
    return {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "action_id": name,
                "text": {"type": "plain_text", "text": DETAILS[name]},
                "value": json.dumps({"thread": thread}),
            }
            for name in shown
        ],
    }


def section(text: str) -> Block:
    """Return a block of Slack's markup, escaped already."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, "expand": True}


def status(events: Sequence[Event], doing: str, clean: Cleaner) -> str:
    """Return where an investigation stands, in a few lines."""
    ledger = ledger_of(events)
    used = next((event for event in reversed(events) if isinstance(event, BudgetUsed)), None)
    looks = sum(isinstance(event, ToolFinished) for event in events)
    lines = [f"Now: {escaped(clean.line(doing or 'waiting', 200))}. {looks} looks so far."]
    if used is not None:
        lines.append(f"Used: {used.turns} turns, {used.tokens} tokens, {used.wall_s:.0f} s.")
    for item in sorted(ledger.hypotheses.values(), key=lambda item: item.rank):
        lines.append(f"\u2022 {item.id} {item.status}: {escaped(clean.line(item.statement, 200))}")
    for change in ledger.changes.values():
        lines.append(f"\u2022 {change.id} {change.status}: {escaped(clean.line(edit(change), 200))}")
    return "\n".join(lines)


def why(events: Sequence[Event], clean: Cleaner) -> str:
    """Return what speaks for what is held to be true, and what moved it last."""
    ledger = ledger_of(events)
    lines: list[str] = []
    for change in ledger.changes.values():
        lines.append(f"*{change.id}*: {escaped(clean.line(change.reason, 600))}")
    ranked = sorted(ledger.hypotheses.values(), key=lambda item: (item.status == "refuted", item.rank))
    for item in ranked[:4]:
        lines.append(f"*{item.id} {item.status}*: {escaped(clean.line(item.statement, 300))}")
        for link in item.links[:4]:
            said = next((p.says for p in item.predictions if p.id == link.prediction), link.prediction)
            quote = ledger.evidence[link.evidence].citation.quote
            verb = "holds" if link.matched else "does not hold"
            lines.append(
                f"  \u2022 {escaped(clean.line(said, 160))}: {verb}, by {link.evidence} "
                f"`{escaped(clean.line(quote, 160)).replace('`', chr(0xB4))}`"
            )
    if not any(isinstance(event, HypothesisMoved) for event in events):
        lines.append("No hypothesis yet: the facts of the hosts are being read first.")
    return "\n".join(lines)


def hypotheses(case: CaseFile, clean: Cleaner) -> list[str]:
    """Return every hypothesis with its predictions and what came of them; a piece a message."""
    lines: list[str] = []
    for one in case.ledger:
        item = one.hypothesis
        lines.append(f"*{item.id} {item.status}*: {escaped(clean.line(item.statement, 400))}")
        for reason in one.reasons:
            verb = "seen" if reason.matched else "not seen"
            says = escaped(clean.line(reason.says, 200))
            lines.append(f"  \u2022 {reason.favours}: {says} - {verb} ({reason.evidence.id})")
    limits = case.conclusion.inherent if case.conclusion else []
    lines += [f"*No setting changes this*: {_prose(text, clean)}" for text in limits]
    return packed(lines) or ["No hypothesis was stated."]


def evidence(case: CaseFile, clean: Cleaner) -> list[str]:
    """Return every quote that carries the answer, exactly, with where it stands; a piece a message."""
    parts: list[str] = []
    for row in case.claims:
        parts.append(f"*{row.number}. {row.check.status}*: {escaped(clean.line(row.claim.says, 300))}")
        for citation in row.check.citations[:4]:
            where = escaped(clean.line(citation.render(), 200))
            parts.append(f"{where}\n{fenced(clean.exact(citation.quote)[:_QUOTE_CHARS])}")
    return packed(parts) or ["Nothing was concluded yet, so nothing is quoted."]


def _gained(events: Sequence[Event]) -> str:
    """Return what was measured before the first change that was kept and after the last one, on one host."""
    kept = [event for event in events if isinstance(event, Judged) and event.comparison.kept]
    if len({event.artifact.host for event in kept}) != 1:
        return ""
    before = {level.concurrency: level.before for level in kept[0].comparison.levels}
    shown = [
        f"{was:.1f} -> {level.after:.1f} tok/s at concurrency {level.concurrency} (x{level.after / was:.2f})"
        for level in kept[-1].comparison.levels
        if level.after and (was := before.get(level.concurrency))
    ]
    return "; ".join(shown)


def _change(change: Change, clean: Cleaner) -> str:
    return (
        f"*{change.id}* {change.status.replace('_', ' ')}: {escaped(clean.line(edit(change), 300))}\n"
        f"{_prose(change.reason, clean)} Expected: {_prose(change.predicted_effect, clean)}"
    )


def _prose(text: str, clean: Cleaner) -> str:
    return escaped(clean.plain(text.strip()))
