"""Packages beside the followed one: whether they are installed, by which distribution, with what version."""

from __future__ import annotations

import sys
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from tools.interpreter.base import Base
from tools.interpreter.values import Unknown

STDLIB: Final = frozenset(sys.stdlib_module_names)
PRESENT: Final = frozenset({"typing_extensions"})


class Distributions(Base):
    """Say which packages can be imported."""

    def pinned(self, root: str) -> bool:
        """Tell whether the package requires one version of another: its code was written for that one."""
        required = self.world.required
        return any(required.get(name, "").startswith("==") for name in distributions_of(root))

    def present(self, name: str) -> Any:
        """Return whether a module outside the package can be imported: True, False or an unknown."""
        root = name.split(".")[0]
        if root in STDLIB or root in PRESENT:
            return True
        packages, required = self.world.facts.packages or {}, self.world.required
        names = distributions_of(root)
        known = [packages[name] is not None for name in names if name in packages]
        if any(known) or (not known and any(name in required for name in names)):
            return True
        carried = self._carried(root)
        if carried is not None:
            return carried
        if len(known) == len(names):
            return False
        return Unknown((f"whether package {root} is installed",))

    def _carried(self, root: str) -> Any:
        """Return whether another distribution brings a module; None where none that may is installed."""
        packages, required = self.world.facts.packages or {}, self.world.required
        for name, first, last in _CARRIERS.get(root, ()):
            version = packages.get(name) if name in packages else required.get(name)
            if version is None:
                continue
            exact = version.strip().removeprefix("==").strip()
            try:
                if Version(first) <= Version(exact) <= Version(last):
                    return True
            except InvalidVersion:
                pass
            return Unknown((f"whether {name} {exact} brings {root}",))
        return None


_CARRIERS: Final = {
    "triton_kernels": (("sgl-kernel", "0.3.9.post2", "0.3.21"), ("sglang-kernel", "0.4", "0.4.10")),
    "deep_gemm": (("sgl-kernel", "0.3.9.post2", "0.3.9.post2"),),
}
"""Modules that distributions of other names bring, from the first to the last release seen to do so."""

_NAMES: Final = {
    "yaml": ("pyyaml",),
    "PIL": ("pillow",),
    "cv2": ("opencv-python-headless", "opencv-python"),
    "sgl_kernel": ("sgl-kernel", "sglang-kernel"),
    "deep_gemm": ("deep-gemm", "sgl-deep-gemm"),
    "deep_ep": ("deep-ep", "sgl-deep-ep"),
    "flashinfer": ("flashinfer-python", "flashinfer"),
    "zmq": ("pyzmq",),
    "pynvml": ("nvidia-ml-py", "pynvml"),
    "google": ("protobuf",),
    "dateutil": ("python-dateutil",),
    "cutlass": ("nvidia-cutlass-dsl",),
    "mooncake": ("mooncake-transfer-engine", "mooncake"),
    "uvloop": ("uvloop",),
    "pkg_resources": ("setuptools",),
    "attr": ("attrs",),
    "sklearn": ("scikit-learn",),
    "huggingface_hub": ("huggingface-hub",),
    "cpuinfo": ("py-cpuinfo",),
    "lmformatenforcer": ("lm-format-enforcer",),
    "opentelemetry": ("opentelemetry-api", "opentelemetry-sdk"),
    "grpc": ("grpcio",),
    "pythonjsonlogger": ("python-json-logger",),
    "cudnn": ("nvidia-cudnn-frontend",),
    "quack": ("quack-kernels",),
    "tvm_ffi": ("apache-tvm-ffi",),
    "humming": ("humming-kernels",),
    "triton": ("triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "torch"),
    "multipart": ("python-multipart",),
    "openai_harmony": ("openai-harmony", "oss-harmony"),
    "runai_model_streamer": ("runai-model-streamer",),
    "kaldi_native_fbank": ("kaldi-native-fbank",),
    "typing_extensions": ("typing-extensions",),
    "prometheus_client": ("prometheus-client",),
}


def distributions_of(root: str) -> tuple[str, ...]:
    """Return the distributions that may hold a top-level module, names in their normal form."""
    return _NAMES.get(root, (root.replace("_", "-").lower(),))
