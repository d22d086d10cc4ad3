"""Configurations that no table tells about, the mapping of model types, and sampling parameters."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.library.model_classes_guest import MARK, Configurations
from tools.interpreter.library.surroundings import read
from tools.interpreter.values import (
    External,
    GuestClass,
    GuestRaise,
    Instance,
    Native,
    Unknown,
    unknown_of,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_NESTED: Final = (
    "text_config",
    "vision_config",
    "audio_config",
    "llm_config",
    "language_config",
    "thinker_config",
    "talker_config",
    "decoder_config",
    "encoder_config",
)
_TEXTS: Final = ("text_config", "llm_config", "language_config", "decoder_config", "generator_config")

ASKING: Final = frozenset(
    {
        "revision",
        "token",
        "cache_dir",
        "force_download",
        "local_files_only",
        "subfolder",
        "code_revision",
        "trust_remote_code",
        "use_auth_token",
        "proxies",
        "resume_download",
        "user_agent",
        "_from_auto",
        "_from_pipeline",
        "return_unused_kwargs",
        "name_or_path",
    }
)
"""Options of reading that say nothing about the configuration."""


class Loose:
    """Stand for what is read without knowing its class."""

    machine: Machine
    known: Configurations | None
    registered: dict[str, Any]

    def register(self, model_type: Any = None, cls: Any = None, exist_ok: Any = False) -> None:
        """Know a class of the source for a model type."""
        raise NotImplementedError

    def mapping(self) -> Instance:
        """Return what stands for the mapping of model types to classes."""
        machine = self.machine
        methods = {
            "__getitem__": lambda held, model_type: self._class_of(model_type),
            "__contains__": lambda held, model_type: self._is_listed(model_type),
            "register": lambda held, *a, **k: self.register(*a, **k),
            "get": lambda held, model_type, *default: (
                self._class_of(model_type)
                if self._is_listed(model_type) is True
                else unknown_of(need="CONFIG_MAPPING.get()")
            ),
            "__getattr__": lambda held, name: Unknown((f"CONFIG_MAPPING.{name}",)),
        }
        namespace = {name: Native(name, run, machine) for name, run in methods.items()}
        cls = GuestClass(
            "_LazyConfigMapping", (), namespace, machine, "transformers.models.auto.configuration_auto"
        )
        cls.record_is_own = False  # type: ignore[attr-defined]
        return Instance(cls)

    def _is_listed(self, model_type: Any) -> Any:
        if model_type in self.registered:
            return True
        listed = (
            {model_type in e.release.types for e in self.known.evaluators}
            if self.known is not None
            else set()
        )
        return listed.pop() if len(listed) == 1 else Unknown(("the installed version of transformers",))

    def _class_of(self, model_type: Any) -> Any:
        if model_type in self.registered:
            return self.registered[model_type]
        listed = self._is_listed(model_type)
        if listed is False:
            raise GuestRaise(KeyError(model_type))
        if isinstance(listed, Unknown) or self.known is None:
            return listed
        return self.known.cls(self.known.newest.types[model_type])

    def generation(self, path: Any = None, *args: Any, **options: Any) -> Any:
        """Return a model's ``generation_config.json`` as an object."""
        if not isinstance(path, str) or args or options.keys() - ASKING:
            return unknown_of(path, need="the model's generation_config.json")
        found = read(self.machine, posixpath.join(path, "generation_config.json"))
        if found is None and read(self.machine, posixpath.join(path, "config.json")) is not None:
            raise GuestRaise(OSError(f"{path} does not appear to have a file named generation_config.json."))
        try:
            data = json.loads(found) if isinstance(found, bytes) else None
        except ValueError:
            data = None
        if not isinstance(data, dict) or self.known is None:
            self.machine.doubts += 1
            return Unknown((f"generation_config.json of {path}",))
        return self.known.made(["GenerationConfig"] * len(self.known.evaluators), data)

    def loose(self, data: dict[str, Any], path: Any, needs: tuple[str, ...]) -> Instance:
        """Return values as a configuration of which nothing else is known."""
        held = self.wrap(data, needs)
        self.machine.journal.set(held.attrs, "_name_or_path", path)
        return held

    def wrap(self, data: dict[str, Any], needs: tuple[str, ...]) -> Instance:
        """Return values as an object of a class that is not known."""
        held = Instance(self._unknown_class(needs))
        for name, value in data.items():
            nested = isinstance(value, dict) and name in _NESTED
            if name in ("torch_dtype", "dtype") and isinstance(value, str):
                held.attrs["torch_dtype"] = held.attrs["dtype"] = External(f"torch.{value}")
            else:
                held.attrs[name] = self.wrap(value, needs) if nested else value
        self.machine.journal.taint(held.attrs, needs)
        return held

    def _unknown_class(self, needs: tuple[str, ...]) -> GuestClass:
        machine = self.machine
        methods: dict[str, Any] = {
            "update": self.update,
            "get_text_config": self._text,
            "to_dict": lambda held: Unknown(needs),
            "__getattr__": lambda held, name: Unknown(needs),
        }
        namespace: dict[str, Any] = {}
        base: Any = External(MARK)
        if self.known is not None:
            base = self.known.cls(self.known.newest.base)
            namespace = {
                n: Unknown(needs) for c in base.mro if isinstance(c, GuestClass) for n in c.namespace
            }
        namespace |= {n: Native(n, run, machine) for n, run in methods.items()}
        made = GuestClass("PretrainedConfig", (base,), namespace, machine, "transformers")
        made.record_is_own = False  # type: ignore[attr-defined]
        return made

    def _text(self, held: Instance, *args: Any, **options: Any) -> Any:
        for name in _TEXTS:
            if isinstance(held.attrs.get(name), Instance):
                return held.attrs[name]
        return Unknown(("get_text_config()",))

    def initialise(self, held: Instance, *args: Any, **values: Any) -> None:
        """Do what the base class's ``__init__`` does with what it is given, when no release is known."""
        for name, value in values.items():
            self.machine.set_attribute(held, name, value)

    def update(self, held: Instance, values: Any) -> None:
        """Bind attributes of a configuration."""
        if not isinstance(values, dict):
            raise GuestRaise(TypeError("update() needs a dict"))
        for name, value in values.items():
            self.machine.set_attribute(held, name, value)
