"""Let the code that runs a command say what the command does to its host, for whoever keeps account of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Effect = Literal["read", "write", "restore"]
"""``restore`` takes a change back; it is never refused for want of an account."""

_EFFECT: ContextVar[Effect | None] = ContextVar("declared_effect", default=None)


@contextmanager
def declared(effect: Effect) -> Iterator[None]:
    """Declare the commands of the block."""
    token = _EFFECT.set(effect)
    try:
        yield
    finally:
        _EFFECT.reset(token)


def effect() -> Effect | None:
    """Return what was declared; None where nobody did."""
    return _EFFECT.get()
