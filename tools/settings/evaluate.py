"""Evaluate what an engine's argument code makes of a launch line, without running any of it."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final
from weakref import WeakKeyDictionary

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
    key = _key(argv, environment, facts, limits)
    kept = _KEPT.setdefault(tree, OrderedDict()) if key is not None else OrderedDict()
    if key in kept:
        return kept[key]
    with _few_collections():
        found = _evaluated(tree, argv, environment, facts, limits)
    if key is not None:  # a partial one too: the time that it took is not spent twice
        kept[key] = found
        while len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
    return found


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let more objects gather before they are gone through: those of syntax trees stay."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _COLLECT_AFTER) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


_COLLECT_AFTER: Final = 20_000
_KEPT: Final[WeakKeyDictionary[Any, OrderedDict[Any, Evaluation]]] = WeakKeyDictionary()
_MOST_KEPT: Final = 8


def _key(
    argv: Sequence[str], environment: Mapping[str, str], facts: HostFacts | None, limits: Limits | None
) -> Any:
    """Return what an evaluation depends on besides the tree, or None when it must not be kept."""
    if limits is not None:
        return None
    said = [(f.name, repr(getattr(facts, f.name))) for f in fields(facts)] if facts is not None else []
    return tuple(argv), tuple(sorted(environment.items())), tuple(said)


def _evaluated(
    tree: SourceTree,
    argv: Sequence[str],
    environment: Mapping[str, str],
    facts: HostFacts | None,
    limits: Limits | None,
) -> Evaluation:
    run = Run(tree, argv, environment, facts or HostFacts(), limits)
    if tree.engine == "sglang":
        from tools.settings.evaluate_sglang import follow
    elif tree.engine == "vllm":
        from tools.settings.evaluate_vllm import follow
    else:
        return Evaluation({}, None, needs=(f"the source of {tree.engine}: it is not Python",))
    return run.evaluation(follow)
