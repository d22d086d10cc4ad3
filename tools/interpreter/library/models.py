"""Model configurations: what ``transformers`` makes of a ``config.json``, by the table of its releases."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.library.model_classes_guest import Configurations, releases
from tools.interpreter.library.model_classes_loose import ASKING, Loose
from tools.interpreter.library.surroundings import read
from tools.interpreter.values import (
    MISSING,
    Descriptor,
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

_BASES: Final = (
    "transformers.PretrainedConfig",
    "transformers.PreTrainedConfig",
    "transformers.configuration_utils.PretrainedConfig",
    "transformers.configuration_utils.PreTrainedConfig",
)
_AUTO: Final = (
    "transformers.AutoConfig",
    "transformers.models.auto.AutoConfig",
    "transformers.models.auto.configuration_auto.AutoConfig",
)
_MAPPINGS: Final = (
    "transformers.CONFIG_MAPPING",
    "transformers.models.auto.CONFIG_MAPPING",
    "transformers.models.auto.configuration_auto.CONFIG_MAPPING",
)
_GENERATION: Final = (
    "transformers.GenerationConfig",
    "transformers.generation.GenerationConfig",
    "transformers.generation.configuration_utils.GenerationConfig",
)
_ROPE: Final = "transformers.modeling_rope_utils.rope_config_validation"
_REDIRECTED: Final = frozenset({"gguf_file", "_configuration_file"})


def install(machine: Machine) -> None:
    """Add what ``transformers`` is asked for."""
    own = Models(machine)
    add: Any = machine.library
    for path in _AUTO:
        for name, run in (
            ("from_pretrained", own.load),
            ("register", own.register),
            ("for_model", own.for_model),
        ):
            add[f"{path}.{name}"] = Native(name, run, machine)
    for path in _GENERATION:
        add[f"{path}.from_pretrained"] = Native("from_pretrained", own.generation, machine)
    mapping = own.mapping()
    for path in _MAPPINGS:
        add[path] = mapping
    add[_ROPE] = Native("rope_config_validation", own.checked_rope, machine)
    resolve = add["resolve"]
    add["resolve"] = lambda path: own.named(path) or resolve(path)
    if not own.known:
        for base in _BASES:
            add[f"{base}.__init__"] = Native("__init__", own.initialise, machine)
            add[f"{base}.get_config_dict"] = Native(
                "get_config_dict", lambda path=None, **k: own.raw(path), machine
            )


class Models(Loose):
    """Read model configurations."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        found = releases(machine)
        self.known = Configurations(machine, found, self._methods) if found else None
        self.registered: dict[str, Any] = {}
        """Classes of the source by the model type that they were registered for."""

    @property
    def _early(self) -> bool:
        """Tell whether the name of a model is given to the constructor, not set afterwards."""
        return self.known is not None and not self.known.newest.version.startswith("4.")

    def named(self, path: str) -> GuestClass | None:
        """Return the configuration class that a dotted path means."""
        if self.known is None or not path.startswith("transformers."):
            return None
        kind = self.known.newest.named(path.removeprefix("transformers."))
        return self.known.cls(kind) if kind else None

    def checked_rope(self, held: Any = None, *args: Any, **options: Any) -> Any:
        """Check the scaling of rotary embeddings: before 5.0, a configuration without one passes as it is."""
        releases = [e.release for e in self.known.evaluators] if self.known is not None else []
        first = bool(releases) and all(r.version.startswith("4.") for r in releases)
        scaling = self.machine.find(held, "rope_scaling") if isinstance(held, Instance) else held
        if first and (scaling is None or scaling is MISSING):
            return None
        return self.machine.call(External(_ROPE), (held, *args), options)

    # --- reading ----------------------------------------------------------------------------------

    def data(self, path: Any) -> Any:
        """Return the content of a model's ``config.json``, or an unknown."""
        if not isinstance(path, str):
            path = str(path) if hasattr(path, "joinpath") else path
        if not isinstance(path, str):
            return unknown_of(path, need="the model's configuration")
        found = read(self.machine, posixpath.join(path, "config.json"))
        if isinstance(found, bytes):
            try:
                data = json.loads(found)
            except ValueError:
                data = None
            if isinstance(data, dict):
                if self.known is not None and all(
                    e.release.traits.get("commit hash") for e in self.known.evaluators
                ):
                    data["_commit_hash"] = None
                return data
        self.machine.doubts += 1
        return Unknown((f"config.json of {path}",))

    def raw(self, path: Any = None, *args: Any, **options: Any) -> Any:
        """Return a model's configuration as plain data, with the options that are left."""
        if _REDIRECTED & options.keys():
            return unknown_of(need="the model's configuration")
        data = self.data(path)
        return (
            data
            if isinstance(data, Unknown)
            else (data, {k: v for k, v in options.items() if k not in ASKING})
        )

    def load(self, path: Any = None, *args: Any, **options: Any) -> Any:
        """Return a model's configuration, as ``AutoConfig`` does."""
        if any(options.get(name) is not None for name in _REDIRECTED):
            self.machine.doubts += 1
            return unknown_of(need="the model's configuration")
        data = self.data(path)
        if isinstance(data, Unknown):
            return data
        found = self._auto(path, data, options.get("trust_remote_code"), options)
        if isinstance(found, Unknown):
            self.machine.doubts += 1
        return found

    def _auto(self, path: Any, data: dict[str, Any], trust: Any, options: dict[str, Any]) -> Any:
        model_type = data.get("model_type")
        remote = isinstance(data.get("auto_map"), dict) and "AutoConfig" in data["auto_map"]
        registered = self.registered.get(model_type) if isinstance(model_type, str) else None
        if remote:
            local = self._brought(model_type, registered, trust)
            if isinstance(local, Unknown):
                return self.loose(data, path, local.needs)
        if registered is not None:
            if not isinstance(registered, GuestClass):
                return unknown_of(registered, need=f"the class registered for {model_type}")
            return self.from_dict(registered, data, name_or_path=path, **options)
        if self.known is None:
            return self.loose(data, path, ("what transformers adds to the model's configuration",))
        return self._listed(path, data, model_type, options)

    def _brought(self, model_type: Any, registered: Any, trust: Any) -> Unknown | None:
        """Return an unknown where the class that a model brings is used, None for an installed one."""
        brings = Unknown(("the configuration class that the model brings",))
        if registered is not None:
            first = (
                [e.release.traits.get("registered first") for e in self.known.evaluators]
                if self.known
                else []
            )
            return None if (first and all(first)) or trust is False else brings
        has_local = self.known is not None and all(
            model_type in e.release.types for e in self.known.evaluators
        )
        if trust is False or trust is None:
            if has_local:
                return None
            if trust is False and self.known is not None:
                raise GuestRaise(
                    ValueError(
                        "The repository contains custom code which must be executed, see trust_remote_code"
                    )
                )
        return brings

    def _listed(self, path: Any, data: dict[str, Any], model_type: Any, options: dict[str, Any]) -> Any:
        assert self.known is not None
        releases = [e.release for e in self.known.evaluators]
        if model_type is None:
            if any(r.traits.get("by name") for r in releases):
                return self.loose(data, path, ("the model type",))
            raise GuestRaise(ValueError(f"Unrecognized model in {path}. Should have a `model_type` key."))
        if model_type == "mistral" and "layer_types" in data:
            if not all(r.traits.get("ministral") for r in releases):
                return self.loose(data, path, ("the installed version of transformers",))
            model_type = data["model_type"] = "ministral"
        kinds = [r.types.get(model_type, "") for r in releases]
        if not any(kinds):
            raise GuestRaise(
                ValueError(
                    f"The checkpoint you are trying to load has model type `{model_type}` "
                    "but Transformers does not recognize this architecture."
                )
            )
        if not all(kinds):
            return self.loose(data, path, ("the installed version of transformers",))
        values, late = self._overridden(dict(data), options)
        (values if self._early else late)["name_or_path"] = path
        found = self.known.made([k for k in kinds if k], values)
        if isinstance(found, Instance):
            self._late(found, late)
        return found

    def _overridden(
        self, data: dict[str, Any], options: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return data with the options that go into it, and those that are set afterwards."""
        late: dict[str, Any] = {}
        for name, value in options.items():
            if name in ASKING:
                continue
            if name in ("num_labels", "attn_implementation", "experts_implementation", "output_attentions"):
                data[name] = value
            elif name in ("torch_dtype", "dtype"):
                if value != "auto":
                    data[name] = value
            else:
                late[name] = value
        return data, late

    def _late(self, held: Instance, late: dict[str, Any]) -> None:
        for name, value in late.items():
            found = self.machine.find(held, name)
            if isinstance(found, Instance) and isinstance(value, dict):
                for key, one in value.items():
                    self.machine.set_attribute(found, key, one)
            elif found is not MISSING:
                self.machine.set_attribute(held, name, value)

    def register(self, model_type: Any = None, cls: Any = None, exist_ok: Any = False) -> None:
        """Know a class of the source for a model type."""
        if not isinstance(model_type, str):
            return
        listed = (
            [model_type in e.release.types for e in self.known.evaluators] if self.known is not None else []
        )
        if exist_ok is not True and any(listed):
            if all(listed):
                raise GuestRaise(
                    ValueError(f"'{model_type}' is already used by a Transformers config, pick another name.")
                )
            cls = Unknown(("the installed version of transformers",))
        self.machine.journal.set(self.registered, model_type, cls)

    def for_model(self, model_type: Any = None, *args: Any, **values: Any) -> Any:
        """Return the configuration of a model type with values."""
        registered = self.registered.get(model_type) if isinstance(model_type, str) else None
        if isinstance(registered, GuestClass):
            return self.machine.instantiate(registered, (), values)
        kinds = [e.release.types.get(model_type, "") for e in self.known.evaluators] if self.known else []
        if not kinds or not all(kinds) or args or self.known is None:
            return unknown_of(model_type, need=f"the configuration of {model_type}")
        return self.known.made(kinds, values)

    # --- class methods of configurations ----------------------------------------------------------

    def _methods(self, kind: str) -> dict[str, Any]:
        """Return the methods of the base class that are known here."""
        machine = self.machine

        def method(name: str, run: Any) -> Native:
            return Native(name, run, machine)

        def of_class(name: str, run: Any) -> Descriptor:
            return Descriptor("class", method(name, run))

        return {
            "from_pretrained": of_class("from_pretrained", self.from_pretrained),
            "from_dict": of_class("from_dict", self.from_dict),
            "get_config_dict": of_class("get_config_dict", lambda cls, *a, **k: self.raw(*a, **k)),
            "register_for_auto_class": of_class("register_for_auto_class", lambda *a, **k: None),
            "to_dict": method("to_dict", lambda held: self.known.method(held, "to_dict", (), {})),  # type: ignore[union-attr]
            "update": method("update", self.update),
        }

    def from_pretrained(self, cls: GuestClass, path: Any = None, *args: Any, **options: Any) -> Any:
        """Return the configuration that a class makes of a model's ``config.json``."""
        found = self.raw(path, **options)
        if isinstance(found, Unknown):
            return found
        data = found[0]
        key = cls.find("base_config_key")
        if isinstance(key, str) and key and isinstance(data.get(key), dict):
            data = data[key]
        own = cls.find("model_type")
        if isinstance(own, str) and data.get("model_type") not in (None, own):
            inner = [v for v in data.values() if isinstance(v, dict) and v.get("model_type") == own]
            data = inner[-1] if inner else data
        return self.from_dict(cls, data, name_or_path=path, **options)

    def from_dict(self, cls: GuestClass, data: Any = None, *args: Any, **options: Any) -> Any:
        """Return the configuration that a class makes of values."""
        if not isinstance(data, dict):
            return unknown_of(data, need="from_dict()")
        values, late = self._overridden(dict(data), options)
        if "name_or_path" in options:
            (values if self._early else late)["name_or_path"] = options["name_or_path"]
        if any(not isinstance(key, str) for key in values):
            return unknown_of(need="from_dict()")
        held = self.machine.instantiate(cls, (), values)
        if isinstance(held, Instance):
            self._late(held, late)
        return held
