"""The baseline: a plain shell agent on the same cases, with the same model and budget, for comparison.

It has one tool, `bash`, which runs any command on the host over SSH, and ends with `submit`. There is no
ledger, no guard, no verifier that sends anything back, no command policy and no approval: it may do what the
account it works with may do. Its transcript has the product's schema, so that the same scorers rate it:

* Model client, view limits, redaction, time limits of commands and the budget (turns, tokens, money, time,
  one further turn to answer in) are the product's own. Calls that cannot be read, unknown tools and turns
  without a call are answered in the same way; an endpoint that fails for good ends the run with `Failed`.
* A quote is evidence only when it is found again in the output that the answer names. Where output or command
  tell which file it is from, that file is read once more and the citation names path, line and package, which
  the product's own tools do by themselves. Claims are checked by the product's verifier.
* Hypotheses are recorded as the answer states them, at the end: a plain agent writes none down before. They
  are supported (or, where ruled out, refuted) when a quote was found, else open. Only what was refuted that
  way counts as ruled out.
* Fixes count by the state of the host, not by what is said. What services run with is read before the first
  turn and after the answer. A fix is `applied` when its setting changed and now has the stated value, else
  `proposed`; a change that the answer does not name is recorded as well. No change is ever `verified`: the
  readings say what is in force, not what it did. They are kept with the answer's outputs.
"""

from __future__ import annotations

import importlib.metadata
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent import threads
from agent.budget import Limits
from agent.calls import finish, refuse, start, tool_context, validated
from agent.config import Settings
from agent.errors import LeadlineError
from agent.events import ConclusionChecked, Failed, Live, Started, SystemNote, TextDelta, TurnTaken
from agent.investigation import Investigation, schemas_of
from agent.messages import Messages
from agent.models import TOOL_PREFIX, Model, ToolSchema, schema_digest
from agent.state import AssistantTurn, Mode, ToolCall
from agent.transcript import Transcript
from agent.verifier import check, problems
from evals.baseline_answer import Answer, change_of, conclude, tell
from evals.baseline_state import State, read_state, settle
from evals.baseline_tools import ANSWER, STATE, SUBMIT, TOOLS
from prompts.render import digest, render
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, Host, ToolContext, ToolError
from tools.redact import redact

PROMPTS = ("baseline", "baseline_act", "baseline_last_turn")
_BEFORE = "baseline:before"

Show = Callable[[Live], None]


async def run_baseline(
    settings: Settings,
    model: Model,
    host: Host,
    symptom: str,
    mode: Mode,
    scenario: str | None = None,
    show: Show = lambda event: None,
) -> Path:
    """Let a plain shell agent work until it answers or its budget is used; return the thread's folder."""
    folder = threads.create(settings)
    begin = _started(settings, folder.name, model, host, symptom, mode, scenario)
    with _opened(settings, folder, begin, model, host, show) as work:
        try:
            work.cache[_BEFORE] = await read_state(_context(work, "before", []))
            while work.history.ended is None:
                await _step(work, work.history.last_turn + 1)
        except LeadlineError as error:
            failed = Failed(turn=work.history.last_turn, error=str(error), exit_code=error.exit_code)
            work.transcript.append(failed, durable=True)
            raise
    return folder


@contextmanager
def _opened(
    settings: Settings, folder: Path, begin: Started, model: Model, host: Host, show: Show
) -> Iterator[Investigation]:
    """Hold the thread for the time of the block; the folds are those of an investigation."""
    with ExitStack() as stack:
        stack.callback(os.close, threads.lock(folder))
        transcript = Transcript(folder / "transcript.jsonl", redact)
        stack.callback(transcript.close)
        transcript.append(begin, durable=True)
        system = render("baseline", host=host.name, mode=begin.mode, max_turns=settings.max_turns)
        work = Investigation(
            settings=settings,
            mode=begin.mode,
            model=model,
            hosts={host.name: host},
            tools=TOOLS,
            transcript=transcript,
            store=ArtifactStore(folder / "artifacts"),
            redact=redact,
            messages=Messages(system),
            emit=show,
        )
        work.schemas = _schemas()
        yield work


def _started(
    settings: Settings, thread: str, model: Model, host: Host, symptom: str, mode: Mode, scenario: str | None
) -> Started:
    prompts = {f"{name}.md.j2": digest(name) for name in PROMPTS}
    tools = {f"{TOOL_PREFIX}{one['function']['name']}": schema_digest(one) for one in _schemas()}
    return Started(
        thread=thread,
        product=importlib.metadata.version("leadline"),
        recorded=f"baseline:{model.name.removeprefix('openai:')}",
        scenario=scenario,
        symptom=symptom,
        hosts=[host.name],
        mode=mode,
        budget=Limits.of(settings).record(),
        prompts=prompts | tools,
    )


def _schemas() -> list[ToolSchema]:
    """Return the two tools as the model sees them, without those of an investigation, which come last."""
    return schemas_of(TOOLS)[: len(TOOLS)]


def _context(work: Investigation, name: str, kept: list[ArtifactRef]) -> ToolContext:
    """Return what a reading outside of any call works with."""
    return ToolContext(
        call_id=name,
        hosts=work.hosts,
        store=work.store,
        redact=work.redact,
        settings=work.settings.tools,
        kept=kept,
    )


async def _step(work: Investigation, number: int) -> None:
    """Take one turn and carry out its calls, one after the other: any of them may write."""
    if (spent := work.budget.spent()) is not None:
        await _give_up(work, number - 1, f"Budget used up: {spent}.")
        return
    turn = await _turn(work, number)
    for call in turn.tool_calls:
        if work.history.ended is not None:
            refuse(work, number, call, "the answer was given")
        else:
            await _do(work, number, call)
    if not turn.tool_calls:
        if number in work.history.gave_up or work.is_last(number):
            await _give_up(work, number, turn.text or "The model stopped acting.")
        else:
            work.transcript.append(SystemNote(turn=number, text=render("baseline_act")))


async def _turn(work: Investigation, number: int) -> TurnTaken:
    schemas = work.schemas
    if work.is_last(number):
        schemas = [schema for schema in schemas if schema["function"]["name"] == SUBMIT]
        text = render("baseline_last_turn", turns=work.budget.limits.turns)
        work.transcript.append(SystemNote(turn=number, text=text))
    began = time.monotonic()
    turn = await work.model.next_turn(
        work.messages.list, schemas, lambda text: work.emit(TextDelta(text=text))
    )
    taken = TurnTaken(
        turn=number,
        model=work.model.name,
        text=turn.text,
        reasoning=turn.reasoning,
        tool_calls=_unique(work, number, turn),
        usage=turn.usage,
        duration_s=round(time.monotonic() - began, 4),
    )
    work.transcript.append_all([taken, work.budget.used(number, taken)])
    return taken


def _unique(work: Investigation, number: int, turn: AssistantTurn) -> list[ToolCall]:
    """Return the calls under ids that no other call of the thread has."""
    ids = [call.id for call in turn.tool_calls]
    return [
        call
        if call.id and call.id not in work.history.names and ids.count(call.id) == 1
        else call.model_copy(update={"id": f"{call.id or 'call'}-{number}-{place}"})
        for place, call in enumerate(turn.tool_calls, 1)
    ]


async def _do(work: Investigation, number: int, call: ToolCall) -> None:
    """Carry out one call; what is wrong with it is told to the model."""
    began = time.monotonic()
    start(work, number, call)
    kept: list[ArtifactRef] = []
    try:
        tool = TOOLS.get(call.name)
        if tool is None:
            raise ToolError(f"no tool named {call.name!r}; there are: {', '.join(TOOLS)}")
        if work.is_last(number) and call.name != SUBMIT:
            raise ToolError(f"all turns are used: only `{SUBMIT}` is accepted now")
        args = validated(tool.args, call)
        view = await tool.run(tool_context(work, call, kept), args)
    except ToolError as error:
        finish(work, number, call, {"error": str(error)}, status="tool_error", artifacts=kept, began=began)
        return
    if call.name != SUBMIT:
        finish(work, number, call, view, artifacts=kept, began=began)
        return
    before: State | None = work.cache[_BEFORE]
    kept += [before.ref] if before else []
    finish(work, number, call, view, artifacts=kept, began=began)
    _close(work, number)


def _close(work: Investigation, number: int) -> None:
    """Record what the answer says, what of it was found again, and what the host has of its fixes."""
    answer: Answer = work.cache[ANSWER]
    told, ruled = tell(answer)
    host = next(iter(work.hosts))
    fixes = enumerate(answer.args.fixes, 1)
    changes = [change_of(place, host, fix, answer.args.causes) for place, fix in fixes]
    events = [*told.events, *settle(changes, work.cache[_BEFORE], work.cache[STATE], host)]
    work.transcript.append_all([event.model_copy(update={"turn": number}) for event in events])
    conclusion = conclude(answer, told, ruled, changes)
    ledger = work.ledger
    checks = check(conclusion, ledger.artifacts, work.store, ledger.calls, ledger)
    checked = ConclusionChecked(
        turn=number,
        conclusion=conclusion,
        checks=checks,
        accepted=True,
        problems=problems(conclusion, checks, ledger),
    )
    work.transcript.append(checked)
    work.end(conclusion.outcome, conclusion.summary, number)


async def _give_up(work: Investigation, number: int, why: str) -> None:
    """End without an answer; what was changed on the host all the same is recorded."""
    after = await read_state(_context(work, "after", []))
    events = settle([], work.cache[_BEFORE], after, next(iter(work.hosts)))
    work.transcript.append_all([event.model_copy(update={"turn": number}) for event in events])
    work.end("inconclusive", why, number)
