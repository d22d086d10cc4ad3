"""Print what an engine's own classes show of their settings: ``python count_program.py ENGINE FOLDER``.

Run as a program of its own, in an environment that has pydantic and msgspec. The modules that define settings
are the release's own, and run; every other module is a stand-in whose every name is an empty class. So fields
and options are counted by `dataclasses`, `msgspec` and `argparse`, not by anything of ours.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

OWN = {
    "sglang": (
        "sglang.srt.server_args",
        "sglang.srt.arg_groups",
        "sglang.srt.environ",
        "sglang.srt.model_executor.cuda_graph_config",
        "sglang.version",
        "sglang._version",
    ),
    "vllm": (
        "vllm.engine.arg_utils",
        "vllm.config",
        "vllm.envs",
        "vllm.entrypoints.constants",
        "vllm.version",
        "vllm._version",
    ),
}
REAL = frozenset(
    {
        "msgspec",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
        "annotated_types",
        "typing_inspection",
        "yaml",
        "regex",
    }
)
ENVIRONMENT = {"sglang": "sglang.srt.environ", "vllm": "vllm.envs"}


class Element(str):
    """Be a text of which everything can be asked."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


ELEMENT = Element("<of a stand-in>")
"""What a stand-in holds, so that what is made of it is seen to be no value of the release."""


class Anything(type):
    """Make classes of which everything can be asked, and which hold nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _stand_in(name)

    def __iter__(cls) -> Any:
        return iter((ELEMENT,))

    def __len__(cls) -> int:
        return 0

    def __bool__(cls) -> bool:
        return False

    def __contains__(cls, item: object) -> bool:
        return False

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __add__(cls, other: Any) -> Any:
        return other

    def __radd__(cls, other: Any) -> Any:
        return other

    def __lt__(cls, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __call__(cls, *given: Any, **named: Any) -> Any:
        """Return what was given when this decorates it, else another stand-in."""
        if len(given) == 1 and not named and isinstance(given[0], type | types.FunctionType):
            return given[0]  # used as a decorator
        return _stand_in(f"{cls.__name__}()")


def _stand_in(name: str) -> Any:
    held = {"__module__": "stand_in", "__get_pydantic_core_schema__": classmethod(_any_schema)}
    return Anything(name, (), held)


def _any_schema(cls: Any, source: Any, handler: Any) -> Any:
    from pydantic_core import core_schema

    return core_schema.any_schema()


class StandIn(types.ModuleType):
    """Stand for a module that is not there, or that is not asked."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _stand_in(name)
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find the modules that define settings in the release, and a stand-in for every other."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine, self.folder = engine, folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return where a module comes from."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in REAL:
            return None
        if name.startswith(OWN[self.engine]) or name.endswith(".cli_args"):
            base = self.folder / name.replace(".", "/")
            for file in (base.with_suffix(".py"), base / "__init__.py"):
                if file.is_file():
                    inside = [str(base)] if file.name == "__init__.py" else None
                    return importlib.util.spec_from_file_location(
                        name, file, submodule_search_locations=inside
                    )
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """Return a stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        """Fill in what the stand-in has to hold: nothing."""


def _leave_out_checks() -> None:
    """Have config classes made with their defaults alone: what they check needs the other modules."""
    import pydantic.dataclasses

    pydantic.dataclasses.dataclass = _bare(dataclasses.dataclass)
    dataclasses.dataclass = _bare(dataclasses.dataclass)


def _bare(make: Any) -> Any:
    from pydantic.fields import FieldInfo

    def dataclass(cls: Any = None, config: Any = None, **named: Any) -> Any:
        if cls is None:
            return lambda later: dataclass(later, **named)
        if "__post_init__" in vars(cls) and cls.__module__.startswith("vllm."):
            cls.__post_init__ = lambda self, *given, **names: None
        for name, value in list(vars(cls).items()):
            if isinstance(value, FieldInfo):
                setattr(cls, name, _plain_field(value))
        return make(cls, **named)

    return dataclass


def _plain_field(info: Any) -> Any:
    """Return the field of `dataclasses` that starts as pydantic's does."""
    init = info.init is not False
    if info.default_factory is not None:
        return dataclasses.field(default_factory=info.default_factory, init=init)
    if repr(info.default) in ("PydanticUndefined", "Ellipsis"):
        return dataclasses.field(init=init)
    return dataclasses.field(default=info.default, init=init)


_ADD = argparse._ActionsContainer.add_argument


def _add_argument(self: Any, *names: Any, **keywords: Any) -> Any:
    """Declare an option, without the keyword that engines' own parsers take beside those of `argparse`."""
    keywords.pop("deprecated", None)
    if isinstance(keywords.get("action"), Anything):
        keywords["action"] = "store"
    return _ADD(self, *names, **keywords)


argparse._ActionsContainer.add_argument = _add_argument  # type: ignore[method-assign]


def plain(value: Any) -> Any:
    """Return a value that JSON can hold, as a list of one; None for any other."""
    if isinstance(value, set | frozenset | tuple):
        value = sorted(value, key=str) if not isinstance(value, tuple) else list(value)
    try:
        if ELEMENT in json.dumps(value):
            return None
    except (TypeError, ValueError):
        return None
    return None if isinstance(value, float) and value != value else [value]


def fields(cls: Any) -> dict[str, Any]:
    """Return the fields of a class with their defaults."""
    if dataclasses.is_dataclass(cls):
        return {f.name: _field_default(f, dataclasses.MISSING) for f in dataclasses.fields(cls)}
    msgspec: Any = importlib.import_module("msgspec")
    return {f.name: _field_default(f, msgspec.NODEFAULT) for f in msgspec.structs.fields(cls)}


def _field_default(field: Any, missing: Any) -> Any:
    if field.default is not missing:
        return plain(field.default)
    if field.default_factory is not missing and field.default_factory in (list, dict):
        return plain(field.default_factory())
    return None


def options(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """Return what a parser accepts."""
    return [
        {
            "names": list(action.option_strings) or [action.dest],
            "dest": action.dest,
            "default": plain(action.default),
            "required": action.required,
            "choices": plain(list(action.choices)) if action.choices else None,
        }
        for action in parser._actions
        if action.dest != "help"
    ]


def sglang() -> dict[str, Any]:
    """Return what SGLang shows."""
    module = importlib.import_module("sglang.srt.server_args")
    parser = argparse.ArgumentParser()
    module.ServerArgs.add_cli_args(parser)
    return {"fields": fields(module.ServerArgs), "options": options(parser), "sections": {}}


def vllm() -> dict[str, Any]:
    """Return what vLLM shows."""
    arguments = importlib.import_module("vllm.engine.arg_utils")
    parser = argparse.ArgumentParser()
    found: dict[str, Any] = {}
    for place in ("openai", "common", "serve", "launchers"):
        module = importlib.import_module(f"vllm.entrypoints.{place}.cli_args")
        if isinstance(module, StandIn) or not hasattr(module, "make_arg_parser"):
            continue
        frontend = getattr(module, "FrontendArgs", None)
        if dataclasses.is_dataclass(frontend):
            found |= fields(frontend)
        module.make_arg_parser(parser)
    found |= fields(arguments.AsyncEngineArgs)
    config = importlib.import_module("vllm.config")
    return {"fields": found, "options": options(parser), "sections": sections(config)}


def sections(config: Any) -> dict[str, list[str]]:
    """Return the fields of each section of the configuration."""
    import typing

    top = getattr(config, "VllmConfig", None)
    if not dataclasses.is_dataclass(top):
        return {}
    found = {}
    for field in dataclasses.fields(top):
        kinds = [field.type, *typing.get_args(field.type)]
        cls = next((k for k in kinds if dataclasses.is_dataclass(k)), None)
        found[field.name] = [f.name for f in dataclasses.fields(cls)] if cls is not None else []
    return found


def environment(engine: str) -> list[str]:
    """Return the variables that the release declares."""
    try:
        module = importlib.import_module(ENVIRONMENT[engine])
    except ImportError:
        return []
    if engine == "vllm":
        return sorted(getattr(module, "environment_variables", {}))
    found = getattr(module, "Envs", None)
    kind = getattr(module, "EnvField", ())
    return sorted(name for name, value in vars(found).items() if isinstance(value, kind)) if found else []


def main() -> int:
    """Print one JSON object."""
    engine, folder = sys.argv[1], Path(sys.argv[2])
    if engine == "vllm":
        _leave_out_checks()
    sys.meta_path.insert(0, Finder(engine, folder))
    sys.argv[1:] = []
    shown = {"sglang": sglang, "vllm": vllm}[engine]()
    shown["environment"] = environment(engine)
    sys.stdout.write(json.dumps(shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
