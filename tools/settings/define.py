"""Find every setting that an installed engine defines: fields, options and environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tools.settings import define_env, define_reads, define_sglang, define_vllm
from tools.settings.define_values import Values
from tools.settings.types import Definition, SourceTree
from tools.syntax import collector_paused

_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{2,}")


class Definitions(Mapping[str, Definition]):
    """Hold the definitions of one package by name.

    Variables that are read all over the package, and declared nowhere, are looked for when one of them is
    asked for by name (in the files that mention it), or all of them when the mapping is gone through.
    """

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._found = _declared(tree)
        self._absent: set[str] = set()
        self._complete = False

    def __getitem__(self, name: str) -> Definition:
        found = self._found.get(name)
        if found is None and not self._complete and name not in self._absent and _VARIABLE.fullmatch(name):
            read = define_reads.reads(sorted(self._tree.mentions([name]).items()))
            self._found |= define_reads.variables(self._tree, (r for r in read if r.name == name))
            self._absent.add(name)
            found = self._found.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def fields(self) -> Mapping[str, Definition]:
        """Return the settings that are no variables, without a look at the rest of the package."""
        return {name: each for name, each in self._found.items() if each.kind == "field"}

    def _all(self) -> Mapping[str, Definition]:
        if not self._complete:
            read = define_reads.reads(sorted(self._tree.mentions(define_reads.WORDS).items()))
            self._found = {**define_reads.variables(self._tree, read), **self._found}
            self._complete = True
        return self._found


def definitions(tree: SourceTree) -> Definitions:
    """Return what a package defines, by name; ``section.name`` for the sections of vLLM's configuration."""
    return Definitions(tree)


def _declared(tree: SourceTree) -> dict[str, Definition]:
    """Return what a package declares in the places that its engine has for that."""
    with collector_paused():
        return _by_engine(Values(tree))


def _by_engine(values: Values) -> dict[str, Definition]:
    tree = values.tree
    if tree.engine == "sglang":
        declared = define_env.of_class(values, *define_sglang.ENVIRONMENT)
        return {**{each.name: each for each in declared}, **define_sglang.define(values)}
    if tree.engine == "vllm":
        declared = define_env.of_table(values, *define_vllm.ENVIRONMENT)
        return {**{each.name: each for each in declared}, **define_vllm.define(values)}
    return {}
