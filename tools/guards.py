"""List the conditions that must hold for a position in a Python file to be reached."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tools.syntax import Module, Step

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_PLAIN: Final = frozenset(
    {
        *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.Pass, ast.Import, ast.ImportFrom),
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal),
    }
)
"""Statements that always end normally."""
_NEVER = ast.Constant(value=False)
Formula = ast.expr | None
"""When a statement ends normally: None = always, `_NEVER` = never, else the condition."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Hold one condition that must be true, and the first and last line it comes from."""

    line: int
    condition: ast.expr
    last_line: int

    @property
    def text(self) -> str:
        """Return the condition as Python would be written, unknowable parts in angle brackets."""
        return ast.unparse(self.condition)


def guards_of(module: Module, way: list[Step]) -> list[Guard]:
    """Return the conditions on a way (see `syntax.steps_to`), outermost first."""
    guards: list[Guard] = []
    for step in way:
        guards += _entering(step)
        body = getattr(step.parent, step.field, None)
        if isinstance(step.child, ast.stmt) and isinstance(body, list):
            for index, before, condition in _leaving(module, step.parent, step.field):
                if index < step.index:
                    guards += _passing(before, condition)
    return [guard for guard in guards if not _holds_always(guard.condition)]


def _holds_always(condition: ast.expr) -> bool:
    return isinstance(condition, ast.Constant) and bool(condition.value)


def negated(test: ast.expr) -> ast.expr:
    """Return the opposite of a test, without a double ``not``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _INVERSE:
        return ast.Compare(test.left, [_INVERSE[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


def unknown(text: str) -> ast.expr:
    """Return a condition that cannot be judged, such as ``<the loop at line 7 has an item>``."""
    return ast.Name(id=f"<{text}>", ctx=ast.Load())


def branch_test(way: list[Step]) -> ast.If | None:
    """Return the ``if`` whose test holds the end of a way."""
    for step in reversed(way):
        if isinstance(step.parent, ast.If) and step.field == "test":
            return step.parent
        if isinstance(step.parent, ast.stmt):
            return None
    return None


def _guard(condition: ast.expr, node: ast.AST, end: ast.AST | None = None) -> Guard:
    first = getattr(node, "lineno", 1)
    last = getattr(end or node, "end_lineno", first) or first
    return Guard(first, condition, last)


def _entering(step: Step) -> Iterator[Guard]:
    """Yield what the parent of a step asks for before the child is run."""
    parent, field = step.parent, step.field
    if isinstance(parent, ast.If | ast.IfExp) and field in ("body", "orelse"):
        condition = parent.test if field == "body" else negated(parent.test)
        yield _guard(condition, parent, parent.test)
    elif isinstance(parent, ast.BoolOp) and step.index > 0:
        earlier = parent.values[: step.index]
        conditions = earlier if isinstance(parent.op, ast.And) else [negated(value) for value in earlier]
        yield _guard(_all(conditions), earlier[0], earlier[-1])
    elif isinstance(parent, ast.While) and field == "body":
        yield _guard(parent.test, parent, parent.test)
    elif isinstance(parent, ast.For | ast.AsyncFor) and field == "body":
        yield _guard(unknown(f"the loop at line {parent.lineno} has an item"), parent, parent.iter)
    elif isinstance(parent, _LOOPS) and field == "orelse":
        yield _guard(unknown(f"the loop at line {parent.lineno} ends without break"), parent, parent)
    else:
        yield from _entering_rarer(step)


def _entering_rarer(step: Step) -> Iterator[Guard]:
    parent, field = step.parent, step.field
    if isinstance(parent, ast.ExceptHandler) and field == "body":
        caught = ast.unparse(parent.type) if parent.type else "an exception"
        yield _guard(unknown(f"{caught} is raised before line {parent.lineno}"), parent, parent.type)
    elif isinstance(parent, ast.Try | ast.TryStar) and field == "orelse":
        yield _guard(unknown(f"the try at line {parent.lineno} raises nothing"), parent.body[0])
    elif isinstance(parent, ast.Lambda) and field == "body":
        yield _guard(unknown(f"the lambda at line {parent.lineno} is called"), parent)
    elif isinstance(parent, ast.Match) and field == "cases":
        yield _guard(_case_condition(parent, step.index), parent.cases[step.index].pattern)
    elif isinstance(parent, _COMPREHENSIONS) and field != "generators":
        for generator in parent.generators:
            for test in generator.ifs:
                yield _guard(test, test)
        yield _guard(unknown(f"what is iterated at line {parent.lineno} has an item"), parent)


def _passing(statement: ast.stmt, condition: ast.expr) -> Iterator[Guard]:
    """Yield the guard of a statement that must end normally before what follows it is reached."""
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        yield _guard(condition, statement, statement.test)
    else:
        yield Guard(statement.lineno, condition, statement.lineno)


def _all(conditions: list[ast.expr]) -> ast.expr:
    return conditions[0] if len(conditions) == 1 else ast.BoolOp(ast.And(), conditions)


def _any(conditions: list[ast.expr]) -> ast.expr:
    return conditions[0] if len(conditions) == 1 else ast.BoolOp(ast.Or(), conditions)


def _ends(module: Module, statement: ast.stmt) -> Formula:
    if type(statement) in _PLAIN:
        return None
    key = ("ends", id(statement))
    if key not in module.memo:
        module.memo[key] = _compute_end(module, statement)
    found: Formula = module.memo[key]
    return found


def _leaving(module: Module, parent: ast.AST, field: str) -> list[tuple[int, ast.stmt, ast.expr]]:
    """Return the statements of a body that do not always end normally; bodies of classes are long."""
    key = ("leaving", id(parent), field)
    if key not in module.memo:
        ends = ((index, before, _ends(module, before)) for index, before in enumerate(getattr(parent, field)))
        module.memo[key] = [(index, before, end) for index, before, end in ends if end is not None]
    found: list[tuple[int, ast.stmt, ast.expr]] = module.memo[key]
    return found


def _body_ends(module: Module, body: list[ast.stmt]) -> Formula:
    conditions: list[ast.expr] = []
    for statement in body:
        condition = _ends(module, statement)
        if condition is _NEVER:
            return _NEVER
        if condition is not None:
            conditions.append(condition)
    return _all(conditions) if conditions else None


def _compute_end(module: Module, statement: ast.stmt) -> Formula:
    if isinstance(statement, _LEAVES) or _leaves_process(statement):
        return _NEVER
    if isinstance(statement, ast.Assert):
        return statement.test
    if isinstance(statement, ast.If):
        return _if_ends(module, statement)
    if isinstance(statement, _LOOPS):
        return _loop_ends(statement)
    if isinstance(statement, ast.With | ast.AsyncWith):
        inside = _body_ends(module, statement.body)
        swallowed = inside is not None and _has(statement.body, (ast.Raise, ast.Assert))
        return unknown(f"the with at line {statement.lineno} ends") if swallowed else inside
    if isinstance(statement, ast.Try | ast.TryStar) and not statement.handlers:
        return _body_ends(module, [*statement.body, *statement.finalbody])
    maybe = isinstance(statement, ast.Try | ast.TryStar | ast.Match)
    if maybe and _has([statement], (*_LEAVES, ast.Assert)):
        word = "match" if isinstance(statement, ast.Match) else "try"
        return unknown(f"the {word} at line {statement.lineno} ends without leaving")
    return None


def _if_ends(module: Module, statement: ast.If) -> Formula:
    test = statement.test
    then, other = _body_ends(module, statement.body), _body_ends(module, statement.orelse)
    if then is None and other is None:
        return None
    if then is _NEVER and other is _NEVER:
        return _NEVER
    if then is _NEVER:
        return negated(test) if other is None else _all([negated(test), other])
    if other is _NEVER:
        return test if then is None else _all([test, then])
    if other is None and then is not None:
        return _any([negated(test), then])
    if then is None and other is not None:
        return _any([test, other])
    assert then is not None and other is not None
    return _any([_all([test, then]), _all([negated(test), other])])


def _loop_ends(loop: ast.stmt) -> Formula:
    if _has([loop], (ast.Return, ast.Raise)):
        return unknown(f"the loop at line {loop.lineno} ends without leaving the function")
    if isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and loop.test.value:
        return None if _has(loop.body, (ast.Break,)) else _NEVER
    return None


def _leaves_process(statement: ast.stmt) -> bool:
    """Tell whether a statement is a call such as ``sys.exit(1)``."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    if isinstance(called, ast.Name):
        return called.id in ("exit", "quit")
    if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
        return False
    return (called.value.id, called.attr) in (("sys", "exit"), ("os", "_exit"))


def _has(body: list[ast.stmt], kinds: tuple[type[ast.AST], ...]) -> bool:
    """Tell whether statements of these kinds stand in a body, outside of functions defined in it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, kinds) or (ast.Raise in kinds and _leaves(node)):
            return True
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt) and _leaves_process(node)


def _case_condition(match: ast.Match, index: int) -> ast.expr:
    """Return what must hold for a case: its own pattern, and none of the plain ones before it."""
    conditions: list[ast.expr] = []
    for case in match.cases[:index]:
        test = _pattern_test(match.subject, case.pattern)
        if test is not None and case.guard is None:
            conditions.append(negated(test))
    case = match.cases[index]
    own = _pattern_test(match.subject, case.pattern)
    if own is None:
        own = unknown(f"the case at line {case.pattern.lineno} matches")
    if not (isinstance(own, ast.Constant) and own.value is True and conditions):
        conditions.append(own)
    if case.guard is not None:
        conditions.append(case.guard)
    return _all(conditions)


def _pattern_test(subject: ast.expr, pattern: ast.pattern) -> ast.expr | None:
    """Return a pattern as a test of the subject; None when it is more than constants."""
    if isinstance(pattern, ast.MatchValue):
        return ast.Compare(subject, [ast.Eq()], [pattern.value])
    if isinstance(pattern, ast.MatchSingleton):
        return ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)])
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        return ast.Constant(value=True)
    if isinstance(pattern, ast.MatchOr):
        tests = [_pattern_test(subject, part) for part in pattern.patterns]
        known = [test for test in tests if test is not None]
        return _any(known) if len(known) == len(tests) else None
    return None
