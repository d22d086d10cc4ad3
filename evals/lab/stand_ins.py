"""Stand for what is not installed while a package's own source runs. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, NoReturn


class StandInUsed(BaseException):
    """Report that the package's code decided something by a value nobody supplied.

    Not an `Exception`: the package's own broad handlers must not swallow it.
    """


class StandIn:
    """Stand for something that is not installed; it has parts and can be called, but holds no value."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> StandIn:
        """Return a stand-in for the result."""
        return StandIn(f"{self._path}()")

    def __getitem__(self, key: Any) -> StandIn:
        return StandIn(f"{self._path}[...]")

    def _derived(self, *others: Any) -> StandIn:
        return StandIn(f"{self._path} (derived)")

    __or__ = __ror__ = __neg__ = __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = _derived

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __repr__(self) -> str:
        return f"<stand-in for {self._path}>"

    def _used(self, *args: Any) -> NoReturn:
        raise StandInUsed(f"{self._path} decides a setting, but the lab has no fact for it")

    __bool__ = __len__ = __iter__ = __contains__ = __int__ = __float__ = __index__ = _used
    __eq__ = __ne__ = _used
    __lt__ = __le__ = __gt__ = __ge__ = __instancecheck__ = _used
    __hash__ = object.__hash__


class FactModule(ModuleType):
    """Answer for a module that is not installed; what has no fact and is not absent is a `StandIn`."""

    def __init__(self, name: str, facts: Mapping[str, Any], absent: frozenset[str] = frozenset()) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._absent = absent
        for key, value in facts.items():
            setattr(self, key, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self._absent:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return StandIn(f"{self.__name__}.{name}")
