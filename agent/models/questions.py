"""Answer a question about hosts as the built-in model: in one turn where the facts suffice, else in two."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from agent.messages import NOTE
from agent.models import questions_changes, questions_facts, questions_settings
from agent.models.concluding import ATTACH, settle
from agent.models.method import Call, Step
from agent.models.questions_answer import Answer, Look
from agent.models.questions_cover import told as told_words
from agent.models.questions_parse import Kind, Query, parse
from agent.models.views import View
from agent.state import Message

_DOWN_FROM: Final = "could not be reached, and nothing is known of them now."
_DOWN: Final = re.compile(r"^- (\S+): (.+)$", re.MULTILINE)
_FACTS: Final[Mapping[Kind, Callable[[Query, Sequence[Look]], Answer]]] = {
    "versions": questions_facts.versions,
    "gpus": questions_facts.gpus,
    "dropins": questions_facts.services,
    "reload": questions_facts.services,
    "variable": questions_facts.variables,
    "engines": questions_facts.engines,
    "since": questions_facts.since,
    "differ": questions_settings.differ,
    "who": questions_settings.who,
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
    "where, and since when"
)


def down_of(messages: Sequence[Message]) -> list[Look]:
    """Return the hosts that the program says could not be reached."""
    notes = [str(message["content"]) for message in messages if message["role"] == "user"]
    told = [note.partition(_DOWN_FROM)[2] for note in notes if note.startswith(NOTE)]
    found = [one for text in told for one in _DOWN.findall(text)]
    return [Look(host, error=why) for host, why in found]


def answer_question(
    question: str, read: Sequence[Look], down: Sequence[Look] = ()
) -> Generator[Step, list[View], None]:
    """Ask for what the facts lack, all hosts in one turn, and conclude."""
    looks = [*read, *(look for look in down if look.host not in {one.host for one in read})]
    query = parse(question, [look.host for look in looks], _now(looks))
    asked = [look for look in looks if look.host in query.hosts]
    calls = list(_calls(query, asked))
    told: Mapping[str, View] = {}
    if calls:
        results = yield Step("The facts do not hold all of it, so I ask the hosts once more.", calls)
        told = {str(call[1]["host"]): view for call, view in zip(calls, results, strict=False)}
    answer = _answer(query, asked, told)
    says = "I answer from what was read; each claim is now held against the stored output."
    yield from settle(answer.arguments(), refused="not_known", says=says)


def ask_again(question: str, hosts: Sequence[str], down: Sequence[Look]) -> Generator[Step, list[View], None]:
    """Answer a later question of a thread: the hosts are looked at anew, since time has passed."""
    views = yield Step("I look at the hosts anew.", [("facts", {"host": host}) for host in hosts])
    looks = [look_of(host, view) for host, view in zip(hosts, views, strict=False)]
    yield from answer_question(question, looks, down)


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
    why = "nothing that I can read says so, or I do not understand the question"
    if query.unread:
        words = told_words(query.unread)
        why = f"I do not understand all of the question, and do not answer half of it: {words}"
    answer.said.append(f"I do not know: {why}. What I can answer without a language model: {KINDS}.")
    answer.next_step = f"Ask one of these, or ask who runs the hosts. {ATTACH}"
    return answer
