"""Say how a value is used where it stands: tested, looped over, passed on, kept or only logged."""

from __future__ import annotations

import ast
from typing import Final, Literal

from tools.settings.effects import branch_of
from tools.syntax import Step

Use = Literal[
    "branch",
    "loop bound",
    "ternary",
    "constructor argument",
    "arithmetic",
    "test",
    "argument",
    "stored copy",
    "returned",
    "check",
    "other",
    "logged",
]
_LOGS: Final = ("logger", "logging", "print", "warnings", "log", "warn", "rank0_log", "print_warning_once")


def use_of(way: list[Step]) -> Use:
    """Say how the value at the end of a way is used."""
    passed_test = passed_sum = False
    for step in reversed(way):
        parent = step.parent
        found = _use_in(parent, step)
        if found is not None:
            return "check" if found == "branch" and _refusing(way) else found
        if isinstance(parent, ast.Compare | ast.BoolOp) or _negates(parent):
            passed_test = True
        elif isinstance(parent, ast.BinOp):
            passed_sum = True
        elif isinstance(parent, ast.stmt):
            return _use_in_statement(parent, passed_test, passed_sum)
    return "other"


def _negates(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _refusing(way: list[Step]) -> bool:
    branch = branch_of(way)
    return branch is not None and branch.refuses and len(branch.holds) + len(branch.fails) <= 2


def _use_in(parent: ast.AST, step: Step) -> Use | None:
    if isinstance(parent, ast.If | ast.While) and step.field == "test":
        return "branch"
    if isinstance(parent, ast.IfExp) and step.field == "test":
        return "ternary"
    if isinstance(parent, ast.comprehension) and step.field == "ifs":
        return "branch"
    if isinstance(parent, ast.Match) and step.field == "subject":
        return "branch"
    if isinstance(parent, ast.Assert):
        return "check" if step.field == "test" else "logged"
    if isinstance(parent, ast.For | ast.comprehension) and step.field == "iter":
        return "loop bound"
    if isinstance(parent, ast.JoinedStr | ast.FormattedValue | ast.Raise):
        return "logged"
    if isinstance(parent, ast.Call) and step.field != "func":
        return _use_in_call(parent)
    return None


def _use_in_call(call: ast.Call) -> Use | None:
    words = ast.unparse(call.func).split(".")
    if words[0] in _LOGS or words[-1] in _LOGS:
        return "logged"
    if words[-1] in ("range", "min", "max", "int", "bool", "str", "len", "abs", "float"):
        return None
    return "constructor argument" if words[-1].lstrip("_")[:1].isupper() else "argument"


def _use_in_statement(statement: ast.stmt, test: bool, arithmetic: bool) -> Use:
    if isinstance(statement, ast.AugAssign):
        return "arithmetic"
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return "test" if test else "arithmetic" if arithmetic else "stored copy"
    if isinstance(statement, ast.Return):
        return "returned"
    return "other"
