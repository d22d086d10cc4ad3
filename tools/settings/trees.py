"""Keep the syntax tree of every file of an installed package, once per content, and cite lines of it."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections import OrderedDict
from functools import lru_cache
from typing import Any, Final

from tools.settings.types import Cite, SourceTree
from tools.syntax import Module, parse, parse_outline

KEPT_BYTES: Final = 48 << 20
"""Source text whose trees are kept; a tree takes some ten times that."""
_UNREADABLE: Final = "lines that this interpreter cannot read"


class _Kept:
    """Hold syntax trees by the sha256 of their source, the least recently asked for going first."""

    def __init__(self) -> None:
        self._modules: OrderedDict[tuple[str, bool], Module] = OrderedDict()
        self._bytes = 0

    def module(self, data: bytes, *, whole: bool = True) -> Module:
        key = digest(data), whole
        found = self._modules.get(key) or self._modules.get((key[0], True))
        if found is None:
            found = read_module(data) if whole else _read_heads(data)
            self._keep(key, found, data)
        else:
            self._modules.move_to_end(key if key in self._modules else (key[0], True))
        return found

    def _keep(self, key: tuple[str, bool], module: Module, data: bytes) -> None:
        self._modules[key] = module
        self._bytes += len(data)
        while self._bytes > KEPT_BYTES and len(self._modules) > 1:
            _, gone = self._modules.popitem(last=False)
            self._bytes -= len(gone.data)


_KEPT: Final = _Kept()


@lru_cache(maxsize=8192)
def digest(data: bytes) -> str:
    """Return the sha256 of a file in hex; a tree that gives the same object again costs nothing."""
    return hashlib.sha256(data).hexdigest()


def parsed(tree: SourceTree, path: str) -> Module | None:
    """Return a file's syntax tree, parsed once per content; None when the package has no such file.

    Statements in syntax newer than this interpreter's are left out of it (see `unreadable`), and the rest is
    there; raise `SyntaxError` when nothing of the file can be read.
    """
    data = tree.read(path)
    return None if data is None else _KEPT.module(data)


def skimmed(tree: SourceTree, path: str) -> Module | None:
    """Return a file's syntax tree in which the bodies of functions may be unread (see `Module.whole`)."""
    data = tree.read(path)
    return None if data is None else _KEPT.module(data, whole=False)


def memo(tree: SourceTree, part: str) -> dict[Any, Any]:
    """Return what a part has worked out of a package; it is kept beside the tree, and goes with it."""
    kept: dict[str, dict[Any, Any]] = vars(tree).setdefault("_memo", {})
    return kept.setdefault(part, {})


def unreadable(module: Module) -> tuple[tuple[int, int], ...]:
    """Return the first and last lines of what was left out of a syntax tree."""
    found: tuple[tuple[int, int], ...] = module.memo.get(_UNREADABLE, ())
    return found


def cite(tree: SourceTree, path: str, first: int, last: int | None = None) -> Cite:
    """Cite lines of a file of the package."""
    data = tree.read(path)
    return Cite(path, first, last or first, tree.version, digest(data) if data is not None else "")


def cite_node(tree: SourceTree, path: str, node: ast.expr | ast.stmt) -> Cite:
    """Cite the lines of a statement or an expression."""
    return cite(tree, path, node.lineno, node.end_lineno)


def _read_heads(data: bytes) -> Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_outline(data, heads=True)
    except SyntaxError:
        return read_module(data)


def read_module(data: bytes) -> Module:
    """Parse a file; where its syntax is newer than this interpreter's, parse what remains of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an engine's odd escapes are no news to a person
            return parse(data)
    except SyntaxError as error:
        from tools.settings.salvage import salvage

        text, left_out = salvage(data)
        if not left_out:
            raise error
        module = parse(text)
        return Module(data, data.split(b"\n"), module.tree, {_UNREADABLE: left_out})
