"""Check the launch line of a planned change against the installed source, before a person sees the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tools.contract import Host, ToolContext, ToolError
from tools.service_types import ChangePlan
from tools.settings import subject as subjects
from tools.settings.ask import Question, ask, compare
from tools.settings.lint import lint
from tools.settings.problems import Problem
from tools.settings.subject import Subject
from tools.settings.types import Evaluation
from tools.settings.whose import engine_pid


async def check_plan(ctx: ToolContext, host: Host, plan: ChangePlan) -> list[str]:
    """Return what a person has to know of the new launch line; raise `ToolError` when it would be refused.

    Where the source cannot be read, that is one of the things to know.
    """
    try:
        pid = await engine_pid(host, unit=plan.unit)
        subject = await subjects.of_host(ctx, host, pid)
    except ToolError as error:
        return [f"the launch line was not checked against the engine's source: {error}"]
    environment = changed_environment(subject.environment, plan)
    found, evaluation = await asyncio.to_thread(_new_problems, subject, plan, environment)
    refuse(found)
    told = [str(problem) for problem in found]
    if ctx.settings.ask_engine:
        told += await _asked(host, subject, plan.exec_start_after, environment, evaluation)
    return told


def changed_environment(environment: Mapping[str, str], plan: ChangePlan) -> dict[str, str]:
    """Return the variables of the process as they will be after a change."""
    after = dict(environment)
    if plan.environment is not None:
        after.pop(plan.environment.name, None)
        if plan.environment.after is not None:
            after[plan.environment.name] = plan.environment.after
    return after


def _new_problems(
    subject: Subject, plan: ChangePlan, environment: Mapping[str, str]
) -> tuple[list[Problem], Evaluation]:
    """Return what is to be said of the new launch line and was not of the old one, which runs."""
    after = subjects.evaluated(subject, plan.exec_start_after, environment)
    read_file = subject.facts.read_file
    before = lint(
        subject.tree,
        subject.definitions,
        plan.exec_start_before,
        subject.environment,
        subject.evaluation,
        read_file,
    )
    found = lint(subject.tree, subject.definitions, plan.exec_start_after, environment, after, read_file)
    return new_of(before, found), after


def new_of(before: Sequence[Problem], after: Sequence[Problem]) -> list[Problem]:
    """Return the problems that a change brings; what is said of a line that runs is not held against it."""
    doubted = any(problem.kind == "rejected" for problem in before)
    return [p for p in after if p not in before and not (doubted and p.kind == "rejected")]


def refuse(problems: Sequence[Problem]) -> None:
    """Raise `ToolError` with the words of every error among problems."""
    errors = [str(problem) for problem in problems if problem.level == "error"]
    if errors:
        raise ToolError(f"the engine would not start with this launch line: {'; '.join(errors)}")


async def _asked(
    host: Host,
    subject: Subject,
    argv: Sequence[str],
    environment: Mapping[str, str],
    evaluation: Evaluation,
) -> list[str]:
    """Ask the engine itself; raise `ToolError` when it refuses the line."""
    location = subject.location
    engine = subject.tree.engine
    if location is None or (engine != "sglang" and engine != "vllm"):
        return []
    if location.root:
        return ["the engine's own argument class was not asked: its process runs in a container"]
    process = location.process
    question = Question(engine, process.interpreter, location.package, tuple(argv), environment)
    answer = await ask(host, question, consent=True)
    differences = compare(answer, evaluation)
    where = f" ({answer.where})" if answer.where else ""
    if answer.outcome == "refused":
        raise ToolError(f"the engine's own argument class refuses this launch line: {answer.words}{where}")
    if answer.outcome == "not_asked":
        return [f"the engine's own argument class could not be asked: {answer.words}"]
    said = [f"the engine's own argument class (version {answer.version}) accepts the launch line"]
    return said + [
        f"it gives {one.what} as {one.engine!r}, the reading of its source as {one.source!r}"
        for one in differences[:5]
    ]
