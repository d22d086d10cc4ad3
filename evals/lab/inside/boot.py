"""Loaded by the engine environment's interpreter at start: runs the simulated engine for its launch module.

The command line and the executable of the process stay those of the real engine; every other use of this
interpreter is left alone.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

SOURCE = "/run/lab/src"
MODULE = "sglang.launch_server"


class _Parent(Loader):
    """Stand for the package while its launch module is looked up, so that none of it is imported."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system make an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


class _Finder:
    """Answer for the launch module and its package; the rest is found as usual."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is."""
        if name == MODULE.partition(".")[0]:
            return ModuleSpec(name, _Parent(), is_package=True)
        if name == MODULE:
            return spec_from_file_location(name, f"{SOURCE}/evals/lab/inside/engine.py")
        return None


def install() -> None:
    """Take over when the interpreter was started as ``python [options] -m MODULE``."""
    words = sys.orig_argv[1:]
    options = 0
    while options < len(words) and words[options].startswith("-") and words[options] != "-m":
        options += 2 if words[options] in ("-X", "-W") else 1
    if words[options : options + 2] == ["-m", MODULE]:
        sys.meta_path.insert(0, _Finder)
        sys.path.append(SOURCE)


install()
