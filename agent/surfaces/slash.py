"""Answer the slash commands of a chat from what its session has recorded; none of them asks a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.events import (
    BudgetUsed,
    ChangeMoved,
    Event,
    EvidenceAdded,
    HypothesisMoved,
    PlanMade,
    Started,
    ToolFinished,
    ToolStarted,
)
from agent.state import Change, Evidence, Hypothesis
from tools.artifacts import ArtifactStore
from tools.display import printable

if TYPE_CHECKING:
    from agent.session import Session

QUIT = "/quit"
HELP = "/help"


@dataclass(frozen=True, slots=True)
class Command:
    """Tie a slash command to its line of help and to what answers it."""

    usage: str
    help: str
    answer: Callable[[Session, str], str]


def answer(session: Session | None, line: str) -> str:
    """Return what a slash command shows; an unknown one says so."""
    name, _, argument = line.partition(" ")
    if name == HELP:
        return help_text()
    command = COMMANDS.get(name)
    if command is None:
        return f"no command {printable(name)}; there are: {', '.join(names())}"
    if session is None:
        return "nothing yet: say first what is wrong"
    return printable(command.answer(session, argument.strip()))


def names() -> list[str]:
    """Return every slash command."""
    return [HELP, *COMMANDS, QUIT]


def help_text() -> str:
    """Return a line for every command and key."""
    rows = [(command.usage, command.help) for command in COMMANDS.values()]
    rows += [
        (QUIT, "leave; Ctrl-D and Ctrl-C at an empty line do the same"),
        ("Ctrl-C", "while it works: stop at once and say how to go on; again: leave"),
        ("Enter", "while it works: what you typed is sent after the step that runs"),
    ]
    return "\n".join(f"{usage:<14}{text}" for usage, text in rows)


def changes_of(events: Sequence[Event]) -> dict[str, Change]:
    """Return every change as it stands."""
    return {event.change.id: event.change for event in events if isinstance(event, ChangeMoved)}


def _hypotheses(session: Session, argument: str) -> str:
    last = {e.hypothesis.id: e.hypothesis for e in session.events if isinstance(e, HypothesisMoved)}
    standing = sorted(last.values(), key=lambda item: item.rank)
    return "\n".join(_hypothesis(item) for item in standing) or "no hypothesis yet"


def _hypothesis(item: Hypothesis) -> str:
    rows = [f"{item.id} {item.status}: {item.statement}"]
    for prediction in item.predictions:
        links = [link for link in item.links if link.prediction == prediction.id]
        found = ", ".join(f"{link.evidence} {'matches' if link.matched else 'does not'}" for link in links)
        rows.append(f"   {prediction.id} {prediction.favours}: {prediction.says} [{found or 'no evidence'}]")
    return "\n".join(rows)


def _evidence(session: Session, argument: str) -> str:
    known = {e.evidence.id: e.evidence for e in session.events if isinstance(e, EvidenceAdded)}
    if not argument:
        return "\n".join(_short(item) for item in known.values()) or "no evidence yet"
    item = known.get(f"E{argument.lstrip('Ee')}")
    if item is None:
        return f"no evidence {argument}; there is: {', '.join(known) or 'none yet'}"
    quote = "\n".join(f"    {line}" for line in item.citation.quote.splitlines())
    more = f"\n{item.note}" if item.note else ""
    return f"{_short(item)}\n{quote}{more}\nwhole output: /show {item.citation.artifact}"


def _short(item: Evidence) -> str:
    return f"{item.id} {item.kind}: {item.citation.render()}"


def _show(session: Session, argument: str) -> str:
    call, dot, _ = argument.partition(".")
    call = f"t{call.lstrip('tT')}"
    begun = {e.call: e for e in session.events if isinstance(e, ToolStarted)}
    done = {e.call: e for e in session.events if isinstance(e, ToolFinished)}
    if call not in done:
        state = "is still at work" if call in begun else "is not a call"
        return f"{call} {state}; there are: {', '.join(done) or 'none yet'}"
    refs = {ref.handle: ref for event in done.values() for ref in event.artifacts}
    if not dot:
        kept = [f"{ref.handle}: {ref.label} ({ref.size:,} bytes)" for ref in done[call].artifacts]
        more = "\n\nkept whole, see /show HANDLE:\n" + "\n".join(kept) if kept else ""
        title = begun[call].describe if call in begun else ""
        return f"{call} {title or done[call].tool}\n{_readable(done[call].view)}{more}"
    ref = refs.get(f"t{argument.lstrip('tT')}")
    if ref is None:
        handles = [one.handle for one in done[call].artifacts]
        return f"no output {argument}; there is: {', '.join(handles) or 'none'}"
    return ArtifactStore(session.folder / "artifacts").get(ref.sha256).decode(errors="replace")


def _readable(view: str) -> str:
    """Return what a model was shown with a line for each value, where it is JSON."""
    try:
        return json.dumps(json.loads(view), indent=1, ensure_ascii=False)
    except ValueError:
        return view


def _diff(session: Session, argument: str) -> str:
    diffs = {e.change: str(e.plan.get("diff", "")) for e in session.events if isinstance(e, PlanMade)}
    rows = []
    for change in changes_of(session.events).values():
        value = f"{change.from_value or '(not set)'} -> {change.to_value or '(left out)'}"
        rows.append(f"{change.id} {change.status}: {change.setting} {value} on {change.unit}")
        rows += [f"    {line}" for line in diffs.get(change.id, "").splitlines()]
    return "\n".join(rows) or "no change was proposed"


def _cost(session: Session, argument: str) -> str:
    started, used = _started(session), [e for e in session.events if isinstance(e, BudgetUsed)]
    if not used:
        return "nothing used yet"
    last, limit = used[-1], started.budget
    rows = [
        ("turns", f"{last.turns}", f"{limit.get('turns', 0):.0f}"),
        ("tokens", f"{last.tokens:,}", f"{limit.get('tokens', 0):,.0f}"),
        ("dollars", f"{last.cost_usd:.2f}", f"{limit.get('cost_usd', 0):.2f}"),
        ("seconds", f"{last.wall_s:.0f}", f"{limit.get('wall_s', 0):.0f}"),
    ]
    return "\n".join(f"{name:<8} {spent} of {most}" for name, spent, most in rows)


def _mode(session: Session, argument: str) -> str:
    meaning = {
        "read-only": "it only looks; changes stay proposals",
        "propose": "it looks and proposes changes; a person carries them out",
        "apply": "each change that you approve is tried, measured, and kept or rolled back",
    }
    started = _started(session)
    asked = f" A session keeps its mode; for {argument}, begin another chat." if argument else ""
    return f"{started.mode}: {meaning[started.mode]}.{asked}"


def _started(session: Session) -> Started:
    first = session.events[0]
    assert isinstance(first, Started)  # every transcript begins so
    return first


COMMANDS = {
    "/hypotheses": Command("/hypotheses", "what may be the cause, and where each stands", _hypotheses),
    "/evidence": Command("/evidence N", "a quote, and where it stands; all of them without N", _evidence),
    "/show": Command("/show tN", "what a call returned; /show tN.M the whole output behind it", _show),
    "/diff": Command("/diff", "the changes, and how each edits its unit", _diff),
    "/cost": Command("/cost", "turns, tokens, money and time used", _cost),
    "/mode": Command("/mode", "what it may do", _mode),
}
