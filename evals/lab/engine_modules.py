"""Stand for the third-party modules that an engine's argument code asks: torch, transformers, packaging.

Answers come from a scenario's facts. Standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import total_ordering
from types import ModuleType, SimpleNamespace
from typing import Any

from evals.lab.engine_facts import Hardware
from evals.lab.stand_ins import FactModule, StandIn

DTYPES = (
    *(
        "bfloat16",
        "bool",
        "float",
        "float16",
        "float32",
        "float64",
        "half",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
    ),
    *("float8_e5m2", "int", "int8", "int16", "int32", "int64", "long", "short", "uint8"),
)

LoadConfig = Callable[[str], dict[str, Any]]


class ConfigStandIn:
    """Stand for ``PretrainedConfig``: keep a configuration as attributes, nested ones as objects."""

    model_type = ""
    architectures: Sequence[str] | None = None
    load: LoadConfig

    def __init__(self, **values: Any) -> None:
        for key, value in values.items():
            nested = key.endswith("_config") and key != "quantization_config" and isinstance(value, Mapping)
            own = ConfigStandIn(**value) if nested else value
            setattr(self, "dtype" if key == "torch_dtype" else key, own)

    def __getattr__(self, name: str) -> Any:
        if name in ("rope_scaling", "rope_parameters", "dtype"):
            return None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def from_pretrained(cls, path: Any, **options: Any) -> Any:
        """Return the configuration of the model at ``path``."""
        return cls(**cls.load(os.fspath(path)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """Return a configuration with these values."""
        return cls(**values)

    @classmethod
    def for_model(cls, model_type: str, **values: Any) -> Any:
        """Return a configuration of this type."""
        return cls(model_type=model_type, **values)

    @classmethod
    def register(cls, *args: Any, **options: Any) -> None:
        """Take note of a configuration class: it is found by name anyway."""

    def update(self, values: Mapping[str, Any]) -> None:
        """Set these values."""
        for key, value in values.items():
            setattr(self, key, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the values."""
        return dict(vars(self))

    def get_text_config(self, *args: Any, **options: Any) -> Any:
        """Return the text model's part."""
        return getattr(self, "text_config", self)


class _Transformers(FactModule):
    """Stand for transformers: every ``...Config`` is a configuration that keeps what it is given."""

    def __init__(self, facts: Mapping[str, Any], base: type) -> None:
        super().__init__("transformers", facts)
        self._base = base

    def __getattr__(self, name: str) -> Any:
        if name.endswith("Config") and not name.startswith("_"):
            kind = type(name, (self._base,), {})
            setattr(self, name, kind)
            return kind
        return super().__getattr__(name)


def transformers_modules(load: LoadConfig, version: str) -> dict[str, ModuleType]:
    """Return transformers, whose configurations come from ``load`` (a model's path to its values)."""
    base = type("PretrainedConfig", (ConfigStandIn,), {"load": staticmethod(load)})
    facts = {
        "PretrainedConfig": base,
        "PreTrainedConfig": base,
        "AutoConfig": base,
        "GenerationConfig": type("GenerationConfig", (base,), {}),
        "__version__": version,
    }
    module = _Transformers(facts, base)
    names = FactModule("transformers.models.auto.modeling_auto", {"MODEL_FOR_CAUSAL_LM_MAPPING_NAMES": {}})
    return {
        "transformers": module,
        "transformers.configuration_utils": module,
        "transformers.models.auto.modeling_auto": names,
    }


class _Dtype:
    """Stand for ``torch.dtype``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


def torch_modules(hardware: Hardware, version: str) -> dict[str, ModuleType]:
    """Return torch with a CUDA device of this hardware."""
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
    facts: dict[str, Any] = {name: _Dtype(name) for name in DTYPES}
    facts |= {
        "dtype": _Dtype,
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


def kernel_modules() -> dict[str, ModuleType]:
    """Return the number formats that the kernels of quantised weights know; they are only compared."""
    names = ("uint4", "uint8", "uint4b8", "uint8b128", "float8_e4m3fn", "float4_e2m1f")
    types = SimpleNamespace(**{name: name for name in names})
    facts = {"scalar_types": types, "ScalarType": str}
    return {"sgl_kernel.scalar_type": FactModule("sgl_kernel.scalar_type", facts)}


def packaging_modules() -> dict[str, ModuleType]:
    """Return packaging, as far as release numbers go."""
    facts = {"parse": _Version, "Version": _Version, "InvalidVersion": ValueError}
    version = FactModule("packaging.version", facts)
    return {"packaging": FactModule("packaging", {"version": version}), "packaging.version": version}
