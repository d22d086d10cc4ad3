"""Functions of the source: made where they are defined, followed when they are called."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from tools.interpreter.forks import End
from tools.interpreter.journal import joined
from tools.interpreter.module import Frame
from tools.interpreter.statements import Statements
from tools.interpreter.values import (
    Descriptor,
    External,
    Function,
    GuestRaise,
    Maybe,
    Native,
    Stopped,
    Unknown,
    unknown_of,
)
from tools.statements import statements
from tools.syntax import Module


class Functions(Statements):
    """Make and follow functions."""

    def unfollowed(self, what: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Unknown:
        """Return the result of a call that is not followed: unknown, as is all that it may have changed."""
        raise NotImplementedError

    def new_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Any:
        """Make a function where it is defined, decorated by what stands above it."""
        frame = self.frame
        lambda_ = isinstance(node, ast.Lambda)
        source = frame.module.source
        late = not lambda_ and source is not None and source.is_bare(node)
        if source is not None and not lambda_:
            node = cast(ast.FunctionDef, source.as_read(node))
        name = "<lambda>" if lambda_ else node.name  # type: ignore[union-attr]
        function: Any = Function(
            node,
            frame.module,
            frame,
            () if late else self._defaults(node),
            {} if late else self._kw_defaults(node),
            name,
            f"{frame.function.qualname}.{name}" if frame.function is not None and frame.is_class else name,
            machine=self,  # type: ignore[arg-type]
            late=late,
        )
        if lambda_:
            return function
        for decorator in reversed(node.decorator_list):  # type: ignore[union-attr]
            function = self.decorated(decorator, function)
        return function

    def _defaults(self, node: Any) -> tuple[Any, ...]:
        return tuple(self.evaluate(d) for d in node.args.defaults)

    def _kw_defaults(self, node: Any) -> dict[str, Any]:
        given = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        return {argument.arg: self.evaluate(d) for argument, d in given if d is not None}

    def decorated(self, decorator: ast.expr, function: Any) -> Any:
        """Apply a decorator; one that is not followed leaves something unknown."""
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "getter", "deleter"):
            held = self.evaluate(decorator.value)
            if isinstance(held, Descriptor):
                put = function if decorator.attr == "setter" else held.set
                return Descriptor("property", function if decorator.attr == "getter" else held.get, put)
        found = self.evaluate(decorator)
        if isinstance(found, (External, Unknown)):
            path = found.path if isinstance(found, External) else ""
            return function if path.startswith(_HARMLESS) else unknown_of(found, need=f"decorator {path}")
        return self.call(found, (function,), {})

    def call_function(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Follow a function of the source."""
        if len(self.frames) >= self.limits.depth:
            self.doubts += 1
            return unknown_of(need=f"{function.name}(), called too deep")
        if (
            self.journal.open
            and sum(f.function is function for f in self.frames) + (self.frame.function is function)
            >= _SAME_FUNCTION
        ):
            return self.unfollowed(f"{function.name}, which calls itself", args, kwargs)
        node = self.read_body(function)
        names = self.parameters(function, args, kwargs)
        body = _EMPTY if isinstance(node, ast.Lambda) else _body_of(node, function.module.source)
        frame = Frame(
            names,
            function.module,
            function.closure,
            function,
            global_names=body.global_names,
            nonlocal_names=body.nonlocal_names,
            born=self.journal.serial,
        )
        if isinstance(node, ast.AsyncFunctionDef):
            return unknown_of(need=f"await {function.name}()")
        if body.yields:
            return self._generated(function, frame)
        return self.in_frame(frame, lambda: self._body(node))

    def read_body(self, function: Function) -> Any:
        """Return the statement of a function, its parameters and body read."""
        source = function.module.source
        if source is not None and not isinstance(function.node, ast.Lambda):
            try:
                function.node = cast(ast.FunctionDef, source.whole(function.node))
            except SyntaxError:  # newer than this interpreter's: what remains of the file is followed
                function.node = _readable(source.data, function.node)
            if function.late:  # its defaults are literals
                function.defaults = self._defaults(function.node)
                function.kw_defaults = self._kw_defaults(function.node)
                function.late = False
        return function.node

    def _body(self, node: Any) -> End:
        if isinstance(node, ast.Lambda):
            return End("return", self.evaluate(node.body))
        return cast(End, self.run_block(node.body))

    def in_frame(self, frame: Frame, way: Callable[[], End]) -> Any:
        """Follow a body in a frame of its own and return what it returns."""
        outer, leaves, conditions, base = self.frame, self.leaves, self.conditions, len(self.pendings)
        self.frame, self.leaves = frame, None
        self.frames.append(outer)
        depth = len(self.frames)
        try:
            try:
                end = way()
            except GuestRaise as raised:
                end = End("raise", raised)
                del self.frames[depth:]
                self.frame = frame
            if len(self.pendings) > base:
                end = self.settle(base, end, "return", frame, "return")
        finally:
            self.frame, self.leaves, self.conditions = outer, leaves, conditions
            del self.frames[depth - 1 :]
        if end.kind == "raise":
            raise end.value
        return end.value if end.kind == "return" else None

    def parameters(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Bind arguments to parameters as Python does."""
        spec, names = function.node.args, {}
        plain = [*spec.posonlyargs, *spec.args]
        if len(args) > len(plain) and spec.vararg is None:
            self.raise_native(TypeError(f"{function.name}() takes {len(plain)} positional arguments"))
        for parameter, value in zip(plain, args, strict=False):
            names[parameter.arg] = value
        if spec.vararg is not None:
            names[spec.vararg.arg] = tuple(args[len(plain) :])
        extra: dict[str, Any] = {}
        allowed = {p.arg for p in (*spec.args, *spec.kwonlyargs)}
        for name, value in kwargs.items():
            if name in allowed and name not in names:
                names[name] = value
            elif spec.kwarg is not None and name not in allowed:
                extra[name] = value
            else:
                self.raise_native(TypeError(f"{function.name}() got an unexpected argument '{name}'"))
        first = len(plain) - len(function.defaults)
        for position, parameter in enumerate(plain):
            if parameter.arg not in names and position >= first:
                names[parameter.arg] = function.defaults[position - first]
        for parameter in spec.kwonlyargs:
            if parameter.arg not in names and parameter.arg in function.kw_defaults:
                names[parameter.arg] = function.kw_defaults[parameter.arg]
        for name, value in names.items():
            if type(value) is Maybe:
                names[name] = self._given_perhaps(function, name, value)
        for parameter in (*plain, *spec.kwonlyargs):
            if parameter.arg not in names:
                self.raise_native(TypeError(f"{function.name}() missing argument: '{parameter.arg}'"))
        if spec.kwarg is not None:
            names[spec.kwarg.arg] = extra
        return names

    def _given_perhaps(self, function: Function, name: str, value: Maybe) -> Any:
        """Return an argument that may not be given: either it or the default."""
        spec = function.node.args
        plain = [p.arg for p in (*spec.posonlyargs, *spec.args)]
        first = len(plain) - len(function.defaults)
        if name in function.kw_defaults:
            return joined(value.value, function.kw_defaults[name], value.needs)
        if name in plain and plain.index(name) >= first:
            return joined(value.value, function.defaults[plain.index(name) - first], value.needs)
        return Unknown(value.needs)

    # --- generators -------------------------------------------------------------------------------

    def _generated(self, function: Function, frame: Frame) -> Any:
        """Collect what a generator yields; it is followed when the first value is asked for."""

        def values() -> Iterator[Any]:
            found: list[Any] = []

            def keep(value: Any) -> None:
                found.append(value)
                if len(found) > self.limits.items:
                    raise Stopped(f"more than {self.limits.items} values of a generator")

            frame.on_yield = keep
            self.in_frame(frame, lambda: self._body(self.read_body(function)))
            yield from found

        return values()

    def managed(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a context manager made of a generator function: the block is followed where it yields."""

        def run(inside: Callable[[Any], End]) -> End:
            ends: list[End] = []
            caller = self.frame
            self.read_body(function)
            frame = Frame(
                self.parameters(function, args, kwargs), function.module, function.closure, function
            )

            def at_yield(value: Any) -> None:
                inner, self.frame = self.frame, caller
                try:
                    ends.append(inside(value))
                finally:
                    self.frame = inner

            frame.on_yield = at_yield
            self.in_frame(frame, lambda: self._body(self.read_body(function)))
            return ends[0] if ends else End("normal")

        return Native("contextmanager", run, self)  # type: ignore[arg-type]


_SAME_FUNCTION: Final = 2
"""Calls of a function within itself that are followed where it is not sure that it is reached."""
_HARMLESS: Final = (
    "torch.no_grad", "torch.inference_mode", "torch.compiler", "torch._dynamo", "torch.jit", "typing.",
    "typing_extensions.", "abc.", "triton.", "torch.library",
)  # fmt: skip
"""Decorators that leave the function what it is, as far as its values go."""
_APART: Final = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef})
_LEAVES: Final = frozenset({ast.Name, ast.Constant, ast.Pass, ast.Break, ast.Continue, ast.alias})


@dataclass(frozen=True, slots=True)
class _Body:
    """Hold what a function's own statements say of the whole of it."""

    yields: bool
    global_names: frozenset[str]
    nonlocal_names: frozenset[str]


_EMPTY: Final = _Body(False, frozenset(), frozenset())
_DECLARES: Final = re.compile(rb"yield|global|nonlocal")
"""What a function holds, in its text at least, of which something is said."""


@lru_cache(maxsize=64)
def _salvaged(data: bytes) -> Module | None:
    from tools.settings.trees import read_module

    try:
        return read_module(data)
    except SyntaxError:
        return None


def _readable(data: bytes, stub: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
    """Return what can be read of a function; the head alone where nothing can."""
    module = _salvaged(data)
    for node in statements(module.tree.body) if module is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno == stub.lineno:
            return node
    return stub


def _body_of(node: ast.FunctionDef | ast.AsyncFunctionDef, source: Module | None) -> _Body:
    """Look through a function once, without the functions and classes in it."""
    found: _Body | None = getattr(node, "_leadline_body", None)
    if found is None and source is not None and not _DECLARES.search(_text(node, source)):
        found = node._leadline_body = _EMPTY  # type: ignore[union-attr]
    if found is None:
        yields, declared = False, {ast.Global: set[str](), ast.Nonlocal: set[str]()}
        for inner in _walk_own(node.body):
            if isinstance(inner, (ast.Yield, ast.YieldFrom)):
                yields = True
            elif isinstance(inner, (ast.Global, ast.Nonlocal)):
                declared[type(inner)].update(inner.names)
        found = _Body(yields, frozenset(declared[ast.Global]), frozenset(declared[ast.Nonlocal]))
        node._leadline_body = found  # type: ignore[union-attr]
    return found


def _text(node: ast.stmt, source: Module) -> bytes:
    return b"\n".join(source.lines[node.lineno - 1 : node.end_lineno])


def _walk_own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes that a function holds; `ast.walk` would take twice the time, and go too far."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        kind = node.__class__
        if kind in _APART or kind in _LEAVES:
            continue
        yield node
        for name in node._fields:
            part = getattr(node, name, None)
            if part.__class__ is list:
                stack += [one for one in part if isinstance(one, ast.AST)]
            elif isinstance(part, ast.expr):
                stack.append(part)
