"""Functions are left out of a syntax tree by their text, and the tree is the same once they are read."""

from __future__ import annotations

import ast
import re
import sysconfig
from pathlib import Path

import pytest

from tools.outline import outlined
from tools.scopes import symbol_of
from tools.syntax import Module, parse, parse_outline, steps_to

LIBRARY = Path(sysconfig.get_path("stdlib"))
SOURCE = b'''import os

if os.name == "nt":
    raise ImportError


class Runner(Base):
    limit = 3

    @property
    @cached(
        1,
    )
    def first(
        self,
        x=")",
    ) -> int:
        """Say what follows.

def second(): a line of this text
class Third:
"""
        text = \'\'\'
  lower "than" the function\'\'\'
        # a comment
# and one at the margin
        return text + f(
        1,
)

    async def second(self):
        if self.flag:
            return
        x = 1 + \\
2
        def inner():
            return 3
        self.flag = x

    if os.name == "posix":

        def third(self):
            """It's one \\""" and more."""
            self.a = 1
            self.b = "#"
            self.c = '\\''
            return 4


def last():
    a = 1
    b = 2
    c = 3
    return a
'''


def whole(module: Module) -> str:
    """Return the tree with every position."""
    return ast.dump(module.tree, include_attributes=True)


def read_each(module: Module) -> None:
    for piece in list(module.unread):
        module.read(piece.last)


def test_a_tree_is_the_same_once_its_functions_are_read() -> None:
    module = parse_outline(SOURCE)
    assert [(piece.name, piece.indent) for piece in module.unread] == [
        (b"first", 4),
        (b"second", 4),
        (b"third", 8),
        (b"last", 0),
    ]
    read_each(module)
    assert not module.unread
    assert whole(module) == whole(parse(SOURCE))


@pytest.mark.parametrize("heads", [False, True])
@pytest.mark.parametrize(
    "name", ["argparse", "ast", "inspect", "textwrap", "tokenize", "doctest", "asyncio/tasks"]
)
def test_real_files_come_out_the_same(name: str, heads: bool) -> None:
    data = (LIBRARY / f"{name}.py").read_bytes()
    module = parse_outline(data, heads=heads)
    assert module.unread
    read_each(module)
    assert whole(module) == whole(parse(data))


def test_parameters_are_there_where_a_default_is_no_literal() -> None:
    data = SOURCE.replace(b'x=")",', b'x=os.sep + ")",')
    module = parse_outline(data, heads=True)
    runner = next(s for s in module.tree.body if isinstance(s, ast.ClassDef))
    stub, other = (s for s in runner.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef))
    assert [ast.unparse(d) for d in stub.args.defaults] == ["os.sep + ')'"]
    assert (module.is_bare(stub), module.is_bare(other)) == (False, True)
    assert len(stub.body) == 1 and not other.args.args
    whole_one = module.whole(stub)
    assert isinstance(whole_one, ast.FunctionDef) and len(whole_one.body) == 3
    assert module.whole(stub) is whole_one and module.whole(whole_one) is whole_one
    read_each(module)
    assert whole(module) == whole(parse(data)) and not module.is_bare(other)


def test_a_way_reads_the_function_it_leads_into_and_no_other() -> None:
    module = parse_outline(SOURCE)
    line = next(number for number, text in enumerate(module.lines, 1) if b"self.flag = x" in text)
    assert symbol_of(steps_to(module, line, 8)) == "Runner.second"
    assert [piece.name for piece in module.unread] == [b"first", b"third", b"last"]


def test_functions_of_a_class_are_read_by_a_word_in_them() -> None:
    module = parse_outline(SOURCE)
    runner = next(s for s in module.tree.body if isinstance(s, ast.ClassDef))
    module.read_where(re.compile(rb"return"), runner)
    assert [piece.name for piece in module.unread] == [b"last"]


def test_reading_all_forgets_what_was_computed() -> None:
    module = parse_outline(SOURCE)
    module.memo["x"] = 1
    module.read_all()
    assert (whole(module), module.memo, module.unread) == (whole(parse(SOURCE)), {}, [])


@pytest.mark.parametrize(
    "data",
    [
        b"class A:\n\tdef f(self):\n\t\ta = 1\n\t\tb = 1\n\t\tc = 1\n\t\treturn 1\n",
        b"x = 1\r\ndef f():\r\n    a = 1\r\n    b = 1\r\n    c = 1\r\n    return 1\r\n",
        b"# coding: latin-1\ndef f():\n    a = 1\n    b = 1\n    c = '\xe9'\n    return 1\n",
        b'x = \'a\\\n""" b\'\ndef f():\n    a = 1\n    b = 1\n    c = 1\n    return 1\n',
    ],
)
def test_text_that_does_not_tell_is_parsed_whole(data: bytes) -> None:
    assert outlined(data) is None
    assert whole(parse_outline(data)) == whole(parse(data))


def test_a_cut_that_python_refuses_is_parsed_whole() -> None:
    data = b"import os\ndef f():\n    w = 0\n    x = 1\n    v = 5\n    y = [\n2,\n    ]\n    return a\n"
    found = outlined(data)
    assert found is not None
    with pytest.raises(SyntaxError):
        ast.parse(found[0])
    assert whole(parse_outline(data)) == whole(parse(data))


def test_a_function_that_cannot_be_read_leaves_the_others() -> None:
    data = b"import os\n" + b"def f():\n    a = 1\n    b = (1\n    c = 1\n    return 1\n\n" + SOURCE
    with pytest.raises(SyntaxError):
        parse(data)
    module = parse_outline(data)
    with pytest.raises(SyntaxError, match="never closed"):
        steps_to(module, 4, 4)
    line = next(number for number, text in enumerate(module.lines, 1) if b"self.flag = x" in text)
    assert symbol_of(steps_to(module, line, 8)) == "Runner.second"


def test_short_functions_stay() -> None:
    assert outlined(b"x = 1\ndef f():\n    return 1\n") == (b"x = 1\ndef f():\n    return 1\n", [])
