"""Which conditions lead to a line, and what a match there is, for every construct."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tools.guards import branch_test, guards_of
from tools.scopes import symbol_of, use_at
from tools.statements import UNKNOWN, find_symbol, first_line, symbols
from tools.syntax import parse


def conditions(source: str, needle: str = "HERE") -> list[str]:
    """Return the conditions of the first place where the needle stands."""
    data = textwrap.dedent(source).encode()
    module = parse(data)
    line = next(n for n, text in enumerate(module.lines, 1) if needle.encode() in text)
    start = module.lines[line - 1].index(needle.encode())
    way, _ = use_at(module, line, start, start + len(needle))
    return [guard.text for guard in guards_of(module, way)]


def use(source: str, needle: str, line: int = 1) -> tuple[str, object, str | None]:
    module = parse(textwrap.dedent(source).encode())
    start = module.lines[line - 1].index(needle.encode())
    way, found = use_at(module, line, start, start + len(needle))
    return found.kind, found.value, symbol_of(way)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("HERE = 1", []),
        ("if a:\n    HERE = 1", ["a"]),
        ("if a:\n    pass\nelse:\n    HERE = 1", ["not a"]),
        ("if a:\n    pass\nelif b:\n    HERE = 1", ["not a", "b"]),
        ("if a == 1:\n    pass\nelif b:\n    pass\nelse:\n    HERE = 1", ["a != 1", "not b"]),
        ("if not a:\n    return\nHERE = 1", ["a"]),
        ("if a is None:\n    raise ValueError\nHERE = 1", ["a is not None"]),
        ("if a:\n    x = 1\nelse:\n    return\nHERE = 1", ["a"]),
        ("if a:\n    if b:\n        return\nHERE = 1", ["not a or not b"]),
        ("if a:\n    return\nelif b:\n    return\nHERE = 1", ["not a and (not b)"]),
        ("if a:\n    return\nelse:\n    if b:\n        return\nHERE = 1", ["not a and (not b)"]),
        ("if a:\n    x = 1\nelif b:\n    return\nHERE = 1", ["a or not b"]),
        ("if a:\n    if b:\n        return\nelse:\n    if c:\n        return\nHERE = 1",
         ["a and (not b) or (not a and (not c))"]),
        ("if a:\n    x = 1\nHERE = 1", []),
        ("return\nHERE = 1", ["False"]),
        ("assert a, 'why'\nHERE = 1", ["a"]),
        ("if a:\n    sys.exit(1)\nHERE = 1", ["not a"]),
        ("if a:\n    exit_later(1)\nHERE = 1", []),
        ("x = HERE if a else b", ["a"]),
        ("x = b if a else HERE", ["not a"]),
        ("x = a and HERE", ["a"]),
        ("x = a and b and HERE", ["a and b"]),
        ("x = a or HERE", ["not a"]),
        ("x = HERE and a", []),
        ("if a and HERE:\n    pass", ["a"]),
        ("while a:\n    HERE = 1", ["a"]),
        ("while True:\n    HERE = 1", []),
        ("while True:\n    x = 1\nHERE = 1", ["False"]),
        ("while True:\n    break\nHERE = 1", []),
        ("for i in a:\n    if b:\n        continue\n    HERE = 1",
         ["<the loop at line 2 has an item>", "not b"]),
        ("for i in a:\n    if b:\n        break\n    HERE = 1",
         ["<the loop at line 2 has an item>", "not b"]),
        ("for i in a:\n    if b:\n        break\nHERE = 1", []),
        ("for i in a:\n    if b:\n        return\nHERE = 1",
         ["<the loop at line 2 ends without leaving the function>"]),
        ("for i in a:\n    pass\nelse:\n    HERE = 1", ["<the loop at line 2 ends without break>"]),
        ("with a:\n    if b:\n        return\n    HERE = 1", ["not b"]),
        ("with a:\n    if b:\n        return\nHERE = 1", ["not b"]),
        ("with a:\n    if b:\n        raise E\nHERE = 1", ["<the with at line 2 ends>"]),
        ("try:\n    HERE = 1\nexcept E:\n    pass", []),
        ("try:\n    x = 1\nexcept E:\n    HERE = 1", ["<E is raised before line 4>"]),
        ("try:\n    x = 1\nexcept E:\n    pass\nelse:\n    HERE = 1", ["<the try at line 2 raises nothing>"]),
        ("try:\n    return\nfinally:\n    HERE = 1", []),
        ("try:\n    x = 1\nexcept E:\n    return\nHERE = 1", ["<the try at line 2 ends without leaving>"]),
        ("try:\n    if a:\n        return\nfinally:\n    x = 1\nHERE = 1", ["not a"]),
        ("match a:\n    case 'x':\n        HERE = 1", ["a == 'x'"]),
        ("match a:\n    case 'x' | 'y':\n        HERE = 1", ["a == 'x' or a == 'y'"]),
        ("match a:\n    case None:\n        pass\n    case _:\n        HERE = 1", ["a is not None"]),
        ("match a:\n    case [b, c]:\n        HERE = 1", ["<the case at line 3 matches>"]),
        ("match a:\n    case 1 if b:\n        HERE = 1", ["a == 1 and b"]),
        ("x = [HERE for i in a if b]", ["b", "<what is iterated at line 2 has an item>"]),
        ("x = lambda: HERE", ["<the lambda at line 2 is called>"]),
        ("if a:\n    return\ndef inner():\n    if b:\n        HERE = 1", ["not a", "b"]),
        ("def inner():\n    return\nHERE = 1", []),
    ],
)  # fmt: skip
def test_the_conditions_of_a_line(body: str, expected: list[str]) -> None:
    assert conditions("def f():\n" + textwrap.indent(body, "    ")) == expected


@pytest.mark.parametrize("holds", [True, False])
def test_conditions_agree_with_what_python_does(holds: bool) -> None:
    """Run the shapes above with random names: whenever the line is reached, its conditions are true."""
    shapes = [
        "if a:\n    return\nelif b:\n    if c:\n        return\nHERE()",
        "if a:\n    if b:\n        return\n    x = 1\nelse:\n    if c:\n        return\nHERE()",
        "for i in (1, 2):\n    if a:\n        break\n    if b:\n        continue\n    c and HERE()",
        "try:\n    if a:\n        return\nfinally:\n    b\nif b or c:\n    HERE()",
        "x = a and (b or c) and HERE()",
        "match (a, b):\n    case (True, _):\n        return\nif not c:\n    HERE()",
    ]
    for shape in shapes:
        source = "def f(a, b, c, HERE):\n" + textwrap.indent(shape, "    ")
        everything = conditions(source, "HERE()")
        found = [text for text in everything if "<" not in text]
        namespace: dict[str, object] = {}
        exec(compile(source, "shape", "exec"), namespace)
        for bits in range(8):
            a, b, c = bool(bits & 1), bool(bits & 2), bool(bits & 4)
            reached: list[int] = []
            namespace["f"](a, b, c, lambda seen=reached: seen.append(1))  # type: ignore[operator]
            true = all(eval(text, {"a": a, "b": b, "c": c}) for text in found)
            if holds:
                assert true or not reached, (shape, a, b, c)
            elif "<" not in "".join(everything):
                assert reached or not true, (shape, a, b, c)


@pytest.mark.parametrize(
    ("source", "needle", "kind", "value"),
    [
        ("def f(self): self.x = True", "x", "write", True),
        ("def f(self): self.x = g()", "x", "write", UNKNOWN),
        ("def f(self): self.x += 1", "x", "write", UNKNOWN),
        ("def f(self): self.a, self.x = 1, 2", "x", "write", UNKNOWN),
        ("def f(self): self.x.y = 1", ".x", "read", UNKNOWN),
        ("def f(self): self.a.x = ('b', 1)", "a.x", "write", ("b", 1)),
        ("def f(self): self.a.x = None", "self.a.x = ", "write", None),
        ("def f(self): return self.x", "x", "read", UNKNOWN),
        ("def f(x=1): pass", "x", "definition", UNKNOWN),
        ("def xyz(): pass", "xyz", "definition", UNKNOWN),
        ("class C:\n    x: bool = False", "x", "definition", False),
        ("x = 3", "x", "definition", 3),
        ("def f(p): p.add_argument('--x', default=1)", "--x", "definition", UNKNOWN),
        ("def f(s): setattr(s, 'xx', 5)", "xx", "write", 5),
        ("def f(s): getattr(s, 'xx')", "xx", "read", UNKNOWN),
        ("def f(): g(x=1)", "x", "read", UNKNOWN),
        ("def f(): log('xx is off')", "xx", "mention", UNKNOWN),
        ("def f(): log(f'{xx} is off')", "xx", "mention", UNKNOWN),
        ("def f(): y = 1  # xx is off", "xx", "mention", UNKNOWN),
        ("def f(): log('#'); xx = 1", "xx", "write", 1),
        ("def f(): del self.xx", "xx", "write", UNKNOWN),
        ("def f():\n    for self.xx in y: pass", "xx", "write", UNKNOWN),
    ],
)
def test_how_a_name_is_used(source: str, needle: str, kind: str, value: object) -> None:
    line = next(n for n, text in enumerate(source.split("\n"), 1) if needle in text)
    found = use(source, needle, line)
    assert found[0] == kind
    assert found[1] == value and type(found[1]) is type(value)


def test_comments_and_docstrings_are_not_code() -> None:
    module = parse(b'def f():\n    """xx is here."""\n    g()  # xx\n')
    for line in (2, 3):
        start = module.lines[line - 1].index(b"xx")
        assert not use_at(module, line, start, start + 2)[1].in_code


def test_columns_are_bytes() -> None:
    assert use("def f(self): self.ä = 'é'; self.x = True", "self.x")[:2] == ("write", True)


def test_symbols_are_named_and_found() -> None:
    source = """
    LIMIT = 3
    class A:
        x: int = 1
        @property
        def p(self):
            def inner():
                return HERE
    if LIMIT:
        def late(): pass
    """
    module = parse(textwrap.dedent(source).encode())
    assert use(source, "HERE", 8)[2] == "A.p.inner"
    assert symbols(module) == ["A", "A.p", "late"]
    found = find_symbol(module, "A.p")
    assert found is not None
    assert (first_line(found), found.end_lineno) == (5, 8)
    for name, line in (("LIMIT", 2), ("A.x", 4), ("late", 10)):
        other = find_symbol(module, name)
        assert other is not None
        assert other.lineno == line
    assert find_symbol(module, "A.nothing") is None
    assert find_symbol(module, "A.x.y") is None


def test_the_test_that_a_match_stands_in_is_known() -> None:
    module = parse(b"def f():\n    if a and HERE:\n        return\n    g(HERE)\n")
    way, _ = use_at(module, 2, 13, 17)
    branch = branch_test(way)
    assert branch is not None
    assert isinstance(branch.body[0], ast.Return)
    assert branch_test(use_at(module, 4, 6, 10)[0]) is None


@pytest.mark.parametrize(
    "data", [b"def f(:\n", b"x = '\0'", b"(" * 5000, b"\xff\xfe", b"x = " + b"-" * 200_000 + b"1"]
)
def test_what_cannot_be_parsed_is_a_syntax_error(data: bytes) -> None:
    with pytest.raises(SyntaxError):
        parse(data)


def test_the_whole_file_can_be_asked_anywhere() -> None:
    data = parse(b"").data
    module = parse(b"import os\n\nclass A:\n    pass\n")
    assert data == b""
    for line, text in enumerate(module.lines, 1):
        for column in range(len(text) + 1):
            way, _ = use_at(module, line, column, column + 1)
            assert guards_of(module, way) == []
