"""Calls: functions and classes of the source are followed, listed native ones called, others unknown."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from tools.interpreter.expressions import merge
from tools.interpreter.functions import Functions
from tools.interpreter.lookups import table_of
from tools.interpreter.methods import NativeMethod
from tools.interpreter.operators import natively, settled, spread
from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    Descriptor,
    External,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Native,
    Stopped,
    Undecided,
    Unknown,
    holed,
    unknown_of,
)

_SCALARS: Final = (int, float)
_KEEPING: Final = (list, tuple, dict, reversed)
"""Native types that keep items that may be absent as such."""


class Calls(Functions):
    """Call what the source calls."""

    def _Call(self, node: ast.Call) -> Any:
        function = self._callee(node.func)
        args: list[Any] = []
        for arg in node.args:
            if not isinstance(arg, ast.Starred):
                args.append(self.evaluate(arg))
                continue
            values = self.iterate(self.evaluate(arg.value))
            if isinstance(values, Unknown):
                return self.unfollowed(ast.unparse(node.func), (*args, values), {})
            args += natively(list, values)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
                continue
            part = self.mapping(value)
            if isinstance(part, Unknown):
                return self.unfollowed(ast.unparse(node.func), (*args, part), kwargs)
            merge(kwargs, part)
        outer, self.node = self.node, node
        try:
            return self.call(function, tuple(args), kwargs)
        finally:
            self.node = outer

    node: ast.Call | None = None
    """The call that is being followed."""

    def mapping(self, value: Any) -> Any:
        """Return a value as a mapping for ``**``."""
        raise NotImplementedError

    def _callee(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self.lookup(node.id)
        if not isinstance(node, ast.Attribute):
            return self.evaluate(node)
        held = self.evaluate(node.value)
        return self.get_attribute(held, node.attr)

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call anything."""
        if isinstance(function, Function):
            return self.call_function(function, args, kwargs)
        if isinstance(function, BoundMethod):
            return self.called(function.function, (function.self_value, *args), kwargs)
        if isinstance(function, NativeMethod):
            return self.call_method(function, args, kwargs)
        if isinstance(function, Native):
            return self._library_call(function, args, kwargs)
        if isinstance(function, GuestClass):
            return self.instantiate(function, args, kwargs)
        if isinstance(function, Instance):
            method = function.cls.find("__call__")
            if method is MISSING:
                raise GuestRaise(TypeError(f"'{function.cls.name}' object is not callable"))
            return self.called(self.bind(method, function), args, kwargs)
        if isinstance(function, External):
            return self.unfollowed(function.path, args, kwargs)
        if (
            isinstance(function, Unknown)
            and function.options
            and all(isinstance(option, Function) for option in function.options)
        ):
            return self.called_each(list(function.options), function.needs, args, kwargs)
        if isinstance(function, Unknown):
            return self.unfollowed("", (function, *args), kwargs)
        if isinstance(function, Descriptor):
            return self.called(function.get, args, kwargs)
        return self._native_call(function, args, kwargs)

    def called_each(
        self, functions: list[Any], needs: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call each function that may be the one."""
        first, rest = functions[0], functions[1:]
        if not rest:
            return self.call(first, args, kwargs)
        return self.fork(
            needs,
            lambda: self.call(first, args, kwargs),
            lambda: self.called_each(rest, needs, args, kwargs),
        )

    def _library_call(self, function: Native, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not function.raw:
            unknown = [a for a in (*args, *kwargs.values()) if isinstance(a, Unknown)]
            if unknown:
                self.doubts += 1
                return unknown_of(*unknown)
        try:
            return function.run(*args, **kwargs)
        except Undecided as undecided:
            self.doubts += 1
            return Unknown(undecided.needs)
        except (GuestRaise, Stopped):
            raise
        except Exception as error:  # noqa: BLE001 - a native function raises what the source would see
            raise GuestRaise(error) from None

    def _native_call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not callable(function):
            raise GuestRaise(TypeError(f"'{type(function).__name__}' object is not callable"))
        if isinstance(function, type) and issubclass(function, BaseException):
            return natively(lambda: function(*(_worded(a) for a in args)))
        if function is bool and len(args) == 1:
            return self.truth_of(args[0])
        unknown = [a for a in (*args, *kwargs.values()) if isinstance(a, Unknown)]
        if function in _SCALARS and len(args) == 1 and unknown and unknown[0].options and not kwargs:
            return self._of_each(function, unknown[0])
        if function is dict and len(args) == 1 and unknown and (table := table_of(unknown[0])) is not None:
            self.doubts += 1
            return {**table, **kwargs}
        if unknown and function not in (list, tuple, dict, set):
            self.doubts += 1
            return unknown_of(*unknown)
        if self.journal.any_tainted:
            for arg in args:
                needs = self.journal.tainted(arg) if isinstance(arg, (list, dict, set)) else None
                if needs is not None:
                    return Unknown(needs)
        if function in (list, tuple, reversed):
            args = tuple(spread(a, self.iterate) for a in args)
        for arg in args:
            if (
                function not in _KEEPING
                and isinstance(arg, (list, tuple, dict))
                and (hole := holed(arg)) is not None
            ):
                return Unknown(hole.needs)
        if function is range and any(isinstance(a, int) and abs(a) > 10**9 for a in args):
            return unknown_of(need="a range that is too long")
        found = settled(lambda: function(*args, **kwargs), args, kwargs)
        if isinstance(found, Unknown):
            self.doubts += 1
        return found

    def _of_each(self, function: Any, value: Unknown) -> Unknown:
        """Return what a built-in type makes of each value that may be the one."""
        try:
            return Unknown(value.needs, tuple(function(option) for option in value.options))
        except (TypeError, ValueError, Undecided, GuestRaise):
            self.doubts += 1
            return Unknown(value.needs)

    def call_method(self, method: NativeMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of a plain value."""
        raise NotImplementedError

    def instantiate(self, cls: GuestClass, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make an object of a class of the source."""
        raise NotImplementedError

    def unfollowed(self, what: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Unknown:
        """Return the result of a call that is not followed: unknown, as is all that it may have changed."""
        self.doubts += 1
        need = f"{what}()" if what else ""
        for value in (*args, *kwargs.values()):
            if isinstance(value, Instance):
                for name in list(value.attrs):
                    self.store_attribute(value, name, unknown_of(value.attrs[name], need=need), None)
        return unknown_of(*args, need=need)

    def store_attribute(self, held: Instance, name: str, value: Any, node: ast.AST | None = None) -> None:
        """Bind an attribute of an object."""
        raise NotImplementedError

    def called_back(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call something of the source from native code: its errors are native ones there."""
        try:
            return self.call(function, args, kwargs)
        except GuestRaise as raised:
            if isinstance(raised.value, Exception):
                raise raised.value from None
            raise


def _worded(value: Any) -> Any:
    """Return what an exception is told; an unknown value by what it needs."""
    return f"<{', '.join(value.needs)}>" if isinstance(value, Unknown) else value


__all__ = ["Calls"]
