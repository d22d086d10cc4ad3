"""Answer a question about hosts as the built-in model: in one turn where the facts suffice, else in two."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from agent.messages import NOTE
from agent.models import (
    questions_changes,
    questions_facts,
    questions_gpus,
    questions_host,
    questions_settings,
    questions_wish,
)
from agent.models.concluding import ATTACH, settle
from agent.models.method import Call, Step
from agent.models.questions_answer import Answer, Look
from agent.models.questions_cover import reasons
from agent.models.questions_cover import told as told_words
from agent.models.questions_follow import (
    Before,
    asks_for_lines,
    asks_why,
    lines,
    quotes_of,
    resolved,
    stripped,
    wish_in,
)
from agent.models.questions_parse import about, parse
from agent.models.questions_query import Kind, Query, Seen
from agent.models.views import View
from agent.questions import Wish, wish, without_greeting
from agent.state import Message

_DOWN_FROM: Final = "could not be reached, and nothing is known of them now."
_DOWN: Final = re.compile(r"^- (\S+): (.+)$", re.MULTILINE)
_JOINT: Final = re.compile(
    r",? (?:and|und|&) (?:also )?|[?;] +(?=\w)|\s[-–]\s|, (?=which|how|what|since|is|are)", re.IGNORECASE
)
_MOST_PARTS: Final = 3
_SAYS: Final = "I answer from what was read; each claim is now held against the stored output."
_FACTS: Final[Mapping[Kind, Callable[[Query, Sequence[Look]], Answer]]] = {
    "versions": questions_facts.versions,
    "gpus": questions_gpus.gpus,
    "dropins": questions_facts.services,
    "reload": questions_facts.services,
    "variable": questions_facts.variables,
    "engines": questions_facts.engines,
    "since": questions_facts.since,
    "differ": questions_settings.differ,
    "who": questions_settings.who,
    "launch": questions_host.launch,
    "environ": questions_host.environ,
    "hardware": questions_host.hardware,
}
_TOLD: Final[Mapping[Kind, Callable[[Query, Sequence[Look], Mapping[str, View]], Answer]]] = {
    "changes": questions_changes.changes,
    "compare": questions_changes.compare,
    "feature": questions_settings.feature,
    "setting": questions_settings.setting,
    "health": questions_settings.health,
}
_STATES: Final[frozenset[Kind]] = frozenset({"feature", "setting", "health", "compare"})
KINDS: Final = (
    "which hosts run a version below or above another; what changed on a host since a moment; in what "
    "hosts differ; why one host is slower than another (by what differs); whether a feature or a setting "
    "is on, off or different; GPUs that are idle; drop-ins; units to reload; variables; health; what runs "
    "where, how it was launched, and since when; processors, memory and disks; what speaks for and against "
    "a restart, an upgrade or another change"
)


def down_of(messages: Sequence[Message]) -> list[Look]:
    """Return the hosts that the program says could not be reached."""
    notes = [str(message["content"]) for message in messages if message["role"] == "user"]
    told = [note.partition(_DOWN_FROM)[2] for note in notes if note.startswith(NOTE)]
    found = [one for text in told for one in _DOWN.findall(text)]
    return [Look(host, error=why) for host, why in found]


def answer_question(
    question: str, read: Sequence[Look], down: Sequence[Look] = (), before: Before | None = None
) -> Generator[Step, list[View], None]:
    """Ask for what the facts lack, all hosts in one turn, and conclude."""
    looks = [*read, *(look for look in down if look.host not in {one.host for one in read})]
    hosts = [look.host for look in looks]
    before = before or Before(())
    if wanted := wish_in(question, before, hosts):
        yield from _weigh(wanted, question, looks, before)
        return
    queries: list[Query] = []
    for place, text in enumerate(before.texts):
        if text in before.open and wish(text) is None and not asks_for_lines(text):
            queries += _by_those_before(text, replace(before, texts=before.texts[:place]), looks)
    yield from answer_queries([*queries, *_by_those_before(question, before, looks)], looks)


def _weigh(
    wanted: tuple[Wish, str], question: str, looks: Sequence[Look], before: Before
) -> Generator[Step, list[View], None]:
    """Answer who asks for an action by what speaks for it and against it; nothing is done."""
    hosts = [look.host for look in looks]
    asked, words = wanted
    query = about(without_greeting(question)[0], hosts)
    if not query.named and not query.strangers and (found := before.found(hosts)):
        query = replace(query, hosts=found, named=True)
    some = [look for look in looks if look.host in query.hosts]
    if query.strangers and not query.named:
        yield from settle(_not_understood(query, looks).arguments(), refused="not_known", says=_SAYS)
        return
    calls = list(questions_wish.calls_for(some, asked[1], words))
    told: Mapping[str, View] = {}
    if calls:
        results = yield Step("An action is asked for. I take none, and look at what speaks for it.", calls)
        told = {str(call[1]["host"]): view for call, view in zip(calls, results, strict=False)}
    answer = questions_wish.weighed(asked, words, query, some, told)
    yield from settle(answer.arguments(), refused="not_known", says=_SAYS)


def _by_those_before(question: str, before: Before, looks: Sequence[Look]) -> list[Query]:
    """Return what a question asks for, what it leaves out taken from the questions before it."""
    hosts, now, seen = [look.host for look in looks], _now(looks), Seen.of(looks)
    queries: list[Query] = []
    for text in before.texts:
        own = understood(text if not queries else stripped(without_greeting(text)[0]), hosts, now, seen)
        # What an answer in between found is not known here: only the last one stands in `before`.
        found = resolved(own, text, queries, before, hosts, now)
        queries = found if found[0].kind != "unknown" else queries
    own = understood(question if not queries else stripped(without_greeting(question)[0]), hosts, now, seen)
    return resolved(own, question, queries, before, hosts, now)


def answer_queries(queries: Sequence[Query], looks: Sequence[Look]) -> Generator[Step, list[View], None]:
    """Ask for what the facts lack, all hosts and all parts of a question in one turn, and conclude."""
    asked = [[look for look in looks if look.host in query.hosts] for query in queries]
    parts = [list(_calls(query, some)) for query, some in zip(queries, asked, strict=True)]
    results: Sequence[View] = ()
    if any(parts):
        says = "The facts do not hold all of it, so I ask the hosts once more."
        results = yield Step(says, [call for calls in parts for call in calls])
    answers, place = [], 0
    for query, some, calls in zip(queries, asked, parts, strict=True):
        views = results[place : place + len(calls)]
        place += len(calls)
        told = {str(call[1]["host"]): view for call, view in zip(calls, views, strict=False)}
        answers.append(_beside(query, _answer(query, some, told), looks))
    yield from settle(joined(answers).arguments(), refused="not_known", says=_SAYS)


def understood(question: str, hosts: Sequence[str], now: datetime, seen: Seen) -> list[Query]:
    """Return what a question asks for: its parts where it joins several, each understood by itself."""
    whole = parse(question, hosts, now, seen)
    if not whole.unread and whole.kind != "unknown":
        return [whole]
    pieces = [piece for piece in _JOINT.split(question) if piece.strip(" ?.,")]
    if not 1 < len(pieces) <= _MOST_PARTS:
        return [whole]
    parts = [parse(piece, hosts, now, seen) for piece in pieces]
    if any(part.unread or part.kind in ("unknown", "who") for part in parts):
        return [whole]
    first = parts[0]
    return [part if part.named or not first.named else replace(part, hosts=first.hosts) for part in parts]


def joined(answers: Sequence[Answer]) -> Answer:
    """Return one answer of several: the first one's table, and what the others say in words."""
    first, *others = answers
    for other in others:
        first.said += other.said
        first.claims += [claim for claim in other.claims if claim not in first.claims]
        first.unknown += other.unknown
        first.known = first.known and other.known
        first.next_step = first.next_step or other.next_step
    return first


def _beside(query: Query, answer: Answer, looks: Sequence[Look]) -> Answer:
    """Say before an answer how the question was read, and what of it is not answered."""
    before: list[str] = []
    if query.kind == "unknown":
        return answer
    if query.strangers:
        names = ", ".join(look.host for look in looks)
        before.append(f"{', '.join(query.strangers)} is none of the hosts that are looked at ({names}).")
    unread = [word for word in query.unread if word not in query.strangers]
    if unread:
        before.append(
            f"Only in part: I do not understand {told_words(unread)}{reasons(unread)}. What I read:"
        )
    before += [f'I take "{slip}" for {word}.' for slip, word in query.read]
    answer.said[:0] = before
    answer.said += query.notes
    return answer


def ask_again(
    question: str, hosts: Sequence[str], down: Sequence[Look], before: Before
) -> Generator[Step, list[View], None]:
    """Answer a later question of a thread: the hosts are looked at anew, since time has passed."""
    if asks_for_lines(question) and before.quoted and not before.open:
        yield from lines(before, question, hosts)
        return
    views = yield Step("I look at the hosts anew.", [("facts", {"host": host}) for host in hosts])
    looks = [look_of(host, view) for host, view in zip(hosts, views, strict=False)]
    yield from answer_question(question, looks, down, before)


def told_after(
    question: str, earlier: Sequence[str], ended: Sequence[Mapping[str, Any]], looks: Sequence[Look]
) -> str:
    """Return what is said to a question in a thread that looked into a symptom and has ended.

    Such a thread ends with causes, not with answers: the proof of its conclusion can be shown, and what was
    read at its beginning told, as of then.
    """
    hosts = [look.host for look in looks]
    quoting = [end for end in ended if any("cite" in claim for claim in end.get("claims") or [])]
    if (asks_for_lines(question) or asks_why(question)) and quoting:
        return quotes_of(quoting[-1])
    queries = _by_those_before(question, Before(tuple(earlier)), looks)
    apart = f'Ask it in a thread of its own: leadline ask {",".join(hosts) or "HOST"} "{question}"'
    if wish(question) or any(query.kind not in _FACTS for query in queries):
        return f"This thread looked into a symptom, and what it read does not tell that. {apart}"
    parts = [
        _beside(query, _FACTS[query.kind](query, [look for look in looks if look.host in query.hosts]), looks)
        for query in queries
    ]
    answer = joined(parts)
    table = f"\n\n{answer.shown()}" if answer.cells else ""
    at = _now(looks).isoformat(timespec="seconds")
    told = f"As read at {at}, when this thread began, and not verified: {' '.join(answer.said)}"
    return f"{told}{table}\n\n{apart}"


def look_of(host: str, view: View) -> Look:
    """Return what a view of `facts` shows of a host, or why it shows nothing."""
    return Look(host, error=str(view["error"])) if "error" in view else Look(host, view)


def _now(looks: Sequence[Look]) -> datetime:
    """Return when the hosts were looked at: the same question over the same looks has the same answer."""
    stamps = [str(look.view.get("taken_at")) for look in looks if look.view.get("taken_at")]
    try:
        return datetime.fromisoformat(max(stamps, default=""))
    except ValueError:
        return datetime.now(UTC)


def _calls(query: Query, looks: Sequence[Look]) -> list[Call]:
    reached = [look for look in looks if not look.error]
    if query.kind == "changes":
        return [("history", {"host": look.host, "since": query.since}) for look in reached]
    if query.kind not in _STATES:
        return []
    names = list(query.names)
    if query.feature is not None:
        names = list(dict.fromkeys(name for one in query.feature.switched_off.values() for name in one))
    if query.kind == "compare" and len(reached) < len(query.hosts):
        return []
    if query.kind == "compare":
        from prompts.questions import known

        bears = [one.name for phase in known().bears_on.values() for one in phase]
        names = list(dict.fromkeys(name.removeprefix("effective ") for name in bears if "effective " in name))
    if query.kind == "health":
        names = ["version"]
    asked = [look for look in reached if look.engines]
    return [("engine_state", {"host": look.host, "names": names[:16]}) for look in asked]


def _answer(query: Query, looks: Sequence[Look], told: Mapping[str, View]) -> Answer:
    if query.kind in _FACTS:
        return _FACTS[query.kind](query, looks)
    if query.kind in _TOLD:
        return _TOLD[query.kind](query, looks, told)
    return _not_understood(query, looks)


def _not_understood(query: Query, looks: Sequence[Look]) -> Answer:
    """Say which questions are understood; a language model reads more than these."""
    answer = Answer(["HOST", "STATE"])
    answer.missing(looks)
    if query.strangers and not query.named:
        answer.said.append(
            f"{', '.join(query.strangers)} is none of the hosts that are looked at "
            f"({', '.join(look.host for look in looks)}), and nothing is known of it."
        )
        answer.next_step = f'Ask again with it: leadline ask {query.strangers[0]} "..."'
        return answer
    why = "nothing that I can read says so, or I do not understand the question"
    if query.unread:
        words = told_words(query.unread)
        why = f"I do not understand all of the question, and do not answer it by a guess: {words}"
    answer.said.append(f"I do not know: {why}. What I can answer without a language model: {KINDS}.")
    answer.next_step = f"Ask one of these, or ask who runs the hosts. {ATTACH}"
    return answer
