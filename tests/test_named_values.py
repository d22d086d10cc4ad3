from __future__ import annotations

import pytest

from agent.arithmetic import compute
from agent.named_values import flag_on_command_line, gives, literal, same_value
from agent.quotes import StoredText
from tests.ledger_bench import CMDLINE
from tools.contract import ToolError


@pytest.mark.parametrize(("text", "quote", "name", "value", "right"), [
    ('"disable_cuda_graph": true,', '"disable_cuda_graph": true', "disable_cuda_graph", "True", True),
    ("(disable_cuda_graph=True, x=1)", "disable_cuda_graph=True", "--disable-cuda-graph", "true", True),
    ("x: int | None = None", "x: int | None = None", "x", "null", True),
    ('b: Literal["a", "b"] = "a"', 'b: Literal["a", "b"] = "a"', "b", "a", True),
    ('"a": true, "b=5": 1', '"a": true, "b=5": 1', "a", "5", False),
    ("ExecStart=x --off \\\n  --on\n", "--off", "off", "true", True),
    ("ExecStart=x --off\nRestart=always\n", "--off", "off", "true", True),
    ("--off 3\n", "--off", "off", "true", False),
    ("--off\n3\n", "--off", "off", "true", False),
    ("--off=false\n", "--off", "off", "true", False),
    ("# ExecStart=x --off\n", "--off", "off", "true", False),
    ("  # off: bool = True\n", "off: bool = True", "off", "true", False),
    ("batch. #running-req: 1, x", "#running-req: 1", "running-req", "1", True),
    ("n=8,16 m=1", "n=8", "n", "8", False),
    ("n=0.8", "n=0.8", "n", "0.80", True),
    ("n=-1", "n=-1", "n", "-1", True),
    ('s:is_graph{a="b"} 0.0\n', 's:is_graph{a="b"} 0.0', "s:is_graph", "0", True),
    ('["--pp-size", "8"]', '"--pp-size", "8"', "pp_size", "8", True),
    ("--tp 4 --x", "--tp 4", "tp_size", "4", True),
    ("my_pp_size=8", "my_pp_size=8", "pp_size", "8", False),
    ("if self.x == True", "self.x == True", "x", "True", False),
    ("x=1", "x=1", "x", "True", False),
    ("dirs [1, 2] end", "dirs [1, 2]", "dirs", "[1, 2]", True),
])  # fmt: skip
def test_named_values(text: str, quote: str, name: str, value: str, right: bool) -> None:
    place = next(StoredText(text.encode()).find(quote))
    assert (gives(place, name, value) is not None) is right


def test_null_is_none_only_where_it_can_be() -> None:
    assert literal("null") is None and literal("None", origin="source") is None
    assert literal('"null"') == "null" == literal('"null"', origin="source")
    assert literal("None", origin="command line") == "None"
    assert literal('"8"', origin="source") == "8" and literal('"8"') == 8
    assert literal("0.5") == 0.5 and literal("fa3") == "fa3" and literal("True") is True


def test_values_and_flags() -> None:
    assert same_value("true", "True") and same_value("8", "8.0") and same_value("'a'", "a")
    assert not same_value("1", "true") and not same_value("a", "b")
    line = StoredText(CMDLINE)
    assert flag_on_command_line(line, "pp_size") == "8"
    assert flag_on_command_line(line, "disable_cuda_graph") == "true"
    assert flag_on_command_line(line, "enable_mis") is None


def test_arithmetic_is_only_that() -> None:
    numbers = {"a": 6.0, "b": 3.0, "zero": 0.0}
    assert compute("min(a, b) + max(a, b) * 2 - -a / (b + 0)", numbers) == 17.0
    for bad in (
        "a / zero",
        "a ** b",
        "a if b else a",
        "a.real",
        "[a]",
        "max()",
        "a +",
        "a" * 400,
        "(" * 120 + "a",
    ):
        with pytest.raises(ToolError):
            compute(bad, numbers)
