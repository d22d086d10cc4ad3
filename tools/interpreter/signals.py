"""How following a source breaks off: something undecided, a bound, an exception of the source."""

from __future__ import annotations

import ast
from typing import Any


class Undecided(BaseException):
    """Say that a native operation met an unknown value; never an error of the source that is followed."""

    def __init__(self, needs: tuple[str, ...]) -> None:
        super().__init__(needs)
        self.needs = needs


class Stopped(BaseException):
    """Say that a bound was reached and the rest was not followed."""


class GuestRaise(BaseException):
    """Carry an exception of the source: a native one, or an `Instance` of a class of the source."""

    def __init__(self, value: Any, node: ast.AST | None = None) -> None:
        super().__init__(value)
        self.value = value
        self.node = node
        self.path = ""
        self.line = 0
