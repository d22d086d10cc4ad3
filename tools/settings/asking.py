"""Set what the engine says of a launch line beside what reading its source gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.contract import Host, ToolContext, ToolError
from tools.settings import subject as subjects
from tools.settings.ask import Answer, Question, ask, compare, shown
from tools.settings.plain import plain
from tools.settings.subject import Subject


def question_of(subject: Subject, argv: Sequence[str], environment: Mapping[str, str]) -> Question:
    """Return what is asked of the process's own interpreter; raise `ToolError` where it cannot be asked."""
    location, engine = subject.location, subject.tree.engine
    if engine != "sglang" and engine != "vllm":
        raise ToolError(f"{engine} has no argument class that could be asked")
    if location is None or subject.stand_in:
        raise ToolError("only a package that is installed on the host can be asked")
    if location.root:
        raise ToolError("the engine's own argument class was not asked: its process runs in a container")
    return Question(engine, location.process.interpreter, location.package, tuple(argv), environment)


async def asked_view(
    ctx: ToolContext, host: Host, subject: Subject, names: Sequence[str] = (), line: str | None = None
) -> dict[str, Any]:
    """Try the process's launch line, or a proposed one; of the values only those named are returned.

    A setting that is named is shown as the engine gives it and as the source was read, whether or not they
    agree; of the others the disagreements.
    """
    argv = list(subject.argv) if line is None else subjects.words_of(line)
    evaluation = subject.evaluation if line is None else subjects.evaluated(subject, argv)
    question = question_of(subject, argv, subject.environment)
    answer: Answer = await ask(host, question, consent=ctx.settings.ask_engine)
    view = shown(answer, compare(answer, evaluation))
    values = view.pop("values")
    view["settings"] = {}
    for name in names:
        read = evaluation.settings.get(name)
        one: dict[str, Any] = {"engine": values[name]} if name in values else {}
        one |= {"source": plain(read.value)} if read is not None and read.known else {}
        view["settings"][name] = one
    return view
