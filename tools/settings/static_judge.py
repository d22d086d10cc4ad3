"""Judge conditions by the launch line and the defaults alone, where no interpreter has met them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.definitions import ENGINES, Definitions, Engine, read_definitions
from tools.judge import Judge
from tools.resolvers import resolver_at
from tools.settings.judging import Facts, Fallback
from tools.settings.needs import Need
from tools.settings.trees import memo, parsed
from tools.settings.types import SourceTree, Truth


def static_fallback(
    tree: SourceTree, argv: Sequence[str], effective: Mapping[str, Any] | None = None
) -> Fallback | None:
    """Return a judge for layouts with one settings class in one file; None where the package has another."""
    engine = ENGINES.get(tree.engine)
    if engine is None:
        return None
    definitions = _definitions(tree, engine)
    if definitions is None or not definitions.fields:
        return None
    judge = Judge.of(definitions, argv, effective)

    def fallback(need: Need) -> tuple[Truth, str, Facts] | None:
        way = list(need.way)
        resolve, inside = resolver_at(judge.definitions, need.module, need.path, way, judge.launched)
        found = judge.judge(need.node, resolve, inside=inside)
        return found.verdict, found.because, tuple((one.name, one.value) for one in found.decided_by)

    return fallback


def _definitions(tree: SourceTree, engine: Engine) -> Definitions | None:
    kept: dict[str, Definitions | None] = memo(tree, "static definitions")
    if engine.file not in kept:
        try:
            module = parsed(tree, engine.file)
            kept[engine.file] = read_definitions(engine, module) if module is not None else None
        except SyntaxError:
            kept[engine.file] = None
    return kept[engine.file]
