"""Read YAML in which a key may stand once in an object, since the second silently replaces the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class RepeatedKey(yaml.YAMLError):
    """Report a key that stands twice: its line, counted from 1, and the line of the first."""

    def __init__(self, key: str, line: int, first: int) -> None:
        super().__init__(f"{key}: stands twice, first on line {first}")
        self.line = line


def read(text: str) -> tuple[Any, yaml.Node | None]:
    """Return what a text holds, and its nodes, which know their lines; raise `yaml.YAMLError` for others."""
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, None
        _check(node)
        return loader.construct_document(node), node
    except (ValueError, TypeError, OverflowError, RecursionError) as error:  # a 13th month, say
        raise yaml.YAMLError(f"a value cannot be read: {error}") from error
    finally:
        loader.dispose()


def _check(root: yaml.Node) -> None:
    seen: set[int] = set()
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if id(node) in seen:  # an anchor that is used again
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            lines: dict[tuple[str, str], int] = {}
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    name, line = (key.tag, key.value), int(key.start_mark.line) + 1
                    if name in lines:
                        raise RepeatedKey(key.value, line, lines[name])
                    lines[name] = line
                nodes.append(value)
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value


def line_in(node: Any, place: Sequence[int | str]) -> int:
    """Return the line on which the nearest part of ``place`` that is written stands."""
    line = int(node.start_mark.line) + 1
    for part in place:
        value = node.value
        if isinstance(part, int) and isinstance(value, list) and part < len(value):
            node = value[part]
        else:
            pairs: Mapping[str, Any] = (
                {key.value: (key, item) for key, item in value if hasattr(key, "value")}
                if value and isinstance(value, list) and isinstance(value[0], tuple)
                else {}
            )
            if part not in pairs:
                break
            key, node = pairs[str(part)]
            line = int(key.start_mark.line) + 1
            continue
        line = int(node.start_mark.line) + 1
    return line
