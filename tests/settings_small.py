"""Make small packages in memory, laid out as engines are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from tools.settings.source import LocalTree
from tools.settings.types import DerivationStep, Effective, Engine, Evaluation


@dataclass
class SmallTree:
    """Hold a package as texts by path."""

    files: Mapping[str, str]
    engine: Engine = "sglang"
    version: str = "1.0"
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def read(self, path: str) -> bytes | None:
        text = self.files.get(path)
        return None if text is None else dedent(text).encode()

    def paths(self) -> Sequence[str]:
        return sorted(self.files)

    def mentions(self, words: Sequence[str], scope: str = "") -> Mapping[str, bytes]:
        self.asked.append(tuple(words))
        found = {path: self.read(path) or b"" for path in self.paths()}
        return {path: data for path, data in found.items() if any(w.encode() in data for w in words)}

    def distribution(self, name: str) -> bytes | None:
        return None


def settled(**values: Any) -> Evaluation:
    """Return an evaluation that knows final values, and nothing of how they came about."""
    return Evaluation({name: Effective(name, True, value) for name, value in values.items()}, True)


def given(defaults: Mapping[str, Any], flags: Mapping[str, Any]) -> Evaluation:
    """Return an evaluation of a launch line that nothing overwrites."""
    settings = {}
    for name, default in {**defaults, **flags}.items():
        steps = [DerivationStep("default", defaults.get(name, default), True, None, name)]
        if name in flags:
            steps.append(DerivationStep("flag", flags[name], True, None, name))
        settings[name] = Effective(name, True, flags.get(name, default), steps=tuple(steps))
    return Evaluation(settings, True)


def laid_out(folder: Path, files: Mapping[str, str]) -> LocalTree:
    """Write a package into a folder, and return what reads it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return LocalTree(folder)
