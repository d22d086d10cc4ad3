"""A package of one module, for the tests of what follows source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.interpreter.base import Limits, World
from tools.interpreter.machine import Machine
from tools.settings.types import Engine
from tools.syntax import Module, parse


class OneFile:
    """Hold a package of one module."""

    version = "0"

    def __init__(self, text: str, engine: Engine) -> None:
        self.text = text.encode()
        self.engine = engine

    def read(self, path: str) -> bytes | None:
        return self.text if path == "m.py" else None

    def paths(self) -> Sequence[str]:
        return ["m.py"]

    def mentions(self, words: Sequence[str], scope: str = "") -> Mapping[str, bytes]:
        return {"m.py": self.text}

    def distribution(self, name: str) -> bytes | None:
        return None


def machine_of(text: str, engine: Engine, world: World) -> Machine:
    """Return what follows the module."""
    tree = OneFile(text, engine)

    def parsed(path: str) -> Module | None:
        data = tree.read(path)
        return parse(data) if data is not None else None

    return Machine(tree, engine, world, parsed, limits=Limits(seconds=10))
