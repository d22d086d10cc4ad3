"""Definitions of settings in the layout of vLLM: options of config fields, sections, tables of variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.settings_small import laid_out
from tools.settings.define import Definitions, definitions

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
    return definitions(laid_out(tmp_path, VLLM))


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
