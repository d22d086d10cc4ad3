"""Let a judge model say how right a conclusion is: a column beside the scores, which decides nothing.

The judge is shown the answers of the case and what the run concluded, changed and claimed, in the run's own
words; the host's outputs are not shown. What comes from the run stands between two lines with a mark that
is not in it, so that no text of a run can end its own quotation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agent.config import Settings
from agent.errors import LeadlineError, UsageError
from agent.events import Event
from agent.models import Model
from agent.models.select import PLAYBOOK, model_of
from agent.transcript import read_events
from evals import case, recordings
from evals.case import Case, Fix, Value
from evals.context import RunContext
from evals.findings import fold
from evals.jobs import RECORDED
from evals.results import Result
from prompts.render import render
from tools.wrong_fields import words

TRIES = 2
LONGEST = 2_000
"""Characters of each text of a run that a judge is shown."""

ITEMS = 40
"""Items of each list of a run that a judge is shown."""

_REASON = 300
_NOTHING = "The run reached no conclusion, so that the judge was not asked."


class Opinion(BaseModel):
    """Hold the answer of a judge: nothing but these two fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    score: float = Field(ge=0, le=1, allow_inf_nan=False)
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def judge_of(settings: Settings) -> Model | None:
    """Return the judge that the settings name; None when there is none."""
    if settings.judge_model is None:
        return None
    if settings.judge_model == PLAYBOOK:
        raise UsageError("the built-in model judges nothing", do="give --judge-model the name of another")
    url = settings.judge_base_url or settings.base_url
    if url is None and settings.api_key is None:
        raise UsageError(
            f"judge model {settings.judge_model} needs an endpoint",
            do="give --judge-url, such as http://127.0.0.1:30000/v1",
        )
    retries = min(settings.model_retries, TRIES - 1)
    return model_of(
        settings.model_copy(update={"model": settings.judge_model, "base_url": url, "model_retries": retries})
    )


async def judged(result: Result, context: RunContext, settings: Settings) -> Result:
    """Add what the judge says to a sample that has a score; why it says nothing, when it does not."""
    if result.score is None or result.error:
        return result
    try:
        judge = judge_of(settings)
        if judge is None:
            return result
        wanted = case.load(result.case, context.asked.cases)
        told = shown(_events(result, context))
        if told is None:
            return result.model_copy(update={"judged": 0.0, "judge_says": _NOTHING})
        opinion = await ask(judge, wanted, told)
    except LeadlineError as error:
        return result.model_copy(update={"judge_says": f"no answer: {error}"})
    reason = " ".join(opinion.reason.split())[:_REASON]
    return result.model_copy(update={"judged": opinion.score, "judge_says": reason})


async def ask(judge: Model, wanted: Case, told: dict[str, Any]) -> Opinion:
    """Return the opinion of a judge; raise `LeadlineError` when its answers cannot be used."""
    again = ""
    for _ in range(TRIES):
        turn = await judge.next_turn([{"role": "user", "content": question(wanted, told, again)}], ())
        try:
            return Opinion.model_validate_json(turn.text)
        except ValidationError as error:
            again = _wrong(error)
    raise LeadlineError(f"{judge.name} was asked {TRIES} times: {again}", do="name another judge model")


def _wrong(error: ValidationError) -> str:
    """Say what is wrong with an answer, in words of ours alone."""
    first = error.errors(include_input=False)[0]
    if first["type"] == "json_invalid":
        return "it is no JSON object"
    place = first["loc"][0] if first["loc"] and first["loc"][0] in Opinion.model_fields else "the object"
    return f"{place}: {words(first)}"


def question(wanted: Case, told: dict[str, Any], again: str = "") -> str:
    """Return what a judge is asked."""
    data = json.dumps(told, ensure_ascii=False, indent=1).encode("utf-8", "replace").decode()
    return render(
        "eval_judge",
        outcomes=wanted.outcomes,
        causes=wanted.causes,
        fixes=[_fix(fix) for fix in wanted.fixes],
        nothing_to_fix=wanted.nothing_to_fix,
        data=data,
        mark=mark_for(data),
        again=again,
    )


def mark_for(data: str) -> str:
    """Return a word that does not stand in a text, the same whenever it is asked for."""
    number = 0
    while (mark := hashlib.sha256(f"{number}\n{data}".encode()).hexdigest()[:16].upper()) in data:
        number += 1
    return mark


def _fix(fix: Fix) -> str:
    values = [_value(value) for value in fix.to]
    ends = [(word, end) for word, end in (("at least", fix.least), ("at most", fix.most)) if end is not None]
    values += [" and ".join(f"{word} {_value(end)}" for word, end in ends)] if ends else []
    notes = [] if fix.required else ["not needed"]
    notes += [f"one of `{fix.group}` is enough"] if fix.group else []
    return f"{fix.setting}: {' or '.join(values)}" + (f" ({', '.join(notes)})" if notes else "")


def _value(value: Value) -> str:
    if value is None:
        return "left out"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(events: Sequence[Event]) -> dict[str, Any] | None:
    """Return what a judge is shown of a run, in its own words; None when it reached no conclusion."""
    found = fold(events)
    end = found.conclusion
    if end is None:
        return None
    states = {check.index: check.status for check in found.checks}

    def stated(name: str) -> str:
        return found.hypotheses[name].statement if name in found.hypotheses else name

    changes = [item.change.model_dump(include=_OF_CHANGE) for item in found.proposals.values()]
    told = {
        "asked": found.started.symptom if found.started else "",
        "outcome": end.outcome,
        "summary": end.summary,
        "causes": [stated(name) for name in end.causes],
        "ruled_out": [{"says": stated(one.hypothesis), "because": one.because} for one in end.ruled_out],
        "changes": changes,
        "claims": [
            {"type": claim.type, "says": claim.says, "checked": states.get(number, "unverified")}
            for number, claim in enumerate(end.claims)
        ],
        "inherent": end.inherent,
        "next_step": end.next_step,
    }
    bounded: dict[str, Any] = _cut(told)
    return bounded


_OF_CHANGE = {"host", "unit", "setting", "from_value", "to_value", "reason", "predicted_effect", "status"}


def _cut(value: Any) -> Any:
    """Return the same tree with every text and list bounded."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]} [cut]"
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return [_cut(item) for item in value[:ITEMS]] if isinstance(value, list) else value


def _events(result: Result, context: RunContext) -> Sequence[Event]:
    if result.way in RECORDED:
        return recordings.load(result.transcript, context.asked.transcripts).events
    return read_events(context.folder / result.transcript)
