"""What the source asks of its surroundings: files, variables, logs, commands; answered from what is known."""

from __future__ import annotations

import io
import logging
import os.path
import posixpath
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.callables import natives
from tools.interpreter.library.folders import paths_like
from tools.interpreter.operators import natively
from tools.interpreter.values import MISSING, External, GuestRaise, Native, Undecided, Unknown, unknown_of

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_PATHS: Final = (
    "join",
    "basename",
    "dirname",
    "splitext",
    "normpath",
    "isabs",
    "split",
    "commonprefix",
    "normcase",
)
_LEVELS: Final = {
    "debug": 10,
    "info": 20,
    "warning": 30,
    "warn": 30,
    "error": 40,
    "critical": 50,
    "exception": 40,
}


class Logger:
    """Stand for a logger: it notes what the source says."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.name = name

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what a method of a logger does."""
        if name in ("isEnabledFor", "hasHandlers"):
            return Unknown(("the log level",))
        if name == "getChild":
            return self
        level = name.removesuffix("_once").removesuffix("_rank0")
        if (
            level in _LEVELS
            and args
            and self.machine.watch is not None
            and not self.machine.store.get("quiet")
        ):
            self.machine.watch.said(level, _message(args))
        return None


def _message(args: tuple[Any, ...]) -> str:
    text = args[0]
    if isinstance(text, Unknown):
        return f"a message that depends on {', '.join(text.needs)}"
    rest = tuple("?" if isinstance(a, Unknown) else a for a in args[1:])
    try:
        return str(text) % rest if rest else str(text)
    except (Undecided, TypeError, ValueError):
        return str(text) if isinstance(text, str) else "?"


def opened(machine: Machine, path: Any, mode: Any = "r") -> Any:
    """Return a file of the host as a stream of its content."""
    if isinstance(path, Unknown) or not isinstance(mode, str) or "r" not in mode:
        return unknown_of(path, need="a file that is written")
    data = read(machine, str(path))
    if isinstance(data, Unknown):
        machine.doubts += 1
        return data
    if data is None:
        raise GuestRaise(FileNotFoundError(2, "No such file or directory", str(path)))
    if "b" in mode:
        return io.BytesIO(data)
    return natively(lambda: io.StringIO(data.decode()))


def read(machine: Machine, path: str) -> Any:
    """Return a file's content, None when it is absent, or an unknown (as for a folder)."""
    reader = machine.world.facts.read_file
    if reader is None:
        return Unknown((f"file {path}",))
    try:
        return reader(path)
    except OSError:
        return Unknown((f"file {path}",))


def exists(machine: Machine, path: Any, *, kind: str = "any") -> Any:
    """Tell whether a path exists: True, False or an unknown."""
    if isinstance(path, (Unknown, External)):
        return unknown_of(path)
    reader = machine.world.facts.read_file
    if path is None or path == "":
        return False
    if reader is None:
        return Unknown((f"file {path}",))
    try:
        found = reader(str(path))
    except IsADirectoryError:
        return kind != "file"
    except OSError:
        return Unknown((f"file {path}",))
    if found is not None:
        return kind != "folder"
    return _folder(machine, str(path), kind)


def _folder(machine: Machine, path: str, kind: str) -> Any:
    reader = machine.world.facts.read_file
    try:
        inside = reader(posixpath.join(path, "config.json")) if reader is not None else None
    except OSError:
        inside = None
    return kind != "file" and inside is not None


PATH_METHODS: Final = frozenset(
    {
        "exists",
        "is_file",
        "is_dir",
        "read_text",
        "read_bytes",
        "open",
        "resolve",
        "absolute",
        "expanduser",
        "glob",
        "rglob",
        "iterdir",
        "stat",
        "mkdir",
        "touch",
        "unlink",
        "write_text",
        "is_symlink",
        "samefile",
    }
)


def path_method(machine: Any, held: Any, name: str, args: tuple[Any, ...]) -> Any:
    """Do what a method of a path does that asks the file system."""
    kinds = {"exists": "any", "is_file": "file", "is_dir": "folder"}
    if name in kinds:
        return exists(machine, str(held), kind=kinds[name])
    if name in ("read_text", "read_bytes"):
        found = opened(machine, str(held), "rb" if name == "read_bytes" else "r")
        return found if isinstance(found, Unknown) else found.read()
    if name == "open":
        return opened(machine, str(held), *args[:1])
    if name in ("absolute", "expanduser") and str(held).startswith("/"):
        return held
    if name == "glob" and len(args) == 1 and str(held).startswith("/"):
        return paths_like(machine, str(held), args[0])
    machine.doubts += 1
    return Unknown((f"Path.{name}() of {held}",))


def install(machine: Machine) -> None:
    """Add files, variables, logs and commands."""
    add = machine.library
    environment = machine.environment
    add["os.environ"] = environment
    add["os.sep"], add["os.linesep"], add["os.name"] = "/", "\n", "posix"
    add["sys.platform"] = "linux"
    add["sys.version_info"] = _version(machine)
    add["sys.modules"] = Loaded(machine)
    add["sys.argv"] = ["server", *machine.world.argv]
    add["sys.byteorder"] = sys.byteorder
    for name in _PATHS:
        add[f"os.path.{name}"] = Native(name, getattr(posixpath, name), machine, raw=False)
    runs: dict[str, Callable[..., Any]] = {
        "os.getenv": lambda name, default=None: environment.get(name, default),
        "os.environ.get": environment.get,
        "os.path.exists": lambda path: exists(machine, path),
        "os.path.isfile": lambda path: exists(machine, path, kind="file"),
        "os.path.isdir": lambda path: exists(machine, path, kind="folder"),
        "os.path.abspath": lambda path: _absolute(path),
        "os.path.expanduser": lambda path: _home(path),
        "os.fspath": lambda path: str(path),
        "os.makedirs": lambda *a, **k: None,
        "logging.getLogger": lambda name="root": Logger(machine, str(name)),
        "warnings.warn": lambda *a, **k: Logger(machine, "warnings").call("warning", a, {}),
        "warnings.filterwarnings": lambda *a, **k: None,
        "warnings.simplefilter": lambda *a, **k: None,
        "importlib.util.find_spec": lambda name, *a: _spec(machine, name),
        "importlib.metadata.version": lambda name: version_of(machine, name),
        "importlib.metadata.entry_points": lambda *a, **k: [],
        "shutil.which": lambda name, *a, **k: (
            f"/usr/bin/{name}"
            if name == "nvidia-smi" and machine.world.facts.platform == "cuda"
            else Unknown((f"command {name}",))
        ),
        "subprocess.run": lambda *a, **k: _command(machine, *a, **k),
        "subprocess.check_output": lambda *a, **k: _command(machine, *a, **k),
        "platform.system": lambda: "Linux",
        "platform.machine": lambda: Unknown(("the CPU's architecture",)),
    }
    add |= natives(machine, runs)
    for name in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NOTSET"):
        add[f"logging.{name}"] = getattr(logging, name)
    add["os.path"] = External("os.path")
    add["importlib.metadata.PackageNotFoundError"] = ModuleNotFoundError


class Loaded(dict[str, Any]):
    """Stand for ``sys.modules``: the followed package's modules are found in it."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def __missing__(self, name: str) -> Any:
        found = self._machine.modules.get(name)
        if found is None:
            raise KeyError(name)
        return found


def _version(machine: Machine) -> Any:
    return Unknown(("the version of the interpreter",))


def _absolute(path: Any) -> Any:
    if not isinstance(path, str) or not path.startswith("/"):
        return unknown_of(path, need="the working directory")
    return os.path.normpath(path)


def _home(path: Any) -> Any:
    if isinstance(path, str) and not path.startswith("~"):
        return path
    return unknown_of(path, need="the home directory")


def _spec(machine: Machine, name: Any) -> Any:
    if not isinstance(name, str):
        return unknown_of(name)
    if name.split(".")[0] == machine.package:
        found: Any = machine.module_named(name) is not None
    else:
        found = machine.present(name)
    if isinstance(found, Unknown):
        return found
    return types.SimpleNamespace(name=name, origin=None) if found else None


def version_of(machine: Machine, name: Any) -> Any:
    """Return the version of an installed distribution."""
    if not isinstance(name, str):
        return unknown_of(name)
    wanted = name.replace("_", "-").lower()
    if wanted == machine.package:
        return machine.tree.version or Unknown((f"version of {name}",))
    packages = machine.world.facts.packages or {}
    if wanted in packages:
        found = packages[wanted]
        if found is None:
            raise GuestRaise(ModuleNotFoundError(f"No package metadata was found for {name}"))
        return found or Unknown((f"version of {name}",))
    pinned = machine.world.required.get(wanted, MISSING)
    if isinstance(pinned, str) and pinned.startswith("==") and "," not in pinned and "*" not in pinned:
        return pinned.removeprefix("==").strip()
    machine.doubts += 1
    return Unknown((f"version of {name}",))


def _command(machine: Machine, argv: Any = None, *rest: Any, **options: Any) -> Any:
    """Answer the one command that argument code runs: what memory a GPU has."""
    facts = machine.world.facts
    words = argv if isinstance(argv, list) and all(isinstance(w, str) for w in argv) else []
    asks = words[:1] == ["nvidia-smi"] and any("memory.total" in w for w in words)
    if asks and facts.platform == "cuda" and facts.gpu_memory_mib is not None:
        rows = f"{facts.gpu_memory_mib}\n" * (facts.gpu_count or 1)
        return types.SimpleNamespace(returncode=0, stdout=rows, stderr="")
    machine.doubts += 1
    return Unknown((f"command {' '.join(words) or '?'}" if not asks else "the GPU's memory",))
