"""State as rules what a configuration class computes: nested lists of a closed set of words."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from evals.model_classes_read import Release

UNKNOWN: Final = ["?"]
"""The rule of what is not stated."""

_OPERATORS: Final[dict[type, str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.BitAnd: "&",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_BUILTINS: Final = frozenset(
    {
        "len",
        "int",
        "float",
        "str",
        "bool",
        "list",
        "tuple",
        "dict",
        "set",
        "range",
        "max",
        "min",
        "sum",
        "isinstance",
        "hasattr",
        "getattr",
        "setattr",
        "sorted",
        "zip",
        "enumerate",
        "any",
        "all",
        "abs",
        "round",
        "delattr",
        "reversed",
    }
)
_TYPES: Final = frozenset({"dict", "list", "tuple", "str", "int", "float", "bool", "set", "Iterable"})
_SILENT: Final = (
    "logger.",
    "logging.",
    "warnings.",
    "requires_backends",
    "rope_config_validation",
    "layer_type_validation",
    "self._validate",
    "self.validate_",
    "self._rope_scaling_validation",
    "self._check",
    "validation_fn",
    "verify_backbone_config_arguments",
    "self.rope_scaling_validation",
    "strtobool",
)
_PURE: Final = frozenset(
    {
        "math.ceil",
        "math.floor",
        "math.sqrt",
        "math.log2",
        "math.prod",
        "copy.deepcopy",
        "copy.copy",
        "deepcopy",
    }
)


@dataclass
class Scope:
    """Hold the constants of one file."""

    release: Release
    constants: dict[str, ast.expr] = field(default_factory=dict)


def plain(node: ast.expr) -> Any:
    """Return the value of a literal, tuples as rules; `UNKNOWN` for anything else."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return UNKNOWN
    return stated(value)


def stated(value: Any) -> Any:
    """Return a plain value as a rule."""
    if isinstance(value, dict):
        return ["dict", *([stated(k), stated(v)] for k, v in value.items())]
    for kind in (list, tuple, set):
        if isinstance(value, kind):
            items = sorted(value, key=repr) if kind is set else value
            return [kind.__name__, *map(stated, items)]
    if value is Ellipsis or isinstance(value, (bytes, complex)):
        return UNKNOWN
    return (
        ["float", str(value)]
        if isinstance(value, float) and value in (float("inf"), float("-inf"))
        else value
    )


class Rules:
    """Make rules of the bodies of one release's functions."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.called: set[str] = set()
        self._scope = Scope(release)
        self._names: set[str] = set()

    def constant(self, node: ast.expr, scope: Scope) -> Any:
        """Return the rule of a value at class level."""
        self._scope, self._names = scope, set()
        return self.value(node)

    def function(self, node: ast.FunctionDef, scope: Scope) -> dict[str, Any]:
        """Return the parameters of a function with their defaults, and what it does."""
        args = node.args
        self._scope, self._names = scope, set()
        ordered = args.posonlyargs + args.args
        defaults = [None] * (len(ordered) - len(args.defaults)) + list(args.defaults)
        pairs = [*zip(ordered, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
        parameters = [[a.arg, *([] if d is None else [self.value(d)])] for a, d in pairs]
        self._names = {a.arg for a, _ in pairs} | {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        made: dict[str, Any] = {"takes": parameters, "does": self.block(node.body)}
        if args.kwarg is not None:
            self._names.add(args.kwarg.arg)
            made["rest"] = args.kwarg.arg
            made["does"] = self.block(node.body)
        if any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list):
            made["static"] = True
        if args.vararg is not None or any("classmethod" in ast.unparse(d) for d in node.decorator_list):
            made["does"] = [["vague"]]
        return made

    # --- statements -------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> list[Any]:
        """Return the rules of statements."""
        return [rule for node in body for rule in self._statement(node)]

    def _statement(self, node: ast.stmt) -> list[Any]:
        if isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom, ast.Assert)):
            return []
        if isinstance(node, ast.Expr):
            text = ast.unparse(node.value)
            if isinstance(node.value, ast.Constant) or text.startswith(_SILENT):
                return []
            return [["do", self.value(node.value)]]
        if isinstance(node, ast.Assign):
            value = self.value(node.value)
            return [["=", self.target(t), value] for t in node.targets]
        if isinstance(node, ast.AnnAssign):
            return [] if node.value is None else [["=", self.target(node.target), self.value(node.value)]]
        if isinstance(node, ast.AugAssign):
            there = self.target(node.target)
            return [["=", there, [_OPERATORS.get(type(node.op), "?"), there, self.value(node.value)]]]
        return self._compound(node)

    def _compound(self, node: ast.stmt) -> list[Any]:
        if isinstance(node, ast.If):
            rule = ["if", self.value(node.test), self.block(node.body), self.block(node.orelse)]
            return [rule] if rule[2] or rule[3] or ":=" in ast.unparse(node.test) else []
        if isinstance(node, ast.For) and not node.orelse:
            body = self.block(node.body)
            return [["for", self.target(node.target), self.value(node.iter), body]] if body else []
        if isinstance(node, ast.Return):
            return [["return", None if node.value is None else self.value(node.value)]]
        if isinstance(node, ast.Raise):
            return [["raise"]]
        if isinstance(node, ast.Delete):
            return [["del", self.target(t)] for t in node.targets]
        if isinstance(node, (ast.Continue, ast.Break)):
            return [["continue" if isinstance(node, ast.Continue) else "break"]]
        if isinstance(node, ast.Try) and all(isinstance(h.body[-1], ast.Raise) for h in node.handlers):
            return self.block(node.body) + self.block(node.finalbody)
        return [["vague"]]

    def target(self, node: ast.expr) -> Any:
        """Return the rule of what is bound."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return ["tuple", *map(self.target, node.elts)]
        return ["v", node.id] if isinstance(node, ast.Name) else self.value(node)

    # --- expressions ------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """Return the rule of an expression."""
        literal = plain(node)
        if literal != UNKNOWN:
            return literal
        made = getattr(self, f"_{type(node).__name__}", None)
        return made(node) if made is not None else UNKNOWN

    def _Name(self, node: ast.Name) -> Any:
        if node.id in self._names or node.id == "self":
            return ["v", node.id]
        if node.id in self.release.configurations or node.id == "AutoConfig":
            return ["class", node.id]
        if node.id == "CONFIG_MAPPING":
            return ["mapping"]
        if node.id in _TYPES:
            return ["type", node.id]
        if node.id == "torch":
            return ["torch"]
        if node.id in self._scope.constants:
            names, self._names = self._names, set()
            try:
                return self.value(self._scope.constants[node.id])
            finally:
                self._names = names
        return UNKNOWN

    def _Attribute(self, node: ast.Attribute) -> Any:
        return [".", self.value(node.value), node.attr]

    def _Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            return ["[:]", self.value(node.value), *(None if p is None else self.value(p) for p in parts)]
        return ["[]", self.value(node.value), self.value(node.slice)]

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        return ["and" if isinstance(node.op, ast.And) else "or", *map(self.value, node.values)]

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        word = {ast.Not: "not", ast.USub: "neg"}.get(type(node.op))
        return UNKNOWN if word is None else [word, self.value(node.operand)]

    def _BinOp(self, node: ast.BinOp) -> Any:
        word = _OPERATORS.get(type(node.op))
        return UNKNOWN if word is None else [word, self.value(node.left), self.value(node.right)]

    def _Compare(self, node: ast.Compare) -> Any:
        sides = [self.value(s) for s in (node.left, *node.comparators)]
        pairs = [[_OPERATORS[type(op)], a, b] for op, a, b in zip(node.ops, sides, sides[1:], strict=False)]
        return pairs[0] if len(pairs) == 1 else ["and", *pairs]

    def _IfExp(self, node: ast.IfExp) -> Any:
        return ["if", self.value(node.test), self.value(node.body), self.value(node.orelse)]

    def _NamedExpr(self, node: ast.NamedExpr) -> Any:
        return [":=", node.target.id, self.value(node.value)]

    def _List(self, node: ast.List | ast.Tuple | ast.Set) -> Any:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return UNKNOWN
        return [type(node).__name__.lower(), *map(self.value, node.elts)]

    _Tuple = _Set = _List

    def _Dict(self, node: ast.Dict) -> Any:
        pairs = zip(node.keys, node.values, strict=True)
        return ["dict", *([*([] if k is None else [self.value(k)]), self.value(v)] for k, v in pairs)]

    def _JoinedStr(self, node: ast.JoinedStr) -> Any:
        parts = [p.value if isinstance(p, ast.FormattedValue) else p for p in node.values]
        simple = all(
            not isinstance(p, ast.FormattedValue) or (p.conversion == -1 and p.format_spec is None)
            for p in node.values
        )
        return ["text", *map(self.value, parts)] if simple else UNKNOWN

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, kind: str
    ) -> Any:
        if len(node.generators) != 1:
            return UNKNOWN
        part = node.generators[0]
        bound = {n.id for n in ast.walk(part.target) if isinstance(n, ast.Name)}
        new = bound - self._names
        source = self.value(part.iter)
        self._names |= new
        made = (
            [self.value(node.key), self.value(node.value)]
            if isinstance(node, ast.DictComp)
            else [self.value(node.elt)]
        )
        tests = [self.value(t) for t in part.ifs]
        rule = ["each", kind, self.target(part.target), source, tests, *made]
        self._names -= new
        return rule

    def _ListComp(self, node: ast.ListComp) -> Any:
        return self._comprehension(node, "list")

    def _GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return self._comprehension(node, "list")

    def _SetComp(self, node: ast.SetComp) -> Any:
        return self._comprehension(node, "set")

    def _DictComp(self, node: ast.DictComp) -> Any:
        return self._comprehension(node, "dict")

    # --- calls ------------------------------------------------------------------------------------

    def _Call(self, node: ast.Call) -> Any:
        text = ast.unparse(node.func)
        if any(isinstance(a, ast.Starred) for a in node.args):
            return ["vague"]
        args = [self.value(a) for a in node.args]
        named = [[*([] if k.arg is None else [k.arg]), self.value(k.value)] for k in node.keywords]
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, text, args, named)
        if isinstance(node.func, ast.Name):
            name = node.func.id
            if name in self._names:
                return ["make", ["v", name], args, named]
            if name in self.release.configurations:
                return ["make", ["class", name], args, named]
            if (name in _BUILTINS or text in _PURE) and not named:
                return ["call", name, *args]
            if name == "dict" and not args:
                return ["dict", *named]
            if name == "is_torch_available":
                return True
            if name in self.release.functions and name not in ("get_aligned_output_features_output_indices",):
                self.called.add(name)
                return ["function", name, args, named]
            return ["vague"] if _hands_over(node) else UNKNOWN
        return ["make", self.value(node.func), args, named]

    def _method(
        self, node: ast.Call, func: ast.Attribute, text: str, args: list[Any], named: list[Any]
    ) -> Any:
        if text in _PURE and not named:
            return ["call", text.rpartition(".")[2], *args]
        if isinstance(func.value, ast.Call) and _is_super(func.value):
            return ["super", func.attr, args, named]
        if (
            isinstance(func.value, ast.Name)
            and func.value.id == "GenerationConfig"
            and not args
            and not named
        ):
            return self._generation(func.attr)
        if text.endswith(".parameters.keys") and text.startswith("inspect.signature("):
            inspected = func.value.value.args[0]  # type: ignore[attr-defined]
            return ["parameters", self.value(inspected.value)]
        if text.endswith(".__class__"):
            return UNKNOWN
        held = self.value(func.value)
        if held == UNKNOWN:
            return ["vague"] if _hands_over(node) else UNKNOWN
        return ["do", held, func.attr, args, named]

    def _generation(self, name: str) -> Any:
        """Return the rule of what a static method of the sampling parameters' class returns."""
        found = self.release.classes.get("GenerationConfig")
        method = found.methods.get(name) if found is not None else None
        last = method.body[-1] if method is not None else None
        return self.value(last.value) if isinstance(last, ast.Return) and last.value is not None else UNKNOWN


def _is_super(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "super"


def _hands_over(node: ast.Call) -> bool:
    """Tell whether a call could change the object that is made."""
    return any(isinstance(n, ast.Name) and n.id in ("self", "kwargs", "config") for n in ast.walk(node))
