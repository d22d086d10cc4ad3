"""Loaded by the engine environment's interpreter at start: runs the simulated engine for its launch modules.

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
MODULES = ("sglang.launch_server", "vllm.entrypoints.openai.api_server", "llama_cpp.server")
"""What ``python -m`` starts an engine by."""
SCRIPTS = {"sglang": "sglang.cli.main", "vllm": "vllm.entrypoints.cli.main"}
"""The environment's own programs, and the module whose ``main`` they call."""


class _Parent(Loader):
    """Stand for a package while its launch module is looked up, so that none of it is imported."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system make an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


class _Finder:
    """Answer for a launch module and the packages around it; the rest is found as usual."""

    def __init__(self, launch: str) -> None:
        self._launch = launch

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is."""
        if self._launch.startswith(f"{name}."):
            return ModuleSpec(name, _Parent(), is_package=True)
        if name == self._launch:
            return spec_from_file_location(name, f"{SOURCE}/evals/lab/inside/engine.py")
        return None


def install() -> None:
    """Take over when the interpreter was started as ``python [options] -m MODULE`` or for a known script."""
    words = sys.orig_argv[1:]
    options = 0
    while options < len(words) and words[options].startswith("-") and words[options] != "-m":
        options += 2 if words[options] in ("-X", "-W") else 1
    what = words[options : options + 2]
    launch = ""
    if what[:1] == ["-m"] and what[1:] and what[1] in MODULES:
        launch = what[1]
    elif what and what[0].rpartition("/")[0] == f"{sys.prefix}/bin":
        launch = SCRIPTS.get(what[0].rpartition("/")[2], "")
    if launch:
        sys.meta_path.insert(0, _Finder(launch))
        sys.path.append(SOURCE)


install()
