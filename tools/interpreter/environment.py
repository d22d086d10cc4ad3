"""The environment variables of the followed process: given ones, and what its code sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.interpreter.journal import Journal
from tools.interpreter.values import MISSING, GuestRaise, Unknown


class Environment:
    """Stand for ``os.environ``; a variable that was not given is unset only when all were given."""

    def __init__(self, given: dict[str, Any], journal: Journal, *, complete: bool) -> None:
        self.names: dict[str, Any] = dict(given)
        self.removed: dict[str, Any] = {}
        self.written: dict[str, Any] = {}
        self.read: set[str] = set()
        self._journal = journal
        self._complete = complete

    def lookup(self, name: Any) -> Any:
        """Return a variable, `MISSING` when it is unset, or an unknown."""
        if isinstance(name, Unknown) or not isinstance(name, str):
            return Unknown(("which environment variable is read",))
        self.read.add(name)
        if name in self.names:
            return self.names[name]
        if self._complete or name in self.removed:
            return MISSING
        return Unknown((f"environment variable {name}",))

    def __setitem__(self, name: Any, value: Any) -> None:
        if isinstance(name, str):
            self._journal.set(self.names, name, value)
            self._journal.set(self.written, name, value)

    def pop(self, name: Any, *default: Any) -> Any:
        """Remove a variable and return what it was."""
        found = self.lookup(name)
        if isinstance(name, str):
            self._journal.set(self.names, name, MISSING)
            self._journal.set(self.removed, name, True)
            self._journal.set(self.written, name, None)
        if found is MISSING:
            if default:
                return default[0]
            raise GuestRaise(KeyError(name))
        return found

    def get(self, name: Any, default: Any = None) -> Any:
        """Return a variable or a default."""
        found = self.lookup(name)
        return default if found is MISSING else found

    def setdefault(self, name: Any, default: Any = None) -> Any:
        """Set a variable that is unset; return what it is then."""
        found = self.lookup(name)
        if found is MISSING:
            self[name] = default
            return default
        if isinstance(found, Unknown):
            self[name] = found
        return found

    def update(self, *values: Any, **named: Any) -> None:
        """Set several variables."""
        for part in (*values, named):
            if isinstance(part, dict):
                for name, value in part.items():
                    self[name] = value

    def item(self, name: Any) -> Any:
        """Return ``os.environ[name]``."""
        found = self.lookup(name)
        if found is MISSING:
            raise GuestRaise(KeyError(name))
        return found

    def has(self, name: Any) -> Any:
        """Return whether a variable is set: True, False or an unknown."""
        found = self.lookup(name)
        return found if isinstance(found, Unknown) else found is not MISSING

    def names_of(self) -> Any:
        """Return the names that are set, or an unknown when not all are known."""
        return list(self.names) if self._complete else Unknown(("the whole environment",))

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.names))
