"""Answer what an engine's argument code asks about its host: hardware, packages, model files, environment.

Answers come from a scenario's facts, never from the machine this runs on. Standard library only.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import posixpath
import random
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from evals.lab.engine_facts import Hardware
from evals.lab.engine_modules import (
    kernel_modules,
    packaging_modules,
    torch_modules,
    transformers_modules,
)
from evals.lab.stand_ins import FactModule

MODULE_OF = {
    "cutlass": "nvidia-cutlass-dsl",
    "cuda": "cuda-python",
    "deep_gemm": "sglang-kernel",
    "flashinfer": "flashinfer-python",
    "huggingface_hub": "transformers",
    "PIL": "pillow",
    "pynvml": "nvidia-ml-py",
    "quack": "quack-kernels",
    "regex": "transformers",
    "safetensors": "transformers",
    "sgl_kernel": "sglang-kernel",
    "starlette": "fastapi",
    "sympy": "torch",
    "tokenizers": "transformers",
    "triton": "torch",
    "triton_kernels": "sglang-kernel",
    "tvm_ffi": "apache-tvm-ffi",
    "typing_extensions": "torch",
    "yaml": "transformers",
    "zmq": "pyzmq",
}
"""Module -> the distribution that brings it, where the names differ; a dependency counts as its parent."""


class HostAnswers:
    """Hold the answers for one launch: facts, given modules, and what the code logged and set meanwhile."""

    def __init__(
        self,
        package_dir: Path,
        hardware: Hardware,
        models: Mapping[str, Mapping[str, Any]],
        environ: Mapping[str, str],
        seed: int = 0,
    ) -> None:
        self.logs: list[tuple[str, str]] = []
        self.environ = dict(environ)
        self._hardware = hardware
        self._models = models
        self._requires = requirements(package_dir)
        self.modules: dict[str, ModuleType] = {
            **torch_modules(hardware, self._requires.get("torch") or "2.11.0"),
            **transformers_modules(self._config_dict, self._requires.get("transformers") or "5.0.0"),
            **packaging_modules(),
            **kernel_modules(),
            **self._importlib(),
            "os": self._os(),
            "logging": self._logging(),
            "platform": FactModule("platform", {"machine": lambda: "x86_64", "system": lambda: "Linux"}),
            "random": FactModule("random", vars(random) | {"randint": random.Random(seed).randint}),
            "uuid": FactModule("uuid", vars(uuid) | {"uuid4": _seeded_uuid(seed)}),
        }
        self.facts: dict[str, dict[str, Any]] = {
            "sglang.srt.utils.common": {
                "get_nvgpu_memory_capacity": lambda: float(hardware.memory_mib),
                "get_nvidia_driver_version_str": lambda: hardware.driver,
                "has_hf_quant_config": lambda path: False,
                "has_fp8_weights_in_checkpoint": lambda path: False,
            },
            "sglang.srt.utils.hf_transformers.mistral_utils": {"is_mistral_model": lambda path: False},
        }

    def installed(self, module: str) -> bool:
        """Tell whether a third-party module is there: what the package itself requires is, nothing else."""
        return _normal(MODULE_OF.get(module, module)) in self._requires

    def _config_dict(self, path: str) -> dict[str, Any]:
        for key in (path, posixpath.basename(path.rstrip("/")), "*"):
            if key in self._models:
                return dict(self._models[key])
        raise OSError(f"{path} is not a local folder and is not a valid model identifier listed on the hub")

    def _importlib(self) -> dict[str, ModuleType]:
        def find_spec(name: str, package: str | None = None) -> object:
            return SimpleNamespace(name=name) if self.installed(name.partition(".")[0]) else None

        def version(name: str) -> str:
            if _normal(name) not in self._requires:
                raise importlib.metadata.PackageNotFoundError(name)
            return self._requires[_normal(name)] or "99.0"

        util = FactModule("importlib.util", {"find_spec": find_spec})
        metadata = FactModule(
            "importlib.metadata",
            {
                "version": version,
                "entry_points": lambda **query: (),
                "PackageNotFoundError": importlib.metadata.PackageNotFoundError,
            },
        )
        return {
            "importlib": FactModule("importlib", {"util": util, "metadata": metadata}),
            "importlib.util": util,
            "importlib.metadata": metadata,
        }

    def _os(self) -> ModuleType:
        def answer(real: Callable[[Any], bool], kinds: str) -> Callable[[Any], bool]:
            def ask(path: Any) -> bool:
                text = os.fspath(path) if not isinstance(path, int) else ""
                for model in self._models:
                    if model != "*" and (text == model or text.startswith(f"{model}/")):
                        kind = {model: "d", f"{model}/config.json": "f"}.get(text)
                        return kind is not None and kind in kinds
                return real(path)

            return ask

        path = FactModule("os.path", vars(posixpath))
        path.exists = answer(posixpath.exists, "df")  # type: ignore[attr-defined]
        path.isdir = answer(posixpath.isdir, "d")  # type: ignore[attr-defined]
        path.isfile = answer(posixpath.isfile, "f")  # type: ignore[attr-defined]
        facts = vars(os) | {"environ": self.environ, "getenv": self.environ.get, "path": path}
        return FactModule("os", facts)

    def _logging(self) -> ModuleType:
        handler = _Collect(self.logs)

        def get_logger(name: str | None = None) -> logging.Logger:
            logger = logging.Logger(name or "root", logging.INFO)
            logger.addHandler(handler)
            return logger

        facts: dict[str, Any] = dict(vars(logging))
        facts["getLogger"] = get_logger
        facts["basicConfig"] = lambda **options: None
        return FactModule("logging", facts)


class _Collect(logging.Handler):
    def __init__(self, logs: list[tuple[str, str]]) -> None:
        super().__init__(logging.INFO)
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._logs.append((record.levelname, record.getMessage()))


def _seeded_uuid(seed: int) -> Callable[[], uuid.UUID]:
    source = random.Random(seed)
    return lambda: uuid.UUID(int=source.getrandbits(128), version=4)


def requirements(package_dir: Path) -> dict[str, str | None]:
    """Return what the package requires without extras: distribution name -> pinned version or None."""
    found: dict[str, str | None] = {}
    for metadata in sorted(package_dir.parent.glob(f"{package_dir.name}-*.dist-info/METADATA")):
        for line in metadata.read_text(encoding="utf-8", errors="replace").splitlines():
            match = re.match(r"Requires-Dist: ([\w.\-]+)(?:\[[^\]]*\])?([^;]*)(;.*)?$", line.strip())
            if match is None or "extra ==" in (match[3] or ""):
                continue
            pin = re.search(r"[=>~]=\s*([0-9][^\s,)]*)", match[2])
            found.setdefault(_normal(match[1]), pin[1] if pin else None)
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
