"""An interpreter in which an engine's argument code can run without its kernels.

It has the packages of the ground truth's environment, empty modules for what needs a GPU to be installed, and
an ``nvidia-smi`` that names two GPUs.
"""

from __future__ import annotations

import sys
from pathlib import Path

_STUBS = '''
import importlib.abc, importlib.machinery, os, sys, types

ABSENT = {names!r}


class Anything(type):
    def __getattr__(cls, name):
        if name == "__get_pydantic_core_schema__":
            from pydantic_core import core_schema

            return lambda *given, **named: core_schema.any_schema()
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {{}})

    def __call__(cls, *given, **named):
        if len(given) == 1 and not named and isinstance(given[0], (types.FunctionType, type)):
            return given[0]
        return Anything(cls.__name__, (), {{}})

    def __or__(cls, other):
        return cls

    __ror__ = __getitem__ = __or__

    def __iter__(cls):
        return iter(())


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {{}})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        module = Module(spec.name)
        module.__path__ = []
        module.__version__ = "99.0"
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(Finder())
os.environ["PATH"] = {programs!r} + os.pathsep + os.environ.get("PATH", "")


class Declare(importlib.abc.MetaPathFinder):
    """Declare the operators that modules without their library look up as they are loaded."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torchvision":
            import torch

            sys.meta_path.remove(self)
            for name in ("nms", "qnms"):
                torch.library.define("torchvision::" + name, "(Tensor a, Tensor b, float c) -> Tensor")


sys.meta_path.insert(0, Declare())
'''
_ABSENT = [
    *("sgl_kernel", "deep_gemm", "triton_kernels", "flashinfer", "torchao", "xgrammar", "outlines"),
    *("outlines_core", "llguidance", "decord", "av", "nvtx", "soundfile", "torchcodec", "torch_memory_saver"),
    *("cutlass", "cuda", "torchaudio", "quack", "tvm_ffi", "tilelang", "flash_mla", "easydict"),
    *("openai_harmony", "deep_ep", "tokenspeed_mla", "humming", "cbor2", "cachetools", "cpuinfo", "blake3"),
]
_SMI = """#!/bin/sh
case "$*" in
  *index,uuid*) for i in 0 1; do echo "$i, GPU-$i, NVIDIA H200, 143771, 9.0"; done ;;
  *memory.total*) echo 143771; echo 143771 ;;
  *compute_cap*) echo 9.0; echo 9.0 ;;
  *driver_version*) echo 580.95.05; echo 580.95.05 ;;
  *) exit 1 ;;
esac
"""


def build(folder: Path, *packages: Path) -> Path:
    """Return an interpreter in ``folder`` that sees the packages in other folders, the first first."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    site.mkdir(parents=True)
    programs = folder / "programs"
    programs.mkdir()
    (programs / "nvidia-smi").write_text(_SMI)
    (programs / "nvidia-smi").chmod(0o755)
    (site / "engine_stubs.py").write_text(_STUBS.format(names=set(_ABSENT), programs=str(programs)))
    (site / "engine.pth").write_text("".join(f"{one}\n" for one in packages) + "import engine_stubs\n")
    binary = folder / "bin" / "python3"
    binary.parent.mkdir()
    base = Path(sys.base_prefix) / "bin" / version
    binary.symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    return binary
