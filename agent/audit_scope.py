"""Say for which thread and call a command runs, so that the audit can tell; carried along by the task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """Name what a command belongs to."""

    thread: str | None = None
    what: str = ""
    reads: bool = False
    """The tool at work only reads, by its own declaration."""
    change: str | None = None
    digest: str | None = None


_NONE = Scope()
_SCOPE: ContextVar[Scope] = ContextVar("audit_scope", default=_NONE)


def scope() -> Scope:
    """Return what the running task works for."""
    return _SCOPE.get()


@contextmanager
def acting(
    thread: str,
    what: str,
    *,
    reads: bool = False,
    change: str | None = None,
    digest: str | None = None,
) -> Iterator[None]:
    """Let the commands of the block belong to one call, or to one step of a change."""
    token = _SCOPE.set(Scope(thread, what, reads, change, digest))
    try:
        yield
    finally:
        _SCOPE.reset(token)
