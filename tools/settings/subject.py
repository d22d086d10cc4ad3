"""Put together what is explained: a package, a launch line, a host, and how the source works them out."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.contract import Host, ToolContext, ToolError
from tools.settings import evidence as evidences
from tools.settings import host_facts
from tools.settings.define import Definitions, definitions
from tools.settings.difference import Difference, differences
from tools.settings.evidence import Evidence
from tools.settings.locate import Location, NoSource, locate
from tools.settings.outside import OutsideFiles
from tools.settings.own_words import observed, own_words
from tools.settings.patched import Patched, compare
from tools.settings.remote import RemoteTree
from tools.settings.requested import Asked, file_options, flag_names, requested
from tools.settings.source import LocalTree
from tools.settings.started_words import engine_words, filled, starts_another, unfilled, words_for
from tools.settings.types import Effective, Evaluation, HostFacts, SourceTree


@dataclass(slots=True)
class Subject:
    """Hold one launch line with the source that decides what becomes of it, and what its host shows."""

    tree: SourceTree
    argv: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str]
    facts: HostFacts
    definitions: Definitions
    evaluation: Evaluation
    location: Location | None = None
    evidence: Evidence = field(default_factory=Evidence)
    patched: Patched | None = None
    asked: list[Asked] = field(default_factory=list)
    rows: list[Difference] = field(default_factory=list)
    stand_in: str = ""
    """The local folder whose source stands in for that of the host."""
    notes: list[str] = field(default_factory=list)

    def effective(self, name: str) -> Effective | None:
        """Return what the evaluation gives a setting, or what the environment gives a variable."""
        found = self.evaluation.settings.get(name)
        one = self.definitions.get(name)
        if found is not None or one is None or one.kind != "environment":
            return found
        if name in self.environment or not self.facts.environment_complete:
            given = self.environment.get(name)
            return Effective(name, known=given is not None, value=given)
        if name in self.evaluation.environment_set or not one.default_known:
            return None
        return Effective(name, known=True, value=one.default)

    def row(self, name: str) -> Difference:
        """Return one setting as it was asked for, is in force and shows."""
        found = next((row for row in self.rows if row.name == name), None)
        return found if found is not None else self._rows([name])[0]

    def _rows(self, names: Iterable[str] | None = None) -> list[Difference]:
        every = dict.fromkeys([*self.evaluation.settings, *self.definitions.fields(), *(names or ())])
        engine = self.tree.engine
        words = own_words(self.location, self.evidence, every) if self.location is not None else {}
        seen = observed(self.evidence, engine, every)
        chosen = list(every if names is None else names)
        known = {name: one for name in chosen if (one := self.effective(name)) is not None}
        return differences(known, self.definitions, self.asked, words, seen, self.evidence, chosen)

    def compare(self) -> None:
        """Work out the rows of all settings."""
        self.rows = self._rows()


def of_source(
    folder: Path | str, argv: Sequence[str], environment: Mapping[str, str], facts: HostFacts
) -> Subject:
    """Explain a launch line by a package in a local folder; raise `ToolError` where there is none."""
    tree = LocalTree(folder)
    argv = filled(argv, environment)
    subject = _evaluated(tree, argv, environment, facts)
    asked = requested(argv, environment, Evidence(), subject.definitions.fields(), 0)
    subject.asked = [
        *file_options(argv, facts.read_file, subject.definitions.fields()),
        *(dataclasses.replace(one, where="") for one in asked),
    ]
    if words := unfilled(argv):
        subject.notes.append(
            f"stands in the line as it is: {', '.join(words)}; fill it in, or give --env NAME=VALUE"
        )
    subject.compare()
    return subject


def words_of(text: str) -> list[str]:
    """Return the words of a launch line; raise `ToolError` for quotes that are not closed."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ToolError(f"the launch line cannot be split into words: {error}") from error
    if starts_another(words) and not engine_words(words)[0]:
        raise ToolError(f"no engine is seen to be started by {words[0]}; give the engine's own options alone")
    return words


async def of_host(
    ctx: ToolContext,
    host: Host,
    pid: int | None = None,
    process_root: int | None = None,
    *,
    unit: str = "",
    stand_in: Path | None = None,
) -> Subject:
    """Explain the settings of a running engine; kept in the cache while the process lives."""
    key = f"settings:{host.name}:{pid}:{process_root}:{stand_in}"
    if key in ctx.cache:
        kept: Subject = ctx.cache[key]
        return kept
    location, tree = await _opened(ctx, host, pid, process_root, stand_in)
    outside = OutsideFiles(host, location)
    facts = host_facts.of_location(location, outside, outside.names)
    environment = host_facts.environment_of(location)
    argv = location.process.argv
    # The evidence and the listing of the files are asked for while the source is being read.
    reading = asyncio.gather(evidences.gather(host, location, unit), compare(host, location))
    try:
        subject = await asyncio.to_thread(_evaluated, tree, argv, environment, facts)
    except BaseException:
        reading.cancel()
        raise
    subject.location = location
    subject.evidence, subject.patched = await reading
    subject.stand_in = str(stand_in or "")
    await asyncio.to_thread(_finish, subject)
    ctx.cache[key] = ctx.cache[f"settings:{host.name}:{location.process.pid}:{process_root}:{stand_in}"] = (
        subject
    )
    return subject


async def _opened(
    ctx: ToolContext, host: Host, pid: int | None, process_root: int | None, stand_in: Path | None
) -> tuple[Location, SourceTree]:
    try:
        location, tree = await locate(ctx, host, pid, process_root)
    except NoSource as error:
        if stand_in is None:
            raise
        local = LocalTree(stand_in)
        facts = error.location.process
        if local.engine != facts.engine:
            raise ToolError(f"{stand_in} holds {local.engine}, the process runs {facts.engine}") from error
        return error.location, local
    if stand_in is None:
        return location, tree
    raise ToolError(
        f"the source of process {location.process.pid} can be read on {host.name}; leave --stand-in out"
    )


def evaluated(
    subject: Subject, argv: Sequence[str], environment: Mapping[str, str] | None = None
) -> Evaluation:
    """Return what the same source makes of another launch line, or environment, on the same host."""
    given = subject.environment if environment is None else environment
    return _evaluated(subject.tree, argv, given, subject.facts).evaluation


def _evaluated(
    tree: SourceTree, argv: Sequence[str], environment: Mapping[str, str], facts: HostFacts
) -> Subject:
    from tools.settings.evaluate import evaluate

    found = definitions(tree)
    _, options = words_for(str(tree.engine), argv)
    evaluation = evaluate(tree, options, environment, facts)
    return Subject(tree, tuple(argv), environment, facts, found, evaluation)


def _finish(subject: Subject) -> None:
    location = subject.location
    if location is None:
        return
    fields = subject.definitions.fields()
    process = location.process
    asked = requested(subject.argv, process.environ, subject.evidence, fields, process.pid)
    subject.asked = [*file_options(subject.argv, subject.facts.read_file, fields), *asked]
    subject.compare()
    if isinstance(subject.tree, RemoteTree):
        subject.tree.remember()
    subject.notes = [*location.notes, *_remarks(subject, location)]


def _remarks(subject: Subject, location: Location) -> list[str]:
    """Say what a reader must know of the source before believing it."""
    notes = []
    if subject.stand_in:
        version = location.process.version
        same = (
            "the same version"
            if version == subject.tree.version
            else f"the host has {version or 'no version'}"
        )
        notes.append(
            f"stand-in: the source is that of {subject.stand_in} ({subject.tree.version}, {same}), "
            "not the host's own"
        )
    for other in location.others:
        version = f" ({other.version})" if other.version else ""
        notes.append(f"another install is not used: {other.package}{version}, by {other.way}")
    if subject.evaluation.accepted is False:
        at = f" ({subject.evaluation.refused_at})" if subject.evaluation.refused_at else ""
        notes.append(
            f"the source, as it was evaluated, refuses this launch line: {subject.evaluation.refusal}{at}; "
            "the process runs, so trust the engine's own words"
        )
    patched = subject.patched
    if patched is not None and patched.differs:
        count = len(patched.changed) + len(patched.added) + len(patched.missing)
        first = [*patched.changed, *patched.added, *(f"{name} (missing)" for name in patched.missing)]
        notes.append(
            f"the install is patched: {count} Python files differ from RECORD: {', '.join(first[:8])}"
        )
    if patched is not None and patched.newer:
        shown = ", ".join(patched.newer[:8])
        notes.append(f"written after the process started, so it may run other code: {shown}")
    return notes


def named(subject: Subject, word: str) -> str:
    """Return the setting meant by its name, an option string, or a variable; raise `ToolError`."""
    known = subject.definitions
    if word in known.fields() or word in subject.evaluation.settings:
        return word
    by_flag = flag_names(known.fields())
    name = word.lstrip("-").replace("-", "_")
    for one in (word, "--" + word.lstrip("-").replace("_", "-")):
        if one in by_flag:
            return by_flag[one]
    if word in known:  # a variable that is read somewhere in the package
        return word
    every = {*known.fields(), *subject.evaluation.settings}
    ends = sorted(one for one in every if one.rpartition(".")[2] == name)
    if ends:
        return name if name in ends else ends[0]
    near = difflib.get_close_matches(name, sorted({*every, *by_flag, *(n for n in known)}), n=3, cutoff=0.6)
    what = f"{subject.tree.engine} {subject.tree.version} has no setting {word}"
    raise ToolError(f"{what}; nearest: {', '.join(near)}" if near else f"{what}, and none that is near")
