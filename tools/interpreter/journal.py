"""Remember what is written while more than one way is open, so that ways can be taken back and joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tools.interpreter.values import MISSING, Instance, Maybe, Undecided, Unknown, needs_of

WHOLE: Final = object()
"""The key of an entry that holds the whole content of a list, dict or set."""

Container = list[Any] | dict[Any, Any] | set[Any]


@dataclass(eq=False, slots=True)
class Change:
    """Hold what a place contains at the end of one way."""

    where: Any
    key: Any
    value: Any


Changes = dict[tuple[int, Any], Change]


class Links:
    """Know the dicts that were joined into a copy: a change of one makes the others unknown."""

    def __init__(self) -> None:
        self._linked: dict[int, list[Any]] = {}

    def join(self, copy: Any, *origins: Any) -> None:
        """Note that a dict stands for either of others."""
        for origin in origins:
            self._linked.setdefault(id(copy), [copy]).append(origin)
            self._linked.setdefault(id(origin), [origin]).append(copy)

    def of(self, container: Any) -> list[Any]:
        """Return the dicts that are linked with one, which are told apart no longer."""
        return self._linked.pop(id(container), [None])[1:] if self._linked else []


class Journal:
    """Log old values from the first mark on; a place is a key of a namespace, or a whole container."""

    def __init__(self) -> None:
        self._log: list[tuple[Any, Any, Any]] = []
        self._marks: list[int] = []
        self._serials: list[int] = []
        self.serial = 0
        """How many marks were ever set."""
        self.newest = 0
        """The serial of the newest mark that is held; what came to be after it need not be remembered."""
        self._touched: dict[int, int] = {}
        self._tainted: dict[Any, Any] = {}
        self.links = Links()

    def set(self, namespace: dict[Any, Any], key: Any, value: Any) -> None:
        """Bind a name in a namespace (locals, globals, attributes)."""
        if self._marks:
            self._log.append((namespace, key, namespace.get(key, MISSING)))
        if value is MISSING:
            namespace.pop(key, None)
        else:
            namespace[key] = value

    def touch(self, container: Container) -> None:
        """Keep a container's content before it is changed."""
        for linked in self.links.of(container):
            self.taint(linked, ("a dict that another name changes",))
        if not self._marks:
            return
        at = self._touched.get(id(container), -1)
        if self._marks[-1] <= at < len(self._log) and self._log[at][0] is container:
            return
        self._touched[id(container)] = len(self._log)
        self._log.append((container, WHOLE, container.copy()))

    def taint(self, container: Any, needs: tuple[str, ...]) -> None:
        """Say that nothing about a container's content is known any more (the container is kept alive)."""
        self.set(self._tainted, id(container), (needs, container))

    def tainted(self, container: Any) -> tuple[str, ...] | None:
        """Return why a container's content is unknown, or None when it is known."""
        found = self._tainted.get(id(container))
        return found[0] if found is not None else None

    def share(self, other: Journal) -> None:
        """Know the same containers as tainted as another journal."""
        self._tainted, self.links = other._tainted, other.links

    @property
    def open(self) -> bool:
        """Tell whether more than one way is open."""
        return bool(self._marks)

    @property
    def any_tainted(self) -> bool:
        """Tell whether some container is tainted."""
        return bool(self._tainted)

    def is_own(self, where: Any) -> bool:
        """Tell whether a place is where the journal itself keeps what is tainted."""
        return where is self._tainted

    def mark(self) -> int:
        """Start logging; every mark is given back by `release`."""
        self.serial += 1
        self.newest = self.serial
        self._marks.append(len(self._log))
        self._serials.append(self.serial)
        return len(self._log)

    def release(self, mark: int) -> None:
        """Give a mark back; without marks nothing is remembered."""
        for position in range(len(self._marks) - 1, -1, -1):
            if self._marks[position] == mark:
                del self._marks[position]
                del self._serials[position]
                break
        self.newest = max(self._serials, default=0)
        if not self._marks:
            self._log.clear()
            self._touched.clear()

    def changes(self, mark: int) -> Changes:
        """Return what the places written since a mark hold now."""
        found: Changes = {}
        for where, key, _ in self._log[mark:]:
            place = (id(where), key)
            if place not in found:
                now = where.copy() if key is WHOLE else where.get(key, MISSING)
                found[place] = Change(where, key, now)
        return found

    def between(self, mark: int, later: int) -> Changes:
        """Return what the places written between two marks held at the later one."""
        found: Changes = {}
        after: dict[tuple[int, Any], Any] = {}
        for where, key, old in self._log[later:]:
            after.setdefault((id(where), key), old)
        for where, key, _ in self._log[mark:later]:
            place = (id(where), key)
            if place in found:
                continue
            if place in after:
                value = after[place]
            else:
                value = where.copy() if key is WHOLE else where.get(key, MISSING)
            found[place] = Change(where, key, value)
        return found

    def move(self, mark: int, to: int) -> None:
        """Give a mark back and hold another one in its place."""
        for position in range(len(self._marks) - 1, -1, -1):
            if self._marks[position] == mark:
                self._marks[position] = to
                break
        order = sorted(range(len(self._marks)), key=self._marks.__getitem__)
        self._marks = [self._marks[n] for n in order]
        self._serials = [self._serials[n] for n in order]

    def rewind(self, mark: int) -> None:
        """Undo everything since a mark."""
        while len(self._log) > mark:
            where, key, old = self._log.pop()
            _restore(where, key, old)

    def apply(self, changes: Changes) -> None:
        """Write the changes of a way."""
        for change in changes.values():
            self._write(change.where, change.key, change.value)

    def join(self, mark: int, other: Changes, needs: tuple[str, ...]) -> None:
        """Make the state hold for both the way just followed and another one that left the same mark."""
        for where, key, base in list(self._bases(mark, other)):
            change = other.get((id(where), key))
            here = where if key is WHOLE else where.get(key, MISSING)
            there = change.value if change is not None else base
            if not same(here, there):
                self._merge(where, key, there, needs)

    def _merge(self, where: Any, key: Any, there: Any, needs: tuple[str, ...]) -> None:
        if where is self._tainted:
            if there is not MISSING:
                self.set(where, key, there)
        elif key is not WHOLE:
            self.set(where, key, joined(where.get(key, MISSING), there, needs, self.links))
        else:
            self._merge_content(where, there, needs)

    def _merge_content(self, where: Any, there: Any, needs: tuple[str, ...]) -> None:
        self.touch(where)
        if isinstance(where, list) and abs(len(where) - len(there)) <= _MOST_HOLES:
            both = [joined(a, b, needs, self.links) for a, b in zip(where, there, strict=False)]
            rest = where[len(there) :] or there[len(where) :]
            where[:] = [*both, *(perhaps(item, needs) for item in rest)]
        elif isinstance(where, dict) and len(where.keys() ^ there.keys()) <= _MOST_HOLES:
            for name in [*where, *(n for n in there if n not in where)]:
                if name in where and name in there:
                    where[name] = joined(where[name], there[name], needs, self.links)
                else:
                    where[name] = perhaps(where[name] if name in where else there[name], needs)
        else:
            self.taint(where, needs)

    def _bases(self, mark: int, other: Changes) -> Iterator[tuple[Any, Any, Any]]:
        """Yield every place written on either way with its value at the mark."""
        seen = set()
        for where, key, old in self._log[mark:]:
            place = (id(where), key)
            if place not in seen:
                seen.add(place)
                yield where, key, old
        for place, change in other.items():
            if place not in seen:
                now = change.where if change.key is WHOLE else change.where.get(change.key, MISSING)
                yield change.where, change.key, now.copy() if change.key is WHOLE else now

    def _write(self, where: Any, key: Any, value: Any) -> None:
        if key is WHOLE:
            self.touch(where)
            _restore(where, WHOLE, value)
        else:
            self.set(where, key, value)


def _restore(where: Any, key: Any, value: Any) -> None:
    if key is not WHOLE:
        if value is MISSING:
            where.pop(key, None)
        else:
            where[key] = value
    elif isinstance(where, list):
        where[:] = value
    else:
        where.clear()
        where.update(value)


_MOST_HOLES: Final = 64
"""Items that may be absent before a container counts as unknown altogether."""
_DEPTH: Final = 6


def same(first: Any, second: Any, depth: int = _DEPTH) -> bool:
    """Tell whether two values are surely the same; values of different types never are."""
    if first is second:
        return True
    if type(first) is not type(second) or isinstance(first, Unknown) or not depth:
        return False
    if isinstance(first, Instance):
        return first.cls is second.cls and bool(first.attrs) and same(first.attrs, second.attrs, depth - 1)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(
            same(a, b, depth - 1) for a, b in zip(first, second, strict=True)
        )
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k], depth - 1) for k in first)
    try:
        return bool(first == second)
    except (Undecided, TypeError, ValueError):
        return False


def perhaps(value: Any, needs: tuple[str, ...]) -> Maybe:
    """Return an item that is there on one of two ways only."""
    return value if type(value) is Maybe else Maybe(value, needs)


def joined(first: Any, second: Any, needs: tuple[str, ...], links: Links | None = None) -> Any:
    """Return a value that stands for either of two; dicts are told apart key by key where links are kept."""
    if same(first, second):
        return first
    if type(first) is Maybe or type(second) is Maybe:
        inner = [v.value if type(v) is Maybe else v for v in (first, second)]
        return Maybe(
            joined(inner[0], inner[1], needs, links), (*needs, *needs_of(first), *needs_of(second))[:6]
        )
    if type(first) is tuple and type(second) is tuple and len(first) == len(second):
        return tuple(joined(a, b, needs, links) for a, b in zip(first, second, strict=True))
    if links is not None and type(first) is dict and type(second) is dict:
        return _merged(first, second, needs, links)
    for value in (first, second):
        if isinstance(value, Unknown) and not value.options:
            return Unknown(value.needs)  # a new one: only the same unknown equals itself
    options: list[Any] = []
    for value in (first, second):
        if isinstance(value, Unknown):
            options += [o for o in value.options if not any(same(o, seen) for seen in options)]
        elif not any(same(value, seen) for seen in options):
            options.append(value)
    return Unknown((*needs, *needs_of(first), *needs_of(second)), tuple(options))


def _merged(first: Any, second: Any, needs: tuple[str, ...], links: Links) -> Any:
    if len(first.keys() ^ second.keys()) > _MOST_HOLES:
        return Unknown(needs)
    found: dict[Any, Any] = {}
    for name in [*first, *(n for n in second if n not in first)]:
        if name in first and name in second:
            found[name] = joined(first[name], second[name], needs, links)
        else:
            found[name] = perhaps(first[name] if name in first else second[name], needs)
    links.join(found, first, second)
    return found
