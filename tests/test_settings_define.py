"""Definitions of settings: the layouts that engines have had, in small, and each rule that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.settings.define import Definitions, definitions
from tools.settings.define_options import OptionReader
from tools.settings.source import LocalTree

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


def _tree(folder: Path, files: dict[str, str]) -> LocalTree:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return LocalTree(folder)


@pytest.fixture
def sglang(tmp_path: Path) -> Definitions:
    files = {
        "sglang/srt/server_args.py": SGLANG,
        "sglang/srt/choices.py": CHOICES,
        "sglang/srt/environ.py": ENVIRON,
        "sglang/srt/a.py": READER,
        "sglang/srt/b.py": "import os\nx = os.environ.get('SGLANG_STEPS', '5')\n",
    }
    return definitions(_tree(tmp_path, files))


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
    found = definitions(_tree(tmp_path, files)).fields()
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


VLLM = {
    "vllm/config/__init__.py": """
from vllm.config.cache import CacheConfig
from vllm.config.vllm import VllmConfig
""",
    "vllm/config/cache.py": '''
from typing import Literal, get_args
from pydantic import Field
CacheDType = Literal["auto", "fp8"]

@config
class CacheConfig:
    DEFAULT_BLOCK: ClassVar[int] = 16
    block_size: int = Field(default=DEFAULT_BLOCK, gt=0)
    """Tokens of one block."""
    cache_dtype: CacheDType = "auto"
    prefix: bool | None = None
    limits: dict[str, int] = field(default_factory=dict)
    made: int = field(init=False)
    token: bool | str | None = None
    sparse: bool = False
    either: Literal["a"] | Literal["b"] = "a"
''',
    "vllm/config/vllm.py": """
from vllm.config.cache import CacheConfig
@config
class VllmConfig:
    cache_config: CacheConfig = Field(default_factory=CacheConfig)
    instance_id: str = ""
""",
    "vllm/engine/arg_utils.py": """
from vllm.config import CacheConfig
@dataclass
class EngineArgs:
    block_size: int = CacheConfig.block_size
    kv_cache_dtype: CacheDType = CacheConfig.cache_dtype
    enable_prefix_caching: bool | None = CacheConfig.prefix
    limits: dict[str, int] = get_field(CacheConfig, "limits")
    _private: int = 3

    @staticmethod
    def add_cli_args(parser):
        kwargs = get_kwargs(CacheConfig)
        group = parser.add_argument_group(title="CacheConfig", description=CacheConfig.__doc__)
        kwargs["cache_dtype"]["choices"].remove("fp8")
        group.add_argument("--block-size", **kwargs["block_size"])
        group.add_argument("--kv-cache-dtype", **kwargs["cache_dtype"])
        group.add_argument("--enable-prefix-caching", **{**kwargs["prefix"], "default": None})
        group.add_argument("--sparse", action="store_true", **kwargs["sparse"])
        group.add_argument("--limits", **kwargs["limits"], deprecated=True)
        group.add_argument("--token", **kwargs["token"])
        group.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
        return parser

@dataclass
class AsyncEngineArgs(EngineArgs):
    enable_log_requests: bool = False

    @staticmethod
    def add_cli_args(parser, async_args_only: bool = False):
        if not async_args_only:
            parser = EngineArgs.add_cli_args(parser)
        else:
            parser.add_argument("--never")
        parser.add_argument("--enable-log-requests", action=argparse.BooleanOptionalAction, default=False)
        return parser
""",
    "vllm/entrypoints/openai/cli_args.py": '''
from vllm.engine.arg_utils import AsyncEngineArgs
class Base:
    host: str | None = None
    """Host name."""

    @classmethod
    def _customize(cls, kwargs):
        kwargs["host"]["flags"] = ["-H"]
        return kwargs

    @classmethod
    def add_cli_args(cls, parser):
        kwargs = get_kwargs(cls)
        kwargs = cls._customize(kwargs)
        for key, value in kwargs.items():
            extra = value.pop("flags", [])
            parser.add_argument(*extra, f"--{key.replace('_', '-')}", **value)
        return parser

class FrontendArgs(Base):
    allowed_origins: list[str] = field(default_factory=lambda: ["*"])

    @classmethod
    def _customize(cls, kwargs):
        kwargs = super()._customize(kwargs)
        del kwargs["allowed_origins"]["nargs"]
        return kwargs

def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?", default=None)
    parser = FrontendArgs.add_cli_args(parser)
    parser = AsyncEngineArgs.add_cli_args(parser)
    return parser
''',
    "vllm/envs.py": """
import os
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    VLLM_PORT: int | None = None

environment_variables = {
    # The port of the server.
    "VLLM_PORT": lambda: int(os.getenv("VLLM_PORT", "0")),
    "VLLM_FAST": lambda: os.environ.get("VLLM_FAST", "False").lower() in ("1", "true"),
    "VLLM_MODE": env_with_choices("VLLM_MODE", None, ["a", "b"]),
    "VLLM_ROOT": lambda: os.path.expanduser(os.getenv("VLLM_ROOT", "~")),
    "VLLM_EITHER": lambda: int(os.environ["VLLM_EITHER"]) if "VLLM_EITHER" in os.environ else None,
}
""",
}


@pytest.fixture
def vllm(tmp_path: Path) -> Definitions:
    return definitions(_tree(tmp_path, VLLM))


def test_options_made_of_config_fields_take_what_the_fields_say(vllm: Definitions) -> None:
    block = vllm["block_size"]
    assert (block.flags, block.default, block.help) == (("--block-size",), 16, "Tokens of one block.")
    assert vllm["kv_cache_dtype"].choices == ("auto",)
    assert vllm["enable_prefix_caching"].negative_flags == ("--no-enable-prefix-caching",)
    assert (vllm["sparse"].flags, vllm["sparse"].negative_flags) == (("--sparse",), ())
    assert vllm["token"].negative_flags == () and vllm["token"].flags == ("--token",)
    assert (vllm["limits"].default, vllm["limits"].deprecated_flags) == ({}, ("--limits",))
    assert (vllm["_private"].flags, vllm["_private"].default) == ((), 3)


def test_the_servers_own_options_stand_beside_the_engines(vllm: Definitions) -> None:
    assert (vllm["host"].flags, vllm["host"].help) == (("--host", "-H"), "Host name.")
    assert vllm["allowed_origins"].default == ["*"]
    assert vllm["enable_log_requests"].flags == ("--enable-log-requests",)
    assert "never" not in vllm and "model_tag" in vllm
    assert vllm["tensor_parallel_size"].flags == ("--tensor-parallel-size", "-tp")


def test_sections_of_the_configuration_are_named_by_section_and_field(vllm: Definitions) -> None:
    assert vllm["cache_config.cache_dtype"].choices == ("auto", "fp8")
    assert vllm["cache_config.block_size"].owner == "CacheConfig"
    assert vllm["cache_config.made"].default_text == "field(init=False)"
    assert vllm["instance_id"].default == ""
    assert vllm["cache_config.either"].choices is None
    assert "cache_config.DEFAULT_BLOCK" not in vllm


def test_a_table_of_variables_is_evaluated_as_if_none_were_set(vllm: Definitions) -> None:
    port = vllm["VLLM_PORT"]
    assert (port.default, port.type, port.help) == (0, "int | None", "The port of the server.")
    assert vllm["VLLM_FAST"].default is False
    assert (vllm["VLLM_MODE"].default, vllm["VLLM_MODE"].choices) == (None, ("a", "b"))
    assert not vllm["VLLM_ROOT"].default_known
    assert (vllm["VLLM_EITHER"].default_known, vllm["VLLM_EITHER"].default) == (True, None)


def test_syntax_newer_than_ours_does_not_hide_the_definitions(tmp_path: Path) -> None:
    newer = SGLANG.replace("def add_more(parser):", "def add_more[T](parser: T):")
    newer = newer.replace("class DeprecatedAction", "type Name = str\n\nclass DeprecatedAction")
    with pytest.raises(SyntaxError):
        compile(newer, "server_args.py", "exec")
    found = definitions(_tree(tmp_path, {"sglang/srt/server_args.py": newer})).fields()
    assert found["tp_size"].default == 1 and found["config"].flags == ("--config",)


def test_a_package_that_defines_nothing_gives_nothing(tmp_path: Path) -> None:
    for text in ("", "x = (", "class ServerArgs: pass\n", "class ServerArgs(ServerArgs):\n    a: int = 1\n"):
        found = definitions(_tree(tmp_path, {"sglang/srt/server_args.py": text}))
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
    found = definitions(_tree(tmp_path, {"sglang/srt/server_args.py": text}))
    assert found["a"].flags == ("--a",) and seen == [True]
