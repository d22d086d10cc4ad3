"""Definitions of settings: the layouts that engines have had, in small, and each rule that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.settings_small import laid_out
from tools.settings.define import Definitions, definitions
from tools.settings.define_options import OptionReader

SGLANG = """
import argparse
import dataclasses
import sys
from typing import List, Optional
from sglang.srt.choices import BACKENDS, Parser, GROWN

LIMIT = 1 << 10

@dataclasses.dataclass
class ServerArgs:
    # Model
    model_path: str
    backend: Optional[str] = None
    tp_size: int = 1
    max_queued: int = sys.maxsize
    limit: int = LIMIT * 2
    names: List[str] = dataclasses.field(default_factory=list)
    grown: str = "a"
    enable_x: bool = True
    old: Optional[bool] = None
    hip: bool = is_hip()

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--model-path", "--model", type=str, required=True, help="Where it lies.")
        parser.add_argument("--backend", type=str, choices=BACKENDS + ["auto"], default=ServerArgs.backend)
        parser.add_argument("--tensor-parallel-size", "--tp", type=int, default=ServerArgs.tp_size)
        group = parser.add_argument_group("more")
        group.add_argument("--grown", choices=GROWN)
        group.add_argument("--parser", choices=list(Parser.TABLE.keys()))
        parser.add_argument("--disable-x", dest="enable_x", action="store_false")
        parser.add_argument("--enable-x", action=argparse.BooleanOptionalAction, default=ServerArgs.enable_x)
        parser.add_argument("--old", action=DeprecatedAction, help="Use --new instead.")
        for name, kind in [("--low", int), ("--high", float)]:
            parser.add_argument(name, type=kind, default=0)
        add_more(parser)

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace):
        args.tp_size = args.tensor_parallel_size
        return cls(**{a.name: getattr(args, a.name) for a in dataclasses.fields(cls)})


def add_more(parser):
    parser.add_argument("--config", help="A file.")


class DeprecatedAction(argparse.Action):
    def __init__(self, option_strings, dest, nargs=0, default=False, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, default=default, **kwargs)
"""
CHOICES = """
import enum
BACKENDS = ["fa3", "triton"]
GROWN = ["a"]
GROWN.append("b")
class Parser:
    TABLE = {"qwen": object(), "kimi": object()}
"""
ENVIRON = """
class Envs:
    # Limits of the scheduler
    SGLANG_RETRACT = EnvBool(False)
    # How long a request may wait for a slot before it is refused.
    SGLANG_WAIT_S = EnvFloat(2.5)
    SGLANG_DIR = EnvStr(os.path.expanduser("~/.cache"))
    SGLANG_NEW = EnvIntWithAlias(3, deprecated_name="SGLANG_OLDER")

def _print_deprecated_env(old_name, new_name=None):
    pass

_print_deprecated_env("SGL_RETRACT", "SGLANG_RETRACT")
"""
READER = """
import os
a = get_bool_env_var("SGLANG_FLAG", "true")
b = int(os.environ.get("SGLANG_STEPS", "4"))
c = os.getenv(
    "SGLANG_NAME",
    "a,(b",
)
d = os.environ["SGLANG_NEEDED"]
os.environ["SGLANG_WRITTEN"] = "1"
# os.environ.get("SGLANG_IN_A_COMMENT")
if "SGLANG_THERE" in os.environ:
    pass
monkeypatch.setenv("SGLANG_SET", "1")
"""


@pytest.fixture
def sglang(tmp_path: Path) -> Definitions:
    files = {
        "sglang/srt/server_args.py": SGLANG,
        "sglang/srt/choices.py": CHOICES,
        "sglang/srt/environ.py": ENVIRON,
        "sglang/srt/a.py": READER,
        "sglang/srt/b.py": "import os\nx = os.environ.get('SGLANG_STEPS', '5')\n",
    }
    return definitions(laid_out(tmp_path, files))


def test_a_field_is_joined_with_the_option_that_sets_it(sglang: Definitions) -> None:
    model = sglang["model_path"]
    assert model.flags == ("--model-path", "--model") and model.help == "Where it lies."
    assert (model.default_known, model.default_text, model.type) == (False, "required", "str")
    assert model.cite.path == "srt/server_args.py" and model.owner == "ServerArgs"
    assert SGLANG.splitlines()[model.cite.line - 1].strip() == "model_path: str"
    assert sglang["tp_size"].flags == ("--tensor-parallel-size", "--tp")
    assert "tensor_parallel_size" not in sglang


def test_defaults_are_worked_out_where_the_source_alone_decides(sglang: Definitions) -> None:
    assert sglang["limit"].default == 2048 and sglang["limit"].default_text == "LIMIT * 2"
    assert sglang["max_queued"].default == 2**63 - 1
    assert sglang["names"].default == [] and sglang["names"].default_known
    assert (sglang["hip"].default_known, sglang["hip"].default_text) == (False, "is_hip()")
    assert sglang["old"].default is False, "the parser's default goes before the field's"


def test_choices_are_those_of_the_tables_that_never_change(sglang: Definitions) -> None:
    assert sglang["backend"].choices == ("fa3", "triton", "auto")
    assert sglang["parser"].choices == ("qwen", "kimi")
    assert sglang["grown"].choices is None


def test_options_that_switch_off_and_deprecated_ones_are_told_apart(sglang: Definitions) -> None:
    assert sglang["enable_x"].flags == ("--enable-x",)
    assert sglang["enable_x"].negative_flags == ("--disable-x", "--no-enable-x")
    old = sglang["old"]
    assert (old.flags, old.deprecated_flags, old.deprecated) == ((), ("--old",), "Use --new instead.")


def test_options_of_loops_and_helpers_are_found(sglang: Definitions) -> None:
    assert sglang["low"].type == "int" and sglang["high"].type == "float"
    assert sglang["config"].flags == ("--config",) and sglang["config"].owner == "add_more"


def test_variables_are_found_where_they_are_declared_and_where_they_are_read(sglang: Definitions) -> None:
    assert sglang["SGLANG_RETRACT"].default is False and sglang["SGLANG_RETRACT"].help == ""
    assert sglang["SGLANG_RETRACT"].deprecated_flags == ("SGL_RETRACT",)
    assert sglang["SGL_RETRACT"].deprecated == "use SGLANG_RETRACT"
    assert sglang["SGLANG_WAIT_S"].help == "How long a request may wait for a slot before it is refused."
    assert (sglang["SGLANG_WAIT_S"].type, sglang["SGLANG_WAIT_S"].default) == ("float", 2.5)
    assert not sglang["SGLANG_DIR"].default_known
    assert sglang["SGLANG_NEW"].default == 3 and sglang["SGLANG_OLDER"].deprecated == "use SGLANG_NEW"
    assert (sglang["SGLANG_FLAG"].default, sglang["SGLANG_FLAG"].type) == (True, "bool")
    assert sglang["SGLANG_NAME"].default == "a,(b"
    assert (sglang["SGLANG_NAME"].cite.path, sglang["SGLANG_NAME"].cite.line) == ("srt/a.py", 5)
    assert sglang["SGLANG_NEEDED"].default_text == "required"
    assert sglang["SGLANG_THERE"].kind == "environment"


def test_readers_that_disagree_leave_a_default_open(sglang: Definitions) -> None:
    steps = sglang["SGLANG_STEPS"]
    assert (steps.default_known, steps.default_text) == (False, "'4' or '5'")


def test_one_variable_is_looked_for_alone_and_all_of_them_with_the_rest(sglang: Definitions) -> None:
    one = sglang["SGLANG_STEPS"]
    names = set(sglang)
    assert sglang["SGLANG_STEPS"] == one
    assert {"SGLANG_FLAG", "SGLANG_NAME", "SGLANG_NEEDED", "model_path", "SGLANG_RETRACT"} <= names
    assert not names & {"SGLANG_WRITTEN", "SGLANG_IN_A_COMMENT", "SGLANG_SET"}
    for absent in ("SGLANG_WRITTEN", "SGLANG_NOWHERE", "no_setting"):
        assert absent not in sglang


ANNOTATED = """
from sglang.srt.arg_groups.arg_utils import A, Arg, NS, add_cli_args_from_dataclass

class Model(msgspec.Struct):
    _NS_PATH = "model"
    model_path: A[str, Arg(help="Where it lies.", aliases=["--model"])]
    tp_size: A[int, Arg(help="Ranks.", cli_name="--tensor-parallel-size", aliases=["--tp"])] = 1
    mode: A[Optional[Literal["a", "b"]], "The mode."] = None
    fast: A[bool, "Be fast."] = False
    slow: A[Optional[bool], Arg(help="Be slow.", action=argparse.BooleanOptionalAction)] = None
    hidden: A[int, Arg(no_cli=True)] = 4
    plain: int = 5
    rank = Derived("No field.")
"""
COLLECTED = """
from sglang.srt.arg_groups.fields import collect_input_fields
from sglang.srt.arg_groups.fields.model import Model
from sglang.srt.arg_groups.arg_utils import add_cli_args_from_dataclass

class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--plain", default=_declared_default("plain"), help="Made by hand.")

_NAMESPACES = [Model]
_annotations, _defaults, _spaces = collect_input_fields(_NAMESPACES)
ServerArgs = msgspec.defstruct("ServerArgs", [])
"""


def test_annotated_fields_carry_their_options(tmp_path: Path) -> None:
    files = {
        "sglang/srt/server_args.py": COLLECTED,
        "sglang/srt/arg_groups/fields/__init__.py": "def collect_input_fields(sources): ...\n",
        "sglang/srt/arg_groups/fields/model.py": ANNOTATED,
    }
    found = definitions(laid_out(tmp_path, files)).fields()
    assert set(found) == {"model_path", "tp_size", "mode", "fast", "slow", "hidden", "plain"}
    assert found["model_path"].flags == ("--model-path", "--model")
    assert found["model_path"].default_text == "required"
    assert (found["tp_size"].flags, found["tp_size"].type) == (("--tensor-parallel-size", "--tp"), "int")
    assert (found["mode"].choices, found["mode"].help) == (("a", "b"), "The mode.")
    assert found["slow"].negative_flags == ("--no-slow",) and found["slow"].default is None
    assert (found["hidden"].flags, found["hidden"].default) == ((), 4)
    assert (found["plain"].help, found["plain"].default, found["plain"].owner) == (
        "Made by hand.",
        5,
        "Model",
    )


def test_syntax_newer_than_ours_does_not_hide_the_definitions(tmp_path: Path) -> None:
    newer = SGLANG.replace("def add_more(parser):", "def add_more[T](parser: T):")
    newer = newer.replace("class DeprecatedAction", "type Name = str\n\nclass DeprecatedAction")
    with pytest.raises(SyntaxError):
        compile(newer, "server_args.py", "exec")
    found = definitions(laid_out(tmp_path, {"sglang/srt/server_args.py": newer})).fields()
    assert found["tp_size"].default == 1 and found["config"].flags == ("--config",)


def test_a_package_that_defines_nothing_gives_nothing(tmp_path: Path) -> None:
    for text in ("", "x = (", "class ServerArgs: pass\n", "class ServerArgs(ServerArgs):\n    a: int = 1\n"):
        found = definitions(laid_out(tmp_path, {"sglang/srt/server_args.py": text}))
        assert set(found.fields()) <= {"a"}


def test_endless_parsers_end_at_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
class ServerArgs:
    a: int = 1
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--a", type=int)
        for x in ["1"] * 3:
            again(parser)

def again(parser):
    for x in ["1", "2", "3"]:
        again(parser)
"""
    seen: list[bool] = []
    read = OptionReader.read

    def reading(self: OptionReader, *given: object) -> None:
        read(self, *given)  # type: ignore[arg-type]
        seen.append(self.partial)

    monkeypatch.setattr(OptionReader, "read", reading)
    found = definitions(laid_out(tmp_path, {"sglang/srt/server_args.py": text}))
    assert found["a"].flags == ("--a",) and seen == [True]
