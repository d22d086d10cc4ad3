"""Tell what an engine's argument code does to a launch line: what it refuses, and what it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.settings.option_words import Given
from tools.settings.problems import Problem
from tools.settings.types import Effective, Evaluation


def check_evaluation(given: Sequence[Given], evaluation: Evaluation, refused: bool) -> Iterator[Problem]:
    """Yield what the argument code does to the line: a refusal, and changes of what was asked for."""
    if evaluation.accepted is False and not (refused and evaluation.stage == "parse"):
        message = f"the engine refuses this launch line: {evaluation.refusal or 'without a word'}"
        yield Problem("rejected", "", message, None, evaluation.refused_at)
    if evaluation.accepted is False:
        return
    for one in given:
        definition = one.definition
        effective = evaluation.settings.get(definition.name) if definition is not None else None
        if effective is not None and not one.keys:
            yield from _changed(one, effective)


def _changed(given: Given, effective: Effective) -> Iterator[Problem]:
    """Yield that a value that was given is not the one in force."""
    asked = next((step for step in effective.steps if step.origin == "flag"), None)
    last = effective.steps[-1] if effective.steps else None
    if asked is None or last is None or last.origin != "overwrite" or not effective.known or not asked.known:
        return
    if effective.value == asked.value and type(effective.value) is type(asked.value):
        return
    how = f"and logs {last.logged[:120]!r}" if last.logged else "and says nothing of it"
    message = f"{given.word} asks for {asked.value!r}; the engine makes it {effective.value!r} {how}"
    yield Problem("silently_changed", given.word, message, None, last.cite)
