"""The built-in model: follows the playbooks, needs no key and no network, and sees what any model sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

from agent.events import STDIN
from agent.messages import NOTE
from agent.models import ToolSchema
from agent.models.concluding import ATTACH, conclude
from agent.models.method import Call, Case, Lead, Step, cite, hypothesise, select
from agent.models.odd import odd_settings
from agent.models.probing import probe
from agent.models.proposing import propose
from agent.models.questions import answer_question, ask_again, down_of, look_of, told_after
from agent.models.questions_answer import Look
from agent.models.questions_follow import Before
from agent.models.questions_subject import Subject, choose, roles_of
from agent.models.reading import began_with_searches, read_source
from agent.models.telling import given, judge_log
from agent.models.views import Facts, View, parse_view, rows
from agent.questions import asked, asks_on, is_question
from agent.state import AssistantTurn, Message, ToolCall
from prompts.playbooks import load_all

_READS_FILES = frozenset({"grep", "settings", "read_file"})


def investigate(
    symptom: str,
    facts: Sequence[Facts],
    *,
    explains: bool = False,
    roles: Mapping[str, str] | None = None,
) -> Generator[Step, list[View], None]:
    """Follow the method on one host that runs an engine; say what is missing when none does.

    It is the one that the symptom is about (`choose`). ``explains`` says that the tool `settings` may be
    asked; without it the source is searched.
    """
    subject = choose(facts, symptom, roles)
    chosen = subject.facts
    if chosen is None:
        yield from no_engine(facts, subject.because)
        return
    books = select(load_all(), chosen, symptom)
    covered = {name for book in books for name in book.settings}
    books += odd_settings(chosen, covered)
    log = given([one.view for one in facts])
    case = Case(symptom, chosen, [Lead(book) for book in books], explains=explains, log=log)
    yield from inside(_method(case), chosen)


def _method(case: Case) -> Generator[Step, list[View], None]:
    if case.leads:
        yield from hypothesise(case)
    yield from probe(case)
    yield from read_source(case)
    yield from cite(case)
    yield from propose(case)
    yield from conclude(case)


def inside(steps: Generator[Step, list[View], None], facts: Facts) -> Generator[Step, list[View], None]:
    """Read the files of an engine in a container through its root, as they are not among the host's."""
    results: list[View] | None = None
    seen = {"process_root": facts.pid} if facts.in_container and facts.engine.get("process_root") else {}
    while True:
        try:
            step = next(steps) if results is None else steps.send(results)
        except StopIteration:
            return
        calls = [(name, given | (seen if name in _READS_FILES else {})) for name, given in step.calls]
        results = yield Step(step.text, calls)


def on_one_host(
    steps: Generator[Step, list[View], None],
    facts: Sequence[Facts],
    symptom: str,
    takers: Collection[str],
    roles: Mapping[str, str] | None = None,
) -> Generator[Step, list[View], None]:
    """Name the host in every call where there are several, and say first which one it is, and why."""
    subject = choose(facts, symptom, roles)
    others = [one.host for one in facts if one is not subject.facts and one.host != STDIN]
    if subject.facts is None or not others:
        yield from steps
        return
    host = subject.facts.host
    why = " ".join(
        filter(None, ["", subject.because, subject.left if subject.left != subject.because else ""])
    )
    says = f"The playbooks look into one host at a time: {host} here, not {', '.join(others)}.{why}\n"
    results: list[View] | None = None
    while True:
        try:
            step = next(steps) if results is None else steps.send(results)
        except StopIteration:
            return
        calls = [(name, {"host": host, **given} if name in takers else given) for name, given in step.calls]
        results = yield Step(says + step.text, [_concluded(call, host, others, subject) for call in calls])
        says = ""


def _concluded(call: Call, host: str, others: Sequence[str], subject: Subject) -> Call:
    """Return a call; a conclusion says which hosts it tells nothing of."""
    name, given = call
    if name != "conclude":
        return call
    said = f"{given['summary']} Only {host} was looked into, not {', '.join(others)}."
    return name, {**given, "summary": f"{said} {subject.left}".rstrip()}


def unread(steps: Generator[Step, list[View], None], log: View) -> Generator[Step, list[View], None]:
    """Say of a log that was given with a question that it is not what the answer is from."""
    says = f'The log ({log["artifact"]}) was not read for it; told of a symptom ("why did it die") it is.'
    results: list[View] | None = None
    while True:
        try:
            step = next(steps) if results is None else steps.send(results)
        except StopIteration:
            return
        calls = [
            (name, {**made, "summary": f"{made['summary']} {says}"} if name == "conclude" else made)
            for name, made in step.calls
        ]
        results = yield Step(step.text, calls)


def no_engine(facts: Sequence[Facts], named: str = "") -> Generator[Step, list[View], None]:
    """End with what a person has to do, since no engine process was seen where ``named`` says."""
    hidden = [str(row) for one in facts for row in one.view.get("not_permitted") or []]
    log = given([one.view for one in facts])
    if log is not None and len(facts) == 1:
        yield Step("Only a log was given.", [("conclude", judge_log(log, "No host was looked at."))])
        return
    because = f" Not permitted to read: {', '.join(hidden[:5])}." if hidden else ""
    services = [str(row.get("unit")) for one in facts for row in rows(one.view, "services")]
    seen = f" Units that mention one: {', '.join(services)}." if services else ""
    nowhere = named or "No running inference engine is visible."
    if log is not None:
        known = f"No running inference engine is visible on the host.{because}{seen}"
        yield Step(known, [("conclude", judge_log(log, known))])
        return
    yield Step(
        f"{named or 'No running inference engine is visible on the host.'}{because}{seen}",
        [
            (
                "conclude",
                {
                    "outcome": "needs_person",
                    "summary": f"{nowhere}{because}{seen}",
                    "claims": [],
                    "next_step": f"Start the server, or name a host where it runs. {ATTACH}",
                },
            )
        ],
    )


class PlaybookModel:
    """Take turns by the method; a thread that is resumed is brought back by the messages alone."""

    name = "playbook"

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        """Replay the method over the results so far and return its next step."""
        symptom = next((str(message["content"]) for message in messages if message["role"] == "user"), "")
        rounds = list(_rounds(messages))
        later = _asked_later(messages)
        if is_question(symptom) and _may_answer(tools):
            looks = _looks(messages, rounds[0] if rounds else [])
            if not later:
                steps = answer_question(asked(symptom), looks, down_of(messages))
                log = given(rounds[0]) if rounds else None
                return self._turn(steps if log is None else unread(steps, log), rounds, on_text)
            place, text = later[-1]
            texts = [asked(symptom), *(asked(earlier) for _, earlier in later[:-1])]
            ends = _conclusions(messages[:place])
            quoting = [end for end in ends if any("cite" in claim for claim in end.get("claims") or [])]
            last = _last_end(messages[:place])
            open_ = [asked(symptom)] * (last < 0) + [asked(one) for at, one in later[:-1] if at > last]
            before = Before(
                tuple(texts), ends[-1] if ends else {}, quoting[-1] if quoting else {}, tuple(open_)
            )
            again = ask_again(asked(text), [look.host for look in looks], down_of(messages), before)
            return self._turn(again, [[], *_rounds(messages[place:])], on_text)
        ended = _conclusions(messages[: later[-1][0]]) if later else []
        if ended:
            earlier = [asked(text) for _, text in later[:-1]]
            looks = _looks(messages, rounds[0] if rounds else [])
            said = told_after(asked(later[-1][1]), earlier, ended, looks)
            on_text(said)
            return AssistantTurn(text=said)
        facts = [Facts.of(view, symptom) for view in rounds[0]] if rounds else []
        offered = any(tool["function"]["name"] == "settings" for tool in tools)
        explains = offered and not began_with_searches(_calls(messages))
        roles = roles_of(messages)
        steps = investigate(symptom, facts, explains=explains, roles=roles)
        return self._turn(on_one_host(steps, facts, symptom, _takers(tools), roles), rounds, on_text)

    def _turn(
        self,
        steps: Generator[Step, list[View], None],
        rounds: Sequence[list[View]],
        on_text: Callable[[str], None],
    ) -> AssistantTurn:
        """Go to where the results lead and return the step that is due there."""
        number = 0
        step = next(steps, None)
        for results in rounds[1:]:
            number += 1
            try:
                step = steps.send(results)
            except StopIteration:
                step = None
        if step is None:
            return AssistantTurn(text=f"The playbooks have nothing more to try. {ATTACH}")
        on_text(step.text)
        calls = [
            ToolCall(id=f"p{number + 1}-{place}", name=name, arguments=json.dumps(arguments))
            for place, (name, arguments) in enumerate(step.calls, start=1)
        ]
        return AssistantTurn(text=step.text, tool_calls=calls)


def _takers(tools: Sequence[ToolSchema]) -> set[str]:
    """Return the tools whose calls name a host."""
    functions = [tool["function"] for tool in tools]
    return {
        str(one["name"]) for one in functions if "host" in one.get("parameters", {}).get("properties", {})
    }


def _may_answer(tools: Sequence[ToolSchema]) -> bool:
    """Tell whether an investigation may end with an answer: where a symptom was told it may not."""
    ends = [str(tool) for tool in tools if tool["function"]["name"] == "conclude"]
    return not ends or "not_known" in ends[0]


def _conclusions(messages: Sequence[Message]) -> list[Mapping[str, Any]]:
    """Return the conclusions that were taken, as they were put forward."""
    accepted = {
        str(one["tool_call_id"])
        for one in messages
        if one["role"] == "tool" and parse_view(str(one["content"])).get("accepted") is True
    }
    return [
        json.loads(call["function"]["arguments"])
        for message in messages
        for call in (message.get("tool_calls") or () if message["role"] == "assistant" else ())
        if call["function"]["name"] == "conclude" and str(call["id"]) in accepted
    ]


def _last_end(messages: Sequence[Message]) -> int:
    """Return the place of the last conclusion that was taken; -1 when there is none."""
    ends = [
        place
        for place, one in enumerate(messages)
        if one["role"] == "tool" and parse_view(str(one["content"])).get("accepted") is True
    ]
    return ends[-1] if ends else -1


def _asked_later(messages: Sequence[Message]) -> list[tuple[int, str]]:
    """Return place and words of every question that was put after the first."""
    said = [
        (place, str(message["content"]))
        for place, message in enumerate(messages)
        if message["role"] == "user" and not str(message["content"]).startswith(NOTE)
    ]
    return [(place, text) for place, text in said[1:] if asks_on(text)]


def _looks(messages: Sequence[Message], views: Sequence[View]) -> list[Look]:
    """Return what was read of each host before the first turn, and why of some nothing was."""
    first: list[dict[str, Any]] = next(
        (one["tool_calls"] for one in messages if one["role"] == "assistant" and one.get("tool_calls")), []
    )
    hosts = [json.loads(call["function"]["arguments"]).get("host") for call in first]
    # A call without a host gave the log.
    return [look_of(str(host), view) for host, view in zip(hosts, views, strict=False) if host]


def _calls(messages: Sequence[Message]) -> Iterator[Mapping[str, Any]]:
    """Yield name and arguments of every call so far."""
    for message in messages:
        for call in message.get("tool_calls") or () if message["role"] == "assistant" else ():
            yield call["function"]


def _rounds(messages: Sequence[Message]) -> Iterator[list[View]]:
    """Yield the results of each assistant turn in call order, orientation first."""
    results = {
        str(message["tool_call_id"]): parse_view(str(message["content"]))
        for message in messages
        if message["role"] == "tool"
    }
    for message in messages:
        if message["role"] == "assistant" and message.get("tool_calls"):
            yield [results.get(str(call["id"]), {"error": "no result"}) for call in message["tool_calls"]]
