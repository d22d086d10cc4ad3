"""Model configurations: what ``config.json`` says; what only the configuration's class says is unknown."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.library.surroundings import read
from tools.interpreter.values import External, GuestClass, GuestRaise, Instance, Native, Unknown, unknown_of

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_NESTED: Final = ("text_config", "vision_config", "audio_config", "llm_config", "language_config", "thinker_config",
                  "talker_config", "decoder_config", "encoder_config")  # fmt: skip
_BASES: Final = ("transformers.PretrainedConfig", "transformers.configuration_utils.PretrainedConfig",
                 "transformers.PreTrainedConfig")  # fmt: skip


def install(machine: Machine) -> None:
    """Add what ``transformers`` is asked for."""
    own = Models(machine)
    add = machine.library
    for path, run in {
        "transformers.AutoConfig.from_pretrained": own.load,
        "transformers.AutoConfig.register": lambda *a, **k: None,
        "transformers.PretrainedConfig.get_config_dict": own.raw,
        "transformers.PretrainedConfig.from_dict": lambda data, *a, **k: own.wrap(data) if isinstance(data, dict) else unknown_of(data),
    }.items():
        add[path] = Native(path.rsplit(".", 1)[1], run, machine)
    for base in _BASES:
        add[f"{base}.__init__"] = Native("__init__", own.initialise, machine)


class Models:
    """Read model configurations."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._cls: GuestClass | None = None

    def data(self, path: Any) -> Any:
        """Return the content of a model's ``config.json``, or an unknown."""
        if not isinstance(path, str):
            return unknown_of(path, need="the model's configuration")
        found = read(self.machine, posixpath.join(path, "config.json"))
        if isinstance(found, bytes):
            try:
                data = json.loads(found)
            except ValueError:
                data = None
            if isinstance(data, dict):
                return data
        return Unknown((f"config.json of {path}",))

    def load(self, path: Any = None, *args: Any, **options: Any) -> Any:
        """Return a model's configuration."""
        data = self.data(path)
        if isinstance(data, Unknown):
            self.machine.doubts += 1
            return data
        if "auto_map" in data:
            return Unknown((f"the configuration class that {path} brings",))
        held = self.wrap(data)
        self.machine.journal.set(held.attrs, "_name_or_path", path)
        return held

    def raw(self, path: Any = None, *args: Any, **options: Any) -> Any:
        """Return a model's configuration as plain data."""
        data = self.data(path)
        if isinstance(data, Unknown):
            self.machine.doubts += 1
            return data
        return (data, {})

    def wrap(self, data: dict[str, Any]) -> Instance:
        """Return configuration data as an object."""
        held = Instance(self.cls())
        for name, value in data.items():
            nested = isinstance(value, dict) and name in _NESTED
            held.attrs[name] = self.wrap(value) if nested else value
        return held

    def cls(self) -> GuestClass:
        """Return the class of configurations: what it does not hold is unknown."""
        if self._cls is None:
            machine = self.machine
            methods = {
                "to_dict": lambda held: {
                    n: v.attrs if isinstance(v, Instance) else v for n, v in held.attrs.items()
                },
                "update": self._update,
                "get_text_config": self._text,
                "get": lambda held, name, default=None: held.attrs.get(name, Unknown((f"{name} of the configuration",))),
            }
            namespace: dict[str, Any] = {n: Native(n, run, machine) for n, run in methods.items()}
            self._cls = GuestClass(
                "PretrainedConfig", (External("transformers.PretrainedConfig"),), namespace, machine, "transformers"
            )
            self._cls.record_is_own = False  # type: ignore[attr-defined]
        return self._cls

    def _update(self, held: Instance, values: Any) -> None:
        if not isinstance(values, dict):
            raise GuestRaise(TypeError("update() needs a dict"))
        for name, value in values.items():
            self.machine.set_attribute(held, name, value)

    def _text(self, held: Instance, *args: Any, **options: Any) -> Any:
        for name in ("text_config", "llm_config", "language_config", "decoder_config", "generator_config"):
            if isinstance(held.attrs.get(name), Instance):
                return held.attrs[name]
        return held

    def initialise(self, held: Instance, *args: Any, **values: Any) -> None:
        """Do what the base class's ``__init__`` does with what it is given."""
        for name, value in values.items():
            self.machine.set_attribute(held, name, value)
