"""The records that explaining a setting passes around: sources, definitions, conditions, derivations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Engine = Literal["sglang", "vllm", "llama.cpp", "ollama", "tgi"]
Truth = Literal["true", "false", "unknown"]
Origin = Literal["default", "flag", "environment", "overwrite"]
"""Where a step of a derivation got its value: the definition, the launch line, a variable, an assignment."""
Takes = Literal["none", "one", "optional", "some", "any", "unknown"]
"""The words that an option takes: a switch, one, one or none, one or more, any number."""


@dataclass(frozen=True, slots=True)
class Cite:
    """Point at lines of one file of the installed package; ``sha256`` is that of the whole file, in hex."""

    path: str
    line: int
    last_line: int
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}@{self.version}#{self.sha256[:12]}"


class SourceTree(Protocol):
    """Give the files of one installed package; paths are relative to the package's folder, with ``/``."""

    @property
    def engine(self) -> Engine:
        """Return the engine that the package is."""
        ...

    @property
    def version(self) -> str:
        """Return the version of the distribution, or ``""`` when nothing says it."""
        ...

    def read(self, path: str) -> bytes | None:
        """Return a file, or None when the package has none of this name."""
        ...

    def paths(self) -> Sequence[str]:
        """Return every ``*.py`` file of the package, sorted."""
        ...

    def mentions(self, words: Sequence[str], scope: str = "") -> Mapping[str, bytes]:
        """Return the ``*.py`` files whose text holds one of the words, by path.

        With ``scope``, the start of a path, files in other folders may be left out.
        """
        ...

    def distribution(self, name: str) -> bytes | None:
        """Return a file of the ``.dist-info`` folder (``METADATA``, ``RECORD``), or None."""
        ...


@dataclass(frozen=True, slots=True)
class Definition:
    """Hold one setting as the source defines it.

    ``default`` is a plain value when ``default_known``; otherwise ``default_text`` says in the source's words
    what it is. ``type`` and ``choices`` are None where the source does not say or computes them.
    """

    name: str
    kind: Literal["field", "environment"]
    owner: str
    """The class (or the module of variables) that defines it."""
    cite: Cite
    type: str | None = None
    default: Any = None
    default_known: bool = True
    default_text: str = ""
    choices: tuple[Any, ...] | None = None
    help: str = ""
    flags: tuple[str, ...] = ()
    """Every option string that sets it, deprecated ones left out; the first long one leads."""
    negative_flags: tuple[str, ...] = ()
    """Option strings that switch it off (``--no-...``)."""
    deprecated_flags: tuple[str, ...] = ()
    deprecated: str = ""
    """What the source says instead, when the setting itself is deprecated."""
    shallow: bool = False
    """True when it comes from a help text or documentation instead of source."""
    takes: Takes = "unknown"
    """How many words follow its leading option."""
    reader: str = ""
    """What reads those words, in the source's words: ``int``, ``human_readable_int``, or the field's type."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Say what the engine's code would ask of the host; None (or a name that is absent) is not known."""

    platform: Literal["cuda", "hip", "cpu", "xpu", "npu", "hpu", "musa"] | None = None
    gpu_arch: str | None = None
    """``sm120``, ``gfx942``."""
    gpu_name: str | None = None
    gpu_count: int | None = None
    gpu_memory_mib: int | None = None
    """As ``nvidia-smi`` shows it for one GPU."""
    cuda_version: str | None = None
    packages: Mapping[str, str | None] | None = None
    """Distribution to version for what is installed, None for what is known to be absent; None: not asked."""
    environment_complete: bool = True
    """False when variables may be set that were not given."""
    read_file: Callable[[str], bytes | None] | None = None
    """Read a file outside the package (a model's ``config.json``); None: absent; `OSError`: cannot tell."""
    list_folder: Callable[[str], Sequence[str]] | None = None
    """Name what lies in a folder outside the package, hidden files left out; `OSError`: cannot tell."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Hold one condition on the way to an assignment, and how it comes out for this process."""

    text: str
    verdict: Truth
    because: str
    cite: Cite
    needs: tuple[str, ...] = ()
    """What would decide an unknown one."""
    facts: tuple[tuple[str, Any], ...] = ()
    """The names whose values decide it, each with the value that it had there."""


@dataclass(frozen=True, slots=True)
class DerivationStep:
    """Hold one value that a setting had on the way to the one in force."""

    origin: Origin
    value: Any
    known: bool
    cite: Cite | None
    """None for a flag or variable as it was given."""
    text: str
    """The assignment, the flag, or the definition in the source's words."""
    conditions: tuple[Condition, ...] = ()
    calls: tuple[Cite, ...] = ()
    """Where the functions that lead there were called, outermost first."""
    logged: str | None = None
    """What the source logs beside it; None when it is silent."""


@dataclass(frozen=True, slots=True)
class Effective:
    """Hold what a setting ends as: a plain value when ``known``."""

    name: str
    known: bool
    value: Any = None
    needs: tuple[str, ...] = ()
    """What would decide it: host facts, variables, files, functions that could not be followed."""
    alternatives: tuple[Any, ...] = ()
    """The plain values it may have, where they are few; empty when anything is possible."""
    steps: tuple[DerivationStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Hold what the argument code makes of one launch line.

    ``accepted`` is False when the source surely refuses it (``refusal`` says in its words, ``refused_at``
    where), None when that depends on something unknown (``needs``).
    """

    settings: Mapping[str, Effective]
    accepted: bool | None
    refusal: str = ""
    refused_at: Cite | None = None
    stage: Literal["parse", "derive", "check", "done"] = "done"
    needs: tuple[str, ...] = ()
    verdicts: Mapping[tuple[str, int, int], Condition] = field(default_factory=dict)
    """By (path, line, column from 0) of the expression: each condition that was met, as it came out (the last
    time; ``unknown`` when it came out differently between calls)."""
    reached: frozenset[tuple[str, int]] = frozenset()
    """(path, line) of every statement that was executed, surely or perhaps."""
    environment_set: Mapping[str, str | None] = field(default_factory=dict)
    logs: tuple[str, ...] = ()
    partial: str = ""
    """Why the evaluation stopped early, when a bound was reached."""
