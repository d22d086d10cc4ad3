"""Hold what a question asks for, and what is on view that its words may name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.models.questions_answer import Look
from prompts.questions import Feature, Phase

Kind = Literal[
    "changes", "versions", "compare", "differ", "feature", "setting", "gpus", "dropins", "reload", "health",
    "since", "variable", "engines", "who", "launch", "environ", "hardware", "unknown",
]  # fmt: skip
Op = Literal["<", "<=", "==", ">=", ">"]


@dataclass(frozen=True, slots=True)
class Query:
    """Hold what a question asks for."""

    kind: Kind
    hosts: tuple[str, ...]
    """Hosts that it names; all of them where it names none."""
    engine: str = ""
    package: str = ""
    op: Op | None = None
    version: str = ""
    since: str = ""
    names: tuple[str, ...] = ()
    feature: Feature | None = None
    phase: Phase | None = None
    wants: str = ""
    """``off`` or ``on``, ``idle`` or ``busy``: what the question looks for."""
    every: bool = False
    """It asks whether that is so on all hosts, not on which."""
    unread: tuple[str, ...] = ()
    """Words of it that are not understood; with too many of them its kind is ``unknown``."""
    named: bool = False
    """It names hosts."""
    denied: bool = False
    """It asks where that is not so."""
    because: bool = False
    """It asks why that is so."""
    either: bool = False
    """Of ``names`` every engine has one: they are words of several engines for one thing."""
    focus: str = ""
    """The host that is to be told from all others."""
    strangers: tuple[str, ...] = ()
    """Words that are named as hosts are, and are none that was looked at."""
    read: tuple[tuple[str, str], ...] = ()
    """Words that were taken for slips of the finger, and what they were read as."""
    taken: tuple[str, ...] = ()
    """Pieces of it that were understood beside those that its fields tell of."""
    notes: tuple[str, ...] = ()
    """What is to be said beside the answer."""

    @property
    def in_part(self) -> bool:
        """Tell whether it is answered although some of its words are not understood."""
        return self.kind != "unknown" and bool(self.unread)


@dataclass(frozen=True, slots=True)
class Seen:
    """Hold words that hosts on view use: names of models, and of settings on launch lines."""

    models: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Return what a slip of the finger may have been meant for."""
        return tuple(word for model in self.models for word in model.lower().split("-") if word.isalpha())

    @classmethod
    def of(cls, looks: Sequence[Look]) -> Seen:
        """Return the words of these hosts."""
        facts = [one for look in looks for one in look.engines]
        models = [name for one in facts for name in _models(one.flags)]
        settings = [name for one in facts for name in one.flags]
        return cls(tuple(dict.fromkeys(models)), tuple(dict.fromkeys(settings)))


def _models(flags: object) -> Iterator[str]:
    values = flags if isinstance(flags, dict) else {}
    for name in ("served_model_name", "model_path", "model", "alias"):
        value = values.get(name)
        if isinstance(value, str) and value:
            yield value.rstrip("/").rpartition("/")[2].lower()
