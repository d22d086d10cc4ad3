"""Answer what an engine's argument code asks about its host: hardware, installed packages, model files, environment.

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
from collections.abc import Callable, Mapping, Sequence
from functools import total_ordering
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from evals.lab.engine_facts import Hardware
from evals.lab.source_loader import FactModule, StandIn

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
"""Module -> the distribution that brings it, where the names differ (a dependency of one counts as that one)."""

DTYPES = (
    "bfloat16 bool float float16 float32 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 half int int16 int32 "
    "int64 int8 long short uint8"
).split()


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
        self._config_class = config_class(self._config_dict)
        self.modules: dict[str, ModuleType] = {
            **_torch(hardware, self._requires.get("torch") or "2.11.0"),
            **self._transformers(),
            **self._importlib(),
            "os": self._os(),
            "logging": self._logging(),
            "platform": FactModule("platform", {"machine": lambda: "x86_64", "system": lambda: "Linux"}),
            "random": FactModule("random", vars(random) | {"randint": random.Random(seed).randint}),
            "uuid": FactModule("uuid", vars(uuid) | {"uuid4": _seeded_uuid(seed)}),
            "packaging": FactModule("packaging", {"version": _packaging()}),
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

    def _transformers(self) -> dict[str, ModuleType]:
        base = self._config_class

        class Generation(base):  # type: ignore[misc,valid-type]
            """Stand for ``GenerationConfig``."""

        facts = {
            "PretrainedConfig": base,
            "PreTrainedConfig": base,
            "AutoConfig": base,
            "GenerationConfig": Generation,
            "__version__": self._requires.get("transformers") or "5.0.0",
        }
        module = _Transformers("transformers", facts, base)
        return {
            "transformers": module,
            "transformers.configuration_utils": module,
            "transformers.models.auto.modeling_auto": FactModule("auto", {"MODEL_FOR_CAUSAL_LM_MAPPING_NAMES": {}}),
        }

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

        facts = vars(logging) | {"getLogger": get_logger, "basicConfig": lambda **options: None}
        return FactModule("logging", facts)


class _Collect(logging.Handler):
    def __init__(self, logs: list[tuple[str, str]]) -> None:
        super().__init__(logging.INFO)
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._logs.append((record.levelname, record.getMessage()))


class _Transformers(FactModule):
    """Answer for transformers: every ``...Config`` is a configuration that keeps what it is given."""

    def __init__(self, name: str, facts: Mapping[str, Any], base: type) -> None:
        super().__init__(name, facts)
        self._base = base

    def __getattr__(self, name: str) -> Any:
        if name.endswith("Config") and not name.startswith("_"):
            kind = type(name, (self._base,), {})
            setattr(self, name, kind)
            return kind
        return super().__getattr__(name)


def config_class(load: Callable[[str], dict[str, Any]]) -> type:
    """Return a class that stands for ``PretrainedConfig``; ``load`` answers for a model's ``config.json``."""

    class PretrainedConfig:
        """Keep a model's configuration as attributes; nested configurations become objects too."""

        model_type = ""
        architectures: Sequence[str] | None = None

        def __init__(self, **values: Any) -> None:
            for key, value in values.items():
                nested = key.endswith("_config") and key != "quantization_config"
                own = PretrainedConfig(**value) if nested and isinstance(value, Mapping) else value
                setattr(self, "dtype" if key == "torch_dtype" else key, own)

        def __getattr__(self, name: str) -> Any:
            if name in ("rope_scaling", "rope_parameters", "dtype", "quantization_config"):
                if name == "quantization_config":
                    raise AttributeError(name)
                return None
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        @classmethod
        def from_pretrained(cls, path: Any, **options: Any) -> Any:
            return cls(**load(os.fspath(path)))

        @classmethod
        def register(cls, *args: Any, **options: Any) -> None:
            return None

        @classmethod
        def for_model(cls, model_type: str, **values: Any) -> Any:
            return cls(model_type=model_type, **values)

        @classmethod
        def from_dict(cls, values: Mapping[str, Any]) -> Any:
            return cls(**values)

        def update(self, values: Mapping[str, Any]) -> None:
            for key, value in values.items():
                setattr(self, key, value)

        def to_dict(self) -> dict[str, Any]:
            return dict(vars(self))

        def get_text_config(self, *args: Any, **options: Any) -> Any:
            return getattr(self, "text_config", self)

    return PretrainedConfig


def _torch(hardware: Hardware, version: str) -> dict[str, ModuleType]:
    class Dtype:
        """Stand for ``torch.dtype``."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __repr__(self) -> str:
            return f"torch.{self.name}"

    never = FactModule("torch.absent", {"is_available": lambda: False})
    properties = SimpleNamespace(
        name=hardware.gpu_name,
        total_memory=hardware.memory_mib << 20,
        major=hardware.capability[0],
        minor=hardware.capability[1],
        multi_processor_count=hardware.sm_count,
        is_integrated=False,
    )
    cuda = FactModule(
        "torch.cuda",
        {
            "is_available": lambda: hardware.count > 0,
            "device_count": lambda: hardware.count,
            "current_device": lambda: 0,
            "is_initialized": lambda: True,
            "get_device_capability": lambda *a, **k: tuple(hardware.capability),
            "get_device_name": lambda *a, **k: hardware.gpu_name,
            "get_device_properties": lambda *a, **k: properties,
            "mem_get_info": lambda *a, **k: (properties.total_memory, properties.total_memory),
        },
    )
    facts: dict[str, Any] = {name: Dtype(name) for name in DTYPES}
    facts |= {
        "dtype": Dtype,
        "cuda": cuda,
        "version": FactModule("torch.version", {"cuda": hardware.cuda, "hip": None, "musa": None}),
        "xpu": never,
        "cpu": FactModule("torch.cpu", {"is_available": lambda: True}),
        "backends": FactModule("torch.backends", {"mps": never}),
        "__version__": version,
        "Tensor": StandIn("torch.Tensor"),
    }
    torch = FactModule("torch", facts, frozenset({"hpu", "npu", "musa"}))
    return {"torch": torch, "torch.cuda": cuda, "torch.version": torch.version}


def _seeded_uuid(seed: int) -> Callable[[], uuid.UUID]:
    source = random.Random(seed)
    return lambda: uuid.UUID(int=source.getrandbits(128), version=4)


@total_ordering
class _Version:
    """Stand for ``packaging.version.Version``: enough to compare release numbers."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = re.match(r"v?(\d+(?:\.\d+)*)(?:\.?(post|dev|rc|a|b)\.?(\d*))?", text)
        if found is None:
            raise ValueError(f"Invalid version: {text!r}")
        self.release = tuple(int(part) for part in found[1].split("."))
        order = {"dev": -4, "a": -3, "b": -2, "rc": -1, None: 0, "post": 1}[found[2]]
        self._key = (self.release + (0,) * (6 - len(self.release)), order, int(found[3] or 0))

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Version) and self._key == other._key

    def __lt__(self, other: _Version) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _packaging() -> ModuleType:
    facts = {"parse": _Version, "Version": _Version, "InvalidVersion": ValueError}
    return FactModule("packaging.version", facts)


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
