"""Tell whether the settings that a case names exist: on its host, in its engine's source, in systemd.

A name that is misspelt is never reached by any run, so its case would rate every run as wrong. Where nothing
here can tell (an engine without source, a variable of some library) a name is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from evals import case as cases
from evals import regions
from evals.case import Case
from evals.lab.scenario import Scenario
from evals.settings_match import bare_setting, plain_setting
from tools.definitions import ENGINES, read_definitions
from tools.syntax import parse

Kind = Literal["flag", "variable", "directive", "other"]
"""What a name is by its form; a flag is also written as the field that it sets."""

_OUTER = Path(__file__).with_name("outer_settings.yaml")
_OWN: dict[str, tuple[str, ...]] = {"sglang": ("SGLANG_", "SGL_"), "vllm": ("VLLM_",)}
"""How the names of variables begin that are an engine's own, so that its source has all of them."""

_WORD = re.compile(r"-{0,2}[A-Za-z][\w-]*")
_FORMS: tuple[tuple[str, Kind], ...] = (
    (r"-{1,2}[a-z][\w.-]*|[a-z][a-z0-9_-]*", "flag"),
    (r"[A-Z][A-Z0-9_]+", "variable"),
    (r"[A-Z][A-Za-z0-9]+", "directive"),
)
_TOLD = ("units", "files", "services", "engine")
"""Parts of a scenario in which settings are given; its log may name any."""

_CLOSE = 0.75
_SLIP = 0.92
"""How like a name of the host a variable is that nothing knows and that can only be meant for it."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Say of one setting of a case that there is none of that name, or that nothing here can tell."""

    line: str
    unknown: bool


@dataclass(frozen=True, slots=True)
class _Host:
    """Hold where names are looked up: the host's own texts, and the package if its source is there."""

    words: frozenset[str]
    package: str = ""
    version: str = ""
    folder: Path | None = None

    @classmethod
    def of(cls, where: Scenario, cache: Path) -> _Host:
        told = where.model_dump(mode="json", exclude={"description"})
        pin = where.package
        folder = regions.package_folder(pin.name, pin.version, cache) if pin else None
        if pin is None or folder is None:
            return cls(_words(told))
        return cls(_words({part: told[part] for part in _TOLD}), pin.name, pin.version, folder)

    def knows(self, name: str) -> bool | None:
        """Tell whether there is a setting of this name; None when nothing here can tell."""
        plain = plain_setting(name)
        spelt = {plain, plain.removeprefix("no_"), plain.partition(".")[0]}
        if spelt & self.words or spelt & outer_names().keys():
            return True
        if self.folder is not None and spelt & defined(self.folder, self.package).keys():
            return True
        kind = kind_of(name)
        if kind == "directive":
            return False
        if self.folder is None or kind == "other":
            return None
        bare = bare_setting(name)
        if stands_in_source(self.folder / self.package, bare if kind == "variable" else plain):
            return True
        own = kind == "flag" or bare.startswith(_OWN.get(self.package, ()))
        return False if own or self.misspelt(plain) else None

    def misspelt(self, plain: str) -> str:
        """Return the name that is known of the host, and of which this one is a slip; empty without."""
        found = get_close_matches(plain, [word for word in self.words if "_" in word], n=1, cutoff=_SLIP)
        return found[0] if found else ""

    def close_to(self, name: str) -> str:
        """Return the known name that is most like one that is not, as people write it; empty without."""
        known = dict(outer_names())
        if self.folder is not None:
            known |= defined(self.folder, self.package)
        found = get_close_matches(plain_setting(name), known, n=1, cutoff=_CLOSE)
        if kind_of(name) == "variable" and (slip := self.misspelt(plain_setting(name))):
            return slip.upper()
        return known[found[0]] if found else ""


def remarks(case: Case, path: Path, where: Scenario, cache: Path) -> list[Remark]:
    """Return what is to be said of the settings of a case that was read from ``path``."""
    host = _Host.of(where, cache)
    found = []
    for place, name in _named(case):
        known = host.knows(name)
        if known:
            continue
        spot = f"{path}:{cases.line_of(path, place)}: {'.'.join(map(str, place))}: {name}"
        found.append(Remark(f"{spot} {_said(host, name, known)}", known is False))
    return found


def _said(host: _Host, name: str, known: bool | None) -> str:
    if known is None:
        return "is named by nothing that is known of the host, and nothing here can tell whether it exists"
    engine = f"{host.package} {host.version}, of " if host.folder is not None else ""
    close = host.close_to(name)
    says = f"is no setting of {engine}this host, of systemd or of a container"
    return says + (f"; write {close}?" if close else "")


def _named(case: Case) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Yield the settings that a case names, with the place of each."""
    for number, cause in enumerate(case.causes):
        yield from ((("causes", number, "settings", at), name) for at, name in enumerate(cause.settings))
    for number, fix in enumerate(case.fixes):
        yield ("fixes", number, "setting"), fix.setting
    for number, forbidden in enumerate(case.forbidden):
        if forbidden.setting:
            yield ("forbidden", number, "setting"), forbidden.setting


def kind_of(name: str) -> Kind:
    """Return what a name is by its form."""
    bare = bare_setting(name)
    return next((kind for form, kind in _FORMS if re.fullmatch(form, bare)), "other")


@lru_cache(maxsize=1)
def outer_names() -> dict[str, str]:
    """Return the settings of units, containers and pods: in one spelling, and as people write them."""
    import yaml

    groups: dict[str, str] = yaml.safe_load(_OUTER.read_text(encoding="utf-8"))
    return {plain_setting(name): name for names in groups.values() for name in names.split()}


@lru_cache(maxsize=8)
def defined(folder: Path, package: str) -> dict[str, str]:
    """Return the settings that an engine's source defines as its fields and options; none for others."""
    engine = ENGINES.get(package)
    if engine is None:
        return {}
    try:
        found = read_definitions(engine, parse((folder / package / engine.file).read_bytes()))
    except (OSError, SyntaxError):
        return {}
    names = [name.lstrip("-").replace("_", "-") for name in (*found.fields, *found.options)]
    return {plain_setting(name): f"--{name}" for name in names}


@lru_cache(maxsize=256)
def stands_in_source(folder: Path, name: str) -> bool:
    """Tell whether a package declares an option or a field of this name, or names this variable, anywhere."""
    if name.isupper():
        pattern = rf"\b{re.escape(name)}\b"
    else:
        flag = re.escape(name).replace("_", "[-_]")
        pattern = rf"""["']--{flag}["']|^[ \t]+{re.escape(name)}[ \t]*:"""
    search = re.compile(pattern.encode(), re.MULTILINE).search
    return any(search(file.read_bytes()) for file in sorted(folder.rglob("*.py")))


def _words(value: Any) -> frozenset[str]:
    return frozenset(plain_setting(word) for text in _texts(value) for word in _WORD.findall(text))


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a tree, the keys of its objects included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
