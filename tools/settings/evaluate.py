"""Evaluate what an engine's argument code makes of a launch line, without running any of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.interpreter.base import Limits
from tools.settings.evaluation import Run
from tools.settings.types import Evaluation, HostFacts, SourceTree


def evaluate(
    tree: SourceTree,
    argv: Sequence[str],
    environment: Mapping[str, str],
    facts: HostFacts | None = None,
    *,
    limits: Limits | None = None,
) -> Evaluation:
    """Return the effective value of every setting, with the steps that led there.

    ``argv`` holds the engine's options alone. A value is called known only if it holds whatever the unknown
    parts of the host turn out to be; `Effective.needs` names them for the others.
    """
    run = Run(tree, argv, environment, facts or HostFacts(), limits)
    if tree.engine == "sglang":
        from tools.settings.evaluate_sglang import follow
    elif tree.engine == "vllm":
        from tools.settings.evaluate_vllm import follow
    else:
        return Evaluation({}, None, needs=(f"the source of {tree.engine}: it is not Python",))
    return run.evaluation(follow)
