"""Read the shipped rules and those of a site; of a broken file nothing is used, and one line says why."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.contract import ToolError
from tools.policy_rules import Rule
from tools.wrong_fields import first_wrong

if TYPE_CHECKING:
    from yaml.nodes import MappingNode

SHIPPED: Final = Path(__file__).with_name("policy.yaml")
_MOST: Final = 1 << 20


class PolicyError(ToolError):
    """Report rules that cannot be used: file, rule, field, and what is wrong; nothing runs by them."""


class Table(BaseModel):
    """Hold all rules, the commands that are always refused, and hints for those that have no rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    refused: frozenset[str]
    hints: dict[str, str]
    rules: list[Rule]


class Limit(BaseModel):
    """Take back what the rules allow: all of some commands, or some of their arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: list[str] = Field(min_length=1)
    verdict: Literal["ask", "refuse"]
    why: str = Field(min_length=1)
    when: list[str] = Field(default_factory=list, description="What an argument matches; none: always.")
    matches: list[str] = Field(min_length=1, description="Examples that are held back.")
    passes: list[str] = Field(default_factory=list, description="Examples that are still allowed.")


class SiteTable(BaseModel):
    """Hold what a site adds: rules of its own, limits on any rule, hints."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: list[Rule] = Field(default_factory=list)
    limits: list[Limit] = Field(default_factory=list)
    hints: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """Hold the rules in force; ``digest`` names them, and changes with any byte of them."""

    rules: Mapping[str, Rule]
    refused: frozenset[str]
    hints: Mapping[str, str]
    digest: str
    site: Path | None = None
    site_names: frozenset[str] = frozenset()
    limits: Mapping[str, Sequence[Limit]] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set, compare=False)
    """Commands whose rule was tried with its own examples."""

    def is_from_site(self, name: str) -> bool:
        """Tell whether the rule of a command is the site's own."""
        return name in self.site_names


@lru_cache(maxsize=1)
def shipped() -> Policy:
    """Read the shipped rules; done once."""
    data = _bytes(SHIPPED)
    table = _model(Table, SHIPPED, data)
    return Policy(_named(SHIPPED, table.rules), table.refused, table.hints, hashlib.sha256(data).hexdigest())


def site_bytes(path: Path) -> bytes:
    """Return a site's file as it is now."""
    return _bytes(path)


def with_site(path: Path, data: bytes) -> Policy:
    """Return the shipped rules with a site's file on top; its examples are not tried here."""
    base = shipped()
    table = _model(SiteTable, path, data)
    own = _named(path, table.rules)
    for name in own:
        if name in base.refused:
            raise PolicyError(f"{path}: rule {name}: names: {name} is always refused, no rule changes that")
    limits: dict[str, list[Limit]] = {}
    for index, limit in enumerate(table.limits):
        for name in limit.names:
            if name not in own and name not in base.rules:
                raise PolicyError(f"{path}: limits.{index}: names: there is no rule for {name} to limit")
            limits.setdefault(name, []).append(limit)
    digest = hashlib.sha256(f"{base.digest}\0".encode() + data).hexdigest()
    return Policy(
        rules={**base.rules, **own},
        refused=base.refused,
        hints={**base.hints, **table.hints},
        digest=digest,
        site=path,
        site_names=frozenset(own),
        limits=limits,
    )


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as source:
            data = source.read(_MOST + 1)
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > _MOST:
        raise PolicyError(f"{path}: is larger than {_MOST} bytes")
    return data


def _named(path: Path, rules: Sequence[Rule]) -> Mapping[str, Rule]:
    """Return the rules by command; each has one or more, and no command has two."""
    counted = Counter(name for rule in rules for name in rule.names)
    for name, count in counted.items():
        if count > 1:
            raise PolicyError(f"{path}: rule {name}: names: {name} has {count} rules; keep one")
    for index, rule in enumerate(rules):
        if not rule.names or any("/" in name or not name for name in rule.names):
            raise PolicyError(f"{path}: rules.{index}: names: give names of commands, without a path")
    return {name: rule for rule in rules for name in rule.names}


T = TypeVar("T", bound=BaseModel)


def _model(kind: type[T], path: Path, data: bytes) -> T:
    raw = _yaml(path, data)
    if not isinstance(raw, dict):
        raise PolicyError(f"{path}: holds no mapping with {', '.join(kind.model_fields)}")
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        wrong = first_wrong(error, "file", kind)
        do = f"; {wrong.do}" if wrong.do else ""
        raise PolicyError(f"{path}: {_named_rule(raw, wrong.place)}{wrong.text}{do}") from error


def _named_rule(raw: Mapping[str, Any], where: Sequence[int | str]) -> str:
    """Return ``rule NAME: `` for a place inside the list of rules or limits."""
    if len(where) < 2 or not isinstance(where[1], int):
        return ""
    entry = raw.get(str(where[0]))
    one = entry[where[1]] if isinstance(entry, list) and where[1] < len(entry) else None
    names = one.get("names") if isinstance(one, dict) else None
    return f"rule {names[0]}: " if isinstance(names, list) and names else ""


def _yaml(path: Path, data: bytes) -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """Refuse a mapping that gives one key twice: YAML would keep the last."""

        def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
            """Return the mapping, after its keys were counted."""
            seen: set[str] = set()
            for key, _ in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key.value, str):
                    raise PolicyError(f"{path}: line {line}: a key is one word")
                if key.value in seen:
                    raise PolicyError(f"{path}: line {line}: {key.value} is given twice in one mapping")
                seen.add(key.value)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    try:
        return yaml.load(data, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise PolicyError(f"{path}: {line}not YAML: {getattr(error, 'problem', None) or error}") from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise PolicyError(f"{path}: not YAML: {error}") from error
