"""The table of configuration classes: what each release of ``transformers`` makes of a ``config.json``."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tools.interpreter.library.model_classes_file import Blocks, unpack
from tools.interpreter.values import MISSING, External

FILE: Final = Path(__file__).with_name("model_classes.txt.gz")
PARTS: Final = ("types", "classes", "functions", "traits")
Record = Mapping[str, Any]
_BASES: Final = ("PreTrainedConfig", "PretrainedConfig")
_NOT_SERIALIZED: Final = (
    "_is_quantized",
    "_auto_class",
    "_commit_hash",
    "_attn_implementation_internal",
    "_experts_implementation_internal",
    "_attn_implementation_autoset",
    "ignore_keys_at_rope_validation",
    "base_model_tp_plan",
    "base_model_pp_plan",
)


class Release:
    """Look up the classes of one release."""

    not_serialized = _NOT_SERIALIZED

    def __init__(
        self,
        version: str,
        types: Mapping[str, str],
        classes: Mapping[str, Record],
        functions: Mapping[str, Record],
        traits: Mapping[str, bool],
    ) -> None:
        self.version, self.types, self.classes, self.functions = version, types, classes, functions
        self.traits = traits
        self.base = next((name for name in _BASES if name in classes), "")
        self.dataclasses = "__init__" not in classes[self.base].get("methods", {}) if self.base else False
        self._orders: dict[str, tuple[str, ...]] = {}
        self._modules: dict[str, str] = {}

    def record(self, kind: str) -> Record:
        """Return what is known of a class."""
        return self.classes.get(kind, {})

    def function(self, name: str) -> Record:
        """Return the rule of a function that constructors call."""
        return self.functions[name]

    def order(self, kind: str) -> tuple[str, ...]:
        """Return a class and those that it derives from, in the order in which they are searched."""
        if kind not in self._orders:
            found = [kind]
            for base in self.record(kind).get("bases", ()):
                found += self.order(base)
            kept = [c for n, c in enumerate(found) if c not in found[n + 1 :]]
            self._orders[kind] = tuple(kept)
        return self._orders[kind]

    def is_configuration(self, kind: str) -> bool:
        """Tell whether a class is a configuration."""
        return self.base in self.order(kind)

    def odd(self, kind: str) -> str:
        """Return why a class is not understood, if so."""
        for one in self.order(kind):
            record = self.classes.get(one)
            if record is None:
                return f"derives from {one}"
            if record.get("odd"):
                return str(record["odd"][0])
        return ""

    def fields(self, kind: str) -> dict[str, Any]:
        """Return the fields of a class with the rules of their defaults, the base's first."""
        found: dict[str, Any] = {}
        for one in reversed(self.order(kind)):
            found.update(self.record(one).get("fields", {}))
        return found

    def accessor(self, kind: str, name: str) -> tuple[str, Record] | None:
        """Return the rules of a property with the class that has it."""
        for one in self.order(kind):
            record = self.record(one)
            found = record.get("properties", {}).get(name)
            if found is not None and "get" in found:
                return one, found
            if name in record.get("constants", {}) or name in record.get("fields", {}):
                return None
        return None

    def constant(self, kind: str, name: str, evaluator: Any) -> Any:
        """Return what a class itself binds to a name, or `MISSING`."""
        for one in self.order(kind):
            record = self.record(one)
            for part in ("constants", "fields"):
                if name in record.get(part, {}):
                    if name.startswith("base_model_") and record[part][name] is not None:
                        return External(f"{one}.{name}")
                    return evaluator.value(record[part][name], {" at": one})
        return MISSING

    def parameters(self, kind: str) -> list[str]:
        """Return the names that a class's ``__init__`` takes."""
        for one in self.order(kind):
            init = self.record(one).get("methods", {}).get("__init__")
            if init is not None:
                return [p[0] for p in init["takes"]]
            if self.dataclasses:
                break
        return ["self", *self.fields(kind)]

    def named(self, path: str) -> str:
        """Return the class that a dotted path below ``transformers`` means, or nothing."""
        module, _, name = path.rpartition(".")
        if name in _BASES:
            return self.base if module in ("", "configuration_utils") else ""
        record = self.classes.get(name)
        if record is None or not self.is_configuration(name):
            return ""
        return name if not module or record["in"].startswith(module) else ""


class Rows(Mapping[str, Any]):
    """Hold the rows of one part of the table for one release; a row is read when it is asked for."""

    def __init__(self, texts: dict[str, str], told: Callable[[str], str] = str) -> None:
        self._texts, self._told = texts, told
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            self._read[name] = json.loads(self._told(self._texts[name]))
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class Table:
    """Hold the classes of every release that was read; a line: part, name, releases, what is known."""

    def __init__(self, text: str, blocks: Blocks | None = None) -> None:
        first, *lines = text.splitlines()
        self.versions: list[str] = first.split()
        self._rows = [line.split("\t", 3) for line in lines]
        self._releases: dict[str, Release] = {}
        self._told = blocks.told if blocks is not None else str

    def release(self, version: str) -> Release:
        """Return one release."""
        if version not in self._releases:
            at = self.versions.index(version)
            parts: dict[str, dict[str, str]] = {part: {} for part in PARTS}
            for part, name, where, told in self._rows:
                if _covers(where, at):
                    parts[part][name] = told
            types, classes, functions, traits = (Rows(parts[part], self._told) for part in PARTS)
            self._releases[version] = Release(version, dict(types), classes, functions, traits)
        return self._releases[version]

    def releases(self, wanted: str) -> list[Release]:
        """Return the releases that a version or a requirement may mean: none when the table cannot tell."""
        return [self.release(version) for version in self.candidates(wanted)]

    @functools.cache  # noqa: B019 - one table a process
    def candidates(self, wanted: str) -> tuple[str, ...]:
        """Return the versions of the table that stand for a version or a requirement."""
        exact = re.fullmatch(r"\s*(?:===?)?\s*([0-9][^,*;\s]*)\s*", wanted)
        if exact is not None:
            return self._around(exact[1])
        try:
            fits = SpecifierSet(wanted)
        except InvalidSpecifier:
            return ()
        inside = [v for v in self.versions if fits.contains(v, prereleases=False)]
        lowest = [s.version for s in fits if s.operator in (">=", "~=", "==")]
        edge = [v for low in lowest for v in self._around(low.removesuffix(".*"))]
        if not inside or not lowest:
            return ()
        return tuple(dict.fromkeys((*edge[:1], *inside))) if edge else ()

    def _around(self, wanted: str) -> tuple[str, ...]:
        """Return a version of the table, or the two that a version lies between."""
        try:
            version = Version(wanted)
        except InvalidVersion:
            return ()
        known = sorted(self.versions, key=Version)
        if any(Version(v) == version for v in known):
            return tuple(v for v in known if Version(v) == version)
        below = [v for v in known if Version(v) < version]
        above = [v for v in known if Version(v) > version]
        return (below[-1], above[0]) if below and above else ()


@functools.cache
def table() -> Table | None:
    """Return the table, read once; None when the file is not there."""
    if not FILE.is_file():
        return None
    return Table(*unpack(FILE.read_bytes()))


@functools.cache
def _covers(where: str, at: int) -> bool:
    """Tell whether positions written as ``0-3,7`` hold one."""
    for part in where.split(","):
        first, _, last = part.partition("-")
        if int(first) <= at <= int(last or first):
            return True
    return False


def positions(found: list[int]) -> str:
    """Write ascending positions as ``0-3,7``."""
    parts: list[list[int]] = []
    for at in found:
        if parts and at == parts[-1][1] + 1:
            parts[-1][1] = at
        else:
            parts.append([at, at])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def sorted_versions(versions: Any) -> list[str]:
    """Return versions in their order."""
    return sorted(versions, key=Version)
