"""Put empty modules in the place of third-party ones that need a GPU or are not installed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.truth.inside.pins import UNPINNED, compiled, pretended


class _Nothing(type):
    """Make classes that stand for any name of a stub: parts are more of them, calls and bases work."""

    def __getattr__(cls, name: str) -> Any:
        if name == "__get_pydantic_core_schema__":
            schema: Any = importlib.import_module("pydantic_core.core_schema")
            return lambda *args, **options: schema.any_schema()
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return nothing(f"{cls.__name__}.{name}")

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if "_stands_alone" not in vars(cls):
            return super().__call__(*args, **options)  # a class of the engine that derives from one
        if len(args) == 1 and not options and isinstance(args[0], (types.FunctionType, type)):
            return args[0]  # used as a decorator
        return nothing(f"{cls.__name__}()")

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


def nothing(name: str) -> Any:
    """Return something that stands for ``name`` and decides nothing."""
    return _Nothing(name, (), {"_stands_alone": True})


class EmptyModule(types.ModuleType):
    """Have every name that is asked for, each of them a stand-in."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = nothing(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class EmptyFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Give an `EmptyModule` for names that nothing else finds; it stands last in ``sys.meta_path``."""

    def __init__(self, versions: Mapping[str, str], compiled: Collection[str]) -> None:
        self.versions = dict(versions)
        self.compiled = frozenset(compiled)
        self.used: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Claim the modules of pretended distributions, and the engine's own compiled parts."""
        top = fullname.partition(".")[0]
        if top not in self.versions and fullname not in self.compiled:
            return None
        self.used.add(top)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the empty module, with the version that the wheel asks for."""
        module = EmptyModule(spec.name)
        module.__path__ = []
        module.__dict__["__version__"] = self.versions.get(spec.name.partition(".")[0], UNPINNED)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Run nothing: there is nothing in it."""


def install(site: Path, scratch: Path) -> EmptyFinder:
    """Pretend what the wheel in ``site`` requires: metadata of each distribution, and its modules."""
    versions: dict[str, str] = {}
    for name, (version, modules) in pretended(site).items():
        metadata(scratch / "dist", name, version)
        for module in modules:
            versions.setdefault(module, version)
    sys.path.append(str(scratch / "dist"))
    finder = EmptyFinder(versions, compiled(site))
    sys.meta_path.append(finder)
    return finder


def metadata(folder: Path, name: str, version: str) -> None:
    """Write what makes a distribution look installed."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


_FAKED = re.compile(r"""library\.register_fake\(\s*["']sgl_kernel::(\w+)""")


def declare_operators(site: Path) -> None:
    """Declare operators that imports look up by name: torchvision's, and those of kernels' compiled parts.

    Nothing calls them.
    """
    torch: Any = importlib.import_module("torch")
    for name in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        )
    texts = (path.read_text("utf-8", "replace") for path in site.glob("sglang/srt/layers/**/*.py"))
    for name in sorted({name for text in texts for name in _FAKED.findall(text)}):
        torch.library.define(f"sgl_kernel::{name}", "(Tensor x) -> ()")


def add_old_names(scratch: Path) -> None:
    """Give triton names back that early releases of SGLang import."""
    with contextlib.suppress(ImportError):
        cache = importlib.import_module("triton.runtime.cache")
        for name in ("default_cache_dir", "default_dump_dir", "default_override_dir"):
            if not hasattr(cache, name):
                setattr(cache, name, lambda *args: str(scratch))
