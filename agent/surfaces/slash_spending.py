"""Slash commands on what is used: money and time, the model and its context, and what the session may do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent.compaction import compact, is_folded, tokens_of
from agent.errors import LeadlineError
from agent.events import BudgetUsed, TurnTaken
from agent.messages import NOTE
from agent.models.select import PLAYBOOK
from agent.steering import choose, fold_now
from agent.surfaces.slash_types import Candidate, Command, ModelTaken, Reply, started, table

if TYPE_CHECKING:
    from agent.session import Session
    from agent.state import Message

_MEANING = {
    "read-only": "it only looks; changes stay proposals",
    "propose": "it looks and proposes changes; a person carries them out",
    "apply": "each change that you approve is tried, measured, and kept or rolled back",
}


def _cost(session: Session, argument: str) -> str:
    used = [e for e in session.events if isinstance(e, BudgetUsed)]
    if not used:
        return "nothing used yet"
    last, limit = used[-1], started(session).budget
    rows = [
        ("turns", f"{last.turns}", f"{limit.get('turns', 0):.0f}"),
        ("tokens", f"{last.tokens:,}", f"{limit.get('tokens', 0):,.0f}"),
        ("dollars", f"{last.cost_usd:.2f}", f"{limit.get('cost_usd', 0):.2f}"),
        ("seconds", f"{last.wall_s:.0f}", f"{limit.get('wall_s', 0):.0f}"),
    ]
    return "\n".join(f"{name:<8} {spent} of {most}" for name, spent, most in rows)


def _context(session: Session, argument: str) -> str:
    """Count what a request of the next turn would hold, by what it comes from."""
    work = session.work
    schemas, limit = tokens_of(work.schemas), work.settings.context_tokens
    messages = work.messages.list
    tokens, counts, cut = _by_source(messages)
    tokens["tool schemas"], counts["tool schemas"] = schemas, len(work.schemas)
    total = tokens_of(messages) + schemas
    rows = [
        (name, f"{size:,}", f"{size * 100 // max(total, 1)}%", f"{counts[name]}")
        for name, size in tokens.most_common()
    ]
    shown = table([("from", "tokens", "share", "number"), *rows])
    sent = tokens_of(compact(messages, limit - schemas)) + schemas
    lines = [f"{total:,} of {limit:,} tokens, estimated from bytes", shown]
    if cut:
        lines.append(f"{cut} results are folded to a line; their outputs are kept, see /show")
    if sent < total:
        lines.append(f"the next request holds {sent:,}: older results are folded in it")
    if work.model.name == PLAYBOOK:
        lines.append("The built-in playbooks are sent nothing; this is what a model would be sent.")
    return "\n".join(lines)


def _by_source(messages: list[Message]) -> tuple[Counter[str], Counter[str], int]:
    """Return tokens and number of messages by where they come from, and how many results are folded."""
    names = {call["id"]: call["function"]["name"] for one in messages for call in one.get("tool_calls") or ()}
    tokens: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    cut = 0
    for message in messages:
        source = _source(message)
        if message["role"] == "tool":
            source = names.get(message["tool_call_id"], "a call")
            cut += is_folded(message)
        tokens[source] += tokens_of([message])
        counts[source] += 1
    return tokens, counts, cut


def _source(message: Message) -> str:
    said = str(message.get("content") or "")
    if message["role"] == "user":
        return "notes" if said.startswith(NOTE) else "you"
    return "system prompt" if message["role"] == "system" else "the model"


def _model(session: Session, argument: str) -> str | Reply:
    work = session.work
    if not argument:
        taken = Counter(e.model for e in session.events if isinstance(e, TurnTaken) and e.turn > 0)
        rows = [f"{work.model.name}{_at(work.settings.base_url, work.model.name)}"]
        rows += [f"   {name} took {count} turns" for name, count in taken.items()]
        return "\n".join([*rows, "another one for the next turn: /model NAME [URL]"])
    name, _, url = argument.partition(" ")
    held = work.settings
    if not (url or held.base_url or held.api_key or name == PLAYBOOK or name in held.models):
        return f"model {name} needs an endpoint: /model {name} URL, such as http://127.0.0.1:30000/v1"
    try:
        settings = choose(work, name, url.strip() or None)
    except LeadlineError as error:
        return str(error)
    at = _at(settings.base_url, work.model.name)
    return Reply(f"the next turn is taken by {work.model.name}{at}", then=ModelTaken())


def _at(base_url: str | None, name: str) -> str:
    return f" at {base_url}" if base_url and name != PLAYBOOK else ""


def _models(session: Session) -> Iterable[Candidate]:
    settings = session.work.settings
    named = [Candidate(name, entry.base_url or "") for name, entry in settings.models.items()]
    return [Candidate(settings.model, "the model of this session"), *named]


def _compact(session: Session, argument: str) -> str:
    try:
        done = fold_now(session.work)
    except LeadlineError as error:
        return str(error)
    if done is None:
        return "nothing to fold: only the results of earlier turns are, and those that hold ids never"
    return (
        f"{len(done.calls)} results are folded to a line each: {done.tokens_before:,} -> "
        f"{done.tokens_after:,} tokens. Evidence ids and handles stay; /show has every output whole"
    )


def _mode(session: Session, argument: str) -> str:
    mode = started(session).mode
    asked = f" A session keeps its mode; for {argument}, begin another chat." if argument else ""
    return f"{mode}: {_MEANING[mode]}.{asked}"


def _modes(session: Session) -> Iterable[Candidate]:
    return [Candidate(mode, says) for mode, says in _MEANING.items()]


COMMANDS = {
    "/cost": Command("/cost", "turns, tokens, money and time used", _cost),
    "/context": Command("/context", "what fills the model's context, by tool", _context),
    "/model": Command(
        "/model [NAME]", "which model takes the turns; with NAME another one from now on", _model, _models
    ),
    "/mode": Command("/mode", "what it may do", _mode, _modes),
    "/compact": Command("/compact", "fold older results to a line each; ids and outputs are kept", _compact),
}
