"""Slash commands on what is used: money and time, the model and its context, and what the session may do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent.budget import Limits
from agent.compaction import compact, is_folded, tokens_of
from agent.errors import LeadlineError
from agent.events import BudgetUsed, TurnTaken
from agent.messages import NOTE
from agent.models.select import PLAYBOOK, model_of
from agent.state import Mode
from agent.steering import choose, fold_now, named
from agent.surfaces.slash_types import (
    Candidate,
    Command,
    Desk,
    DeskCommand,
    ModelTaken,
    ModeTaken,
    Reply,
    started,
    table,
)
from tools.wrong_fields import near_or_all

if TYPE_CHECKING:
    from agent.session import Session
    from agent.state import Message

_MEANING: dict[Mode, str] = {
    "read-only": "it only looks; changes stay proposals",
    "propose": "it looks and proposes changes; a person carries them out",
    "apply": "each change that you approve is tried, measured, and kept or rolled back",
}


def _cost(desk: Desk, argument: str) -> str:
    session = desk.session
    used = [e for e in session.events if isinstance(e, BudgetUsed)] if session is not None else []
    limit = started(session).budget if session is not None else Limits.of(desk.settings).record()
    last = used[-1] if used else BudgetUsed(turn=0, turns=0, tokens=0, cost_usd=0.0, wall_s=0.0)
    rows = [
        ("turns", f"{last.turns}", f"{limit.get('turns', 0):.0f}"),
        ("tokens", f"{last.tokens:,}", f"{limit.get('tokens', 0):,.0f}"),
        ("dollars", f"{last.cost_usd:.2f}", f"{limit.get('cost_usd', 0):.2f}"),
        ("seconds", f"{last.wall_s:.0f}", f"{limit.get('wall_s', 0):.0f}"),
    ]
    return "\n".join(f"{name:<8} {spent} of {most}" for name, spent, most in rows)


def _context(desk: Desk, argument: str) -> str:
    """Count what a request of the next turn would hold, by what it comes from."""
    if desk.session is None:
        return f"0 of {desk.settings.context_tokens:,} tokens: nothing was said to a model yet"
    work = desk.session.work
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


def _model(desk: Desk, argument: str) -> str | Reply:
    if not argument:
        return _taking(desk)
    name, _, url = argument.partition(" ")
    session, held = desk.session, desk.settings
    if not (url or held.base_url or held.api_key or name == PLAYBOOK or name in held.models):
        return f"model {name} needs an endpoint: /model {name} URL, such as http://127.0.0.1:30000/v1"
    try:
        if session is not None:
            settings = choose(session.work, name, url.strip() or None)
            taken, when = session.work.model.name, "next turn"
        else:
            settings = named(held, name, url.strip() or None)
            taken, when = model_of(settings).name, "first turn"
    except LeadlineError as error:
        return str(error)
    at = _at(settings.base_url, taken)
    early = settings if session is None else None
    return Reply(f"the {when} is taken by {taken}{at}", then=ModelTaken(taken, early))


def _taking(desk: Desk) -> str:
    """Say which model takes the turns, and which took how many."""
    session = desk.session
    name = session.work.model.name if session is not None else desk.settings.model
    taken = (e for e in session.events if isinstance(e, TurnTaken) and e.turn > 0) if session else ()
    rows = [f"{name}{_at(desk.settings.base_url, name)}"]
    rows += [f"   {model} took {count} turns" for model, count in Counter(e.model for e in taken).items()]
    return "\n".join([*rows, "another one for the next turn: /model NAME [URL]"])


def _at(base_url: str | None, name: str) -> str:
    return f" at {base_url}" if base_url and name != PLAYBOOK else ""


def _models(desk: Desk) -> Iterable[Candidate]:
    settings = desk.settings
    others = [Candidate(name, entry.base_url or "") for name, entry in settings.models.items()]
    return [Candidate(settings.model, "the model of this session"), *others]


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


def _mode(desk: Desk, argument: str) -> str | Reply:
    if desk.session is not None:
        mode = started(desk.session).mode
        asked = f" A session keeps its mode; for {argument}, begin another: /new" if argument else ""
        return f"{mode}: {_MEANING[mode]}.{asked}"
    if not argument:
        return f"{desk.mode}: {_MEANING[desk.mode]}. Until the first message, /mode MODE chooses another"
    chosen = next((mode for mode in _MEANING if mode == argument), None)
    if chosen is None:
        return f"no mode {argument}; {near_or_all(argument, list(_MEANING))}"
    return Reply(f"{chosen}: {_MEANING[chosen]}", then=ModeTaken(chosen))


def _modes(desk: Desk) -> Iterable[Candidate]:
    return [Candidate(mode, says) for mode, says in _MEANING.items()]


COMMANDS: dict[str, Command | DeskCommand] = {
    "/cost": DeskCommand("/cost", "turns, tokens, money and time used", _cost),
    "/context": DeskCommand("/context", "what fills the model's context, by tool", _context),
    "/model": DeskCommand(
        "/model [NAME]", "which model takes the turns; with NAME another one from now on", _model, _models
    ),
    "/mode": DeskCommand(
        "/mode", "what it may do; with MODE, before the first message, what it shall", _mode, _modes
    ),
    "/compact": Command("/compact", "fold older results to a line each; ids and outputs are kept", _compact),
}
