"""One evaluation: the machine, what it saw, and the result made of both."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools.interpreter.base import Limits, Met, World
from tools.interpreter.machine import Machine
from tools.interpreter.plain import NotPlain, plain
from tools.interpreter.values import MISSING, GuestRaise, Instance, Stopped, Undecided, Unknown
from tools.settings.requires import required
from tools.settings.trees import digest, skimmed
from tools.settings.types import (
    Cite,
    Condition,
    DerivationStep,
    Effective,
    Evaluation,
    HostFacts,
    Origin,
    SourceTree,
    Truth,
)

_RECURSION: Final = 12_000
Place = tuple[str, int, int]
"""Path, line, and column from 0 of an expression."""


@dataclass(slots=True)
class Written:
    """Hold one binding of a setting as it happened."""

    value: Any
    path: str
    node: ast.AST | None
    line: int
    conditions: Met | None
    calls: tuple[tuple[str, int], ...]
    sure: bool
    owner: Instance | None = None
    """The object whose attribute was bound."""


@dataclass(slots=True)
class Outcome:
    """Hold how far the argument code came."""

    values: Mapping[str, Any] = field(default_factory=dict)
    stage: str = "done"
    accepted: bool | None = True
    refused: GuestRaise | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    """What the parser made of the launch line."""
    explicit: frozenset[str] = frozenset()
    """Settings that the launch line names."""


class Run:
    """Follow the argument code of one engine for one launch line."""

    def __init__(
        self,
        tree: SourceTree,
        argv: Sequence[str],
        environment: Mapping[str, str],
        facts: HostFacts,
        limits: Limits | None = None,
    ) -> None:
        self.tree, self.argv, self.facts = tree, list(argv), facts
        self.writes: dict[str, list[Written]] = {}
        self.mets: dict[Place, tuple[Met, bool]] = {}
        """Each condition as it came out last, and whether it once came out differently."""
        self.logs: list[tuple[str, str, int, str]] = []
        self.partial = ""
        self._digests: dict[str, str] = {}
        self._worded: dict[tuple[int, bool], tuple[Met, Condition]] = {}
        world = World(facts, dict(environment), self.argv, required(tree, facts))
        self.machine = Machine(
            tree, str(tree.engine), world, lambda path: parsed_or_none(tree, path), limits=limits, watch=self
        )

    # --- watching ---------------------------------------------------------------------------------

    def wrote(self, instance: Instance, name: str, value: Any, node: ast.AST | None) -> None:
        """Note a binding of a setting."""
        machine = self.machine
        frame = machine.frame
        calls = tuple((f.module.path, f.line) for f in machine.frames if f.module.path)[-8:]
        self.writes.setdefault(name, []).append(
            Written(
                value,
                frame.module.path,
                node,
                getattr(node, "lineno", 0) or frame.line,
                machine.conditions,
                calls,
                not machine.journal.open,
                instance,
            )
        )

    def met(self, met: Met) -> None:
        """Note a condition as it came out."""
        key = (met.module.path, met.node.lineno, met.node.col_offset)
        before = self.mets.get(key)
        self.mets[key] = (met, before is not None and (before[1] or before[0].verdict != met.verdict))

    def said(self, level: str, text: str) -> None:
        """Note a message of the source."""
        frame = self.machine.frame
        self.logs.append((level, frame.module.path, frame.line, text[:500]))

    # --- the result -------------------------------------------------------------------------------

    def evaluation(self, follow: Callable[[Run], Outcome]) -> Evaluation:
        """Follow the argument code and return what came of it."""
        limit = sys.getrecursionlimit()
        partial = ""
        sys.setrecursionlimit(max(limit, _RECURSION))
        try:
            outcome = follow(self)
        except Stopped as stopped:
            partial, outcome = str(stopped), Outcome(accepted=None)
        except (GuestRaise, Undecided) as error:
            why = "; ".join(error.needs) if isinstance(error, Undecided) else _words(error)
            partial, outcome = f"the argument code could not be followed: {why}", Outcome(accepted=None)
        except RecursionError:
            partial, outcome = "the argument code calls itself too deep", Outcome(accepted=None)
        finally:
            sys.setrecursionlimit(limit)
        needs = tuple(dict.fromkeys(n for _, ns in self.machine.refusals for n in ns))
        accepted = outcome.accepted
        if accepted and needs:
            accepted = None
        refused = outcome.refused
        written = self.machine.environment.written
        return Evaluation(
            {name: self.effective(name, value, outcome) for name, value in outcome.values.items()},
            accepted,
            refusal=_words(refused) if refused is not None else "",
            refused_at=self.cite(refused.path, refused.line)
            if refused is not None and refused.path
            else None,
            stage=outcome.stage,  # type: ignore[arg-type]
            needs=needs[:12],
            verdicts=Verdicts(self),
            reached=frozenset(self.machine.reached),
            environment_set={n: v for n, v in written.items() if isinstance(v, (str, type(None)))},
            logs=tuple(text for _, _, _, text in self.logs),
            partial=partial or self.partial,
        )

    def effective(self, name: str, value: Any, outcome: Outcome) -> Effective:
        """Return one setting's value with its steps."""
        steps = tuple(self._steps(name, outcome))
        try:
            return Effective(name, True, plain(value, journal=self.machine.journal), steps=steps)
        except NotPlain as unknown:
            options: list[Any] = []
            for option in value.options if isinstance(value, Unknown) else ():
                try:
                    options.append(plain(option))
                except NotPlain:
                    options.clear()
                    break
            return Effective(name, False, needs=unknown.needs, alternatives=tuple(options), steps=steps)

    def _steps(self, name: str, outcome: Outcome) -> list[DerivationStep]:
        steps = []
        if name in outcome.given:
            origin: Origin = "flag" if name in outcome.explicit else "default"
            value = outcome.given[name]
            steps.append(DerivationStep(origin, _shown(value), not isinstance(value, Unknown), None, name))
        for written in self.writes.get(name, ())[-12:]:
            steps.append(self._step(name, written))
        return steps

    def _step(self, name: str, written: Written) -> DerivationStep:
        conditions = []
        met, count = written.conditions, 0
        while met is not None and count < 24:
            conditions.append(self._condition(met, negated=met.negated))
            met, count = met.before, count + 1
        cite = self.cite(written.path, written.line)
        return DerivationStep(
            "overwrite",
            _shown(written.value),
            not isinstance(written.value, Unknown),
            cite,
            self._text(written.path, written.line),
            tuple(reversed(conditions)),
            tuple(self.cite(path, line) for path, line in written.calls),
            self._logged(written),
        )

    def _logged(self, written: Written) -> str | None:
        """Return what the source logs within a few lines of an assignment."""
        for _, path, line, text in self.logs:
            if path == written.path and abs(line - written.line) <= 6:
                return text
        return None

    def verdict(self, place: Place) -> Condition:
        """Return how the condition at a place came out."""
        met, differently = self.mets[place]
        made = self._condition(met, negated=False)
        if not differently:
            return made
        return Condition(made.text, "unknown", "it came out differently between calls", made.cite, made.needs)

    def _condition(self, met: Met, *, negated: bool) -> Condition:
        """Put a condition into words, once: most assignments have some in common."""
        key = id(met), negated
        if key not in self._worded:
            self._worded[key] = met, self._put_into_words(met, negated=negated)
        return self._worded[key][1]

    def _put_into_words(self, met: Met, *, negated: bool) -> Condition:
        verdict: Truth = "unknown" if met.verdict is None else "true" if met.verdict else "false"
        text = ast.unparse(met.node)
        if negated:
            text = f"not ({text})"
            verdict = {"true": "false", "false": "true"}.get(verdict, verdict)  # type: ignore[assignment]
        because = ", ".join(dict.fromkeys(f"{n} = {_short(v)}" for n, v in met.leaves))
        cite = self.cite(met.module.path, met.node.lineno, getattr(met.node, "end_lineno", None))
        return Condition(text, verdict, because, cite, met.needs, met.leaves)

    def cite(self, path: str, line: int, last: int | None = None) -> Cite:
        """Cite lines of a file of the package."""
        if path not in self._digests:
            data = self.tree.read(path)
            self._digests[path] = digest(data) if data is not None else ""
        return Cite(path, line, last or line, self.tree.version, self._digests[path])

    def _text(self, path: str, line: int) -> str:
        module = parsed_or_none(self.tree, path)
        if module is None or not 0 < line <= len(module.lines):
            return ""
        return str(module.lines[line - 1].decode("utf-8", "replace").strip())


class Verdicts(Mapping[Place, Condition]):
    """Hold the conditions that were met; each is put into words when it is asked for."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getitem__(self, place: Place) -> Condition:
        return self._run.verdict(place)

    def __iter__(self) -> Iterator[Place]:
        return iter(self._run.mets)

    def __len__(self) -> int:
        return len(self._run.mets)


def parsed_or_none(tree: SourceTree, path: str) -> Any:
    """Return a parsed file of the package, or None when there is none that can be read."""
    try:
        return skimmed(tree, path)
    except SyntaxError:
        return None


def _short(value: Any) -> str:
    if isinstance(value, Unknown):
        return "unknown"
    try:
        return repr(plain(value))[:80]
    except NotPlain:
        return "..."


def _shown(value: Any) -> Any:
    try:
        return plain(value)
    except NotPlain:
        return None


def _words(raised: GuestRaise) -> str:
    value = raised.value
    try:
        if isinstance(value, Instance):
            return f"{value.cls.name}: {value}"
        return f"{type(value).__name__}: {value}" if not isinstance(value, SystemExit) else str(value)
    except (Undecided, GuestRaise):
        return type(value).__name__


__all__ = ["MISSING", "Outcome", "Run"]
