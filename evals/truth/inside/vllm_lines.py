"""Give launch lines to vLLM's own argument code, up to the finished configuration."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import os
import pickle
import re
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evals.truth.inside.plain import choices_of, plain
from evals.truth.inside.pretended import Pretence

MODULES = ("vllm.engine.arg_utils", "vllm.usage.usage_lib")
_PARSERS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
_PARSER_CLASSES = ("vllm.utils.argparse_utils", "vllm.utils")
_LEAST = {
    "cutlass_scaled_mm_supports_fp8": 89,
    "cutlass_scaled_mm_supports_block_fp8": 90,
    "cutlass_group_gemm_supported": 90,
    "cutlass_scaled_mm_supports_fp4": 100,
    "mxfp4_experts_quant_supported": 100,
}
"""From which compute capability the CUDA part answers yes to these questions."""
_OPERATOR = re.compile(r"\btorch\.ops\._C\.(\w+(?:\.out\b)?)")
"""Operators of the CUDA part that passes of the compiler name while they are imported; nothing calls them."""


def prepare(pretence: Pretence, site: Path) -> None:
    """Make the source look like the CUDA build on the pretended machine, before any of it is imported."""
    torch: Any = importlib.import_module("torch")
    torch.cuda._is_compiled = lambda: True
    torch.cuda._device_count_nvml = lambda: pretence.machine.count
    for name, least in _LEAST.items():
        torch.library.define(f"_C::{name}", "(int cuda_device_capability) -> bool")
        torch.library.impl(
            f"_C::{name}", "CompositeExplicitAutograd", lambda have, least=least: have >= least
        )
    texts = (path.read_text("utf-8", "replace") for path in site.glob("vllm/compilation/**/*.py"))
    found = {name for text in texts for name in _OPERATOR.findall(text)}
    for name in sorted((found | {name.removesuffix(".out") for name in found}) - set(_LEAST)):
        torch.library.define(f"_C::{name}", "(Tensor x) -> ()")
    _pretend_triton(pretence, torch)


def _pretend_triton(pretence: Pretence, torch: Any) -> None:
    """Answer triton, whom some kernels ask for the device while they are imported."""
    triton: Any = importlib.import_module("triton")
    compiler: Any = importlib.import_module("triton.backends.compiler")

    def target() -> Any:
        major, minor = pretence.machine.capability
        return compiler.GPUTarget("cuda", major * 10 + minor, 32)

    triton.runtime.driver.set_active(
        types.SimpleNamespace(
            get_current_target=target,
            get_current_device=lambda: 0,
            get_benchmarker=lambda: None,
            get_active_torch_device=lambda: torch.device("cuda", 0),
        )
    )


def imported(pretence: Pretence) -> None:
    """Import the argument code; models are inspected in a fork, where the pretence holds."""
    sys.meta_path.insert(0, _Bindings(pretence))
    for name in MODULES:
        importlib.import_module(name)
    _first(_PARSERS, "make_arg_parser")
    registry: Any = importlib.import_module("vllm.model_executor.models.registry")
    registry._run_in_subprocess = _in_fork


class _Bindings(importlib.abc.MetaPathFinder):
    """Let the package's copy of NVML's bindings answer once it is imported: the package asks at once."""

    def __init__(self, pretence: Pretence) -> None:
        self._pretence = pretence

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the bindings where they lie, and change what they answer once they are loaded."""
        if fullname != "vllm.third_party.pynvml":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        loader: Any = spec.loader if spec is not None else None
        execute = loader.exec_module

        def load(module: types.ModuleType) -> None:
            execute(module)
            self._pretence.answer_nvml(module)

        loader.exec_module = load
        return spec


def _in_fork(function: Callable[[], Any]) -> Any:
    """Return what a function returns in a fork, in place of the fresh interpreter that vLLM starts for it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "answer"
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                place.write_bytes(pickle.dumps(function()))
                code = 0
            except BaseException as error:  # noqa: BLE001 - said to the engine as its own child would
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError("Error raised in subprocess: the model's class could not be inspected")
        return pickle.loads(place.read_bytes())  # what our own fork wrote


def _first(modules: Sequence[str], name: str) -> Any:
    """Return a name from the first of the modules that has it: it moved between releases."""
    said = []
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            said.append(f"{module}: {error}")
    raise ImportError(f"nothing has {name}; {'; '.join(said)}")


def _parser() -> Any:
    kind = _first(_PARSER_CLASSES, "FlexibleArgumentParser")
    return _first(_PARSERS, "make_arg_parser")(kind(prog="vllm serve"))


def options() -> dict[str, list[str] | None]:
    """Return the option strings of this version, each with its choices where it has some."""
    return choices_of(_parser())


class Line:
    """Follow one launch line; ``stage`` says how far it came."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.stage = "parse"
        self.record: dict[str, Any] = {}

    def follow(self, argv: list[str]) -> None:
        """Parse and build the configuration; what the argument code raises goes through."""
        arguments: Any = importlib.import_module("vllm.engine.arg_utils")
        usage: Any = importlib.import_module("vllm.usage.usage_lib")
        held = arguments.AsyncEngineArgs.from_cli_args(_parser().parse_args(argv))
        given = _own(held)
        self.stage = "create_engine_config"
        config = held.create_engine_config(usage_context=usage.UsageContext.OPENAI_API_SERVER)
        after = _own(held)
        self.record |= {
            "ok": True,
            "fields": _sections(config),
            "arguments": after,
            "changed": {n: [given[n], after[n]] for n in given if given[n] != after[n]},
        }


def _own(held: Any) -> dict[str, Any]:
    return {one.name: plain(getattr(held, one.name)) for one in dataclasses.fields(held)}


def _sections(config: Any) -> dict[str, Any]:
    """Return ``section.field`` of the whole configuration; what is no section stands as one value."""
    found: dict[str, Any] = {}
    for section in dataclasses.fields(config):
        value = getattr(config, section.name)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            found[section.name] = plain(value)
            continue
        for one in dataclasses.fields(value):
            if not one.name.startswith("hf_") and one.name != "speculative_config":  # both stand elsewhere
                found[f"{section.name}.{one.name}"] = plain(getattr(value, one.name, None), 2)
    return found
