"""``inspect``, clocks, and base classes of ``torch``: what inspecting a model's class asks."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.callables import natives
from tools.interpreter.operators import natively
from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    Descriptor,
    Function,
    GuestClass,
    Instance,
    Marker,
    Native,
    Unknown,
    unknown_of,
)

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_KINDS: Final = (
    "POSITIONAL_ONLY",
    "POSITIONAL_OR_KEYWORD",
    "VAR_POSITIONAL",
    "KEYWORD_ONLY",
    "VAR_KEYWORD",
    "empty",
)
_MODULE: Final = (
    "forward",
    "register_buffer",
    "register_parameter",
    "add_module",
    "register_module",
    "get_submodule",
    "get_parameter",
    "get_buffer",
    "apply",
    "cuda",
    "cpu",
    "to",
    "type",
    "float",
    "double",
    "half",
    "bfloat16",
    "state_dict",
    "load_state_dict",
    "parameters",
    "named_parameters",
    "buffers",
    "named_buffers",
    "children",
    "named_children",
    "modules",
    "named_modules",
    "train",
    "eval",
    "requires_grad_",
    "zero_grad",
    "share_memory",
    "extra_repr",
    "compile",
    "__call__",
    "training",
    "call_super_init",
    "dump_patches",
    "ipu",
    "xpu",
    "mtia",
    "set_extra_state",
    "get_extra_state",
    "set_submodule",
    "to_empty",
)
"""What ``torch.nn.Module`` has, beside names with an underscore in front."""


def install(machine: Machine) -> None:
    """Add what is asked of functions and classes."""
    add = machine.library
    runs: dict[str, Callable[..., Any]] = {
        "inspect.signature": lambda held, **k: signature(machine, held),
        "inspect.isclass": lambda held: (
            unknown_of(held) if isinstance(held, Unknown) else isinstance(held, (type, GuestClass))
        ),
        "inspect.isfunction": lambda held: (
            unknown_of(held) if isinstance(held, Unknown) else isinstance(held, Function)
        ),
        "inspect.ismethod": lambda held: (
            unknown_of(held) if isinstance(held, Unknown) else isinstance(held, BoundMethod)
        ),
        "ast.literal_eval": lambda text: (
            natively(ast.literal_eval, text) if isinstance(text, str) else unknown_of(text)
        ),
        "inspect.cleandoc": lambda text: (
            inspect.cleandoc(text) if isinstance(text, str) else unknown_of(text)
        ),
        "inspect.getdoc": lambda held: Unknown(("a documentation string",)),
        **{
            f"time.{name}": _clock
            for name in ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "process_time")
        },
        "time.strftime": lambda *a: Unknown(("the time",)),
        "torch.library.infer_schema": lambda *a, **k: Unknown(("a schema",)),
        "torch.library.Library": lambda *a, **k: _quiet(machine, "Library"),
        "torch._library.opaque_object.register_opaque_type": lambda *a, **k: None,
        "torch.manual_seed": lambda *a: None,
        "traceback.format_exc": lambda *a: Unknown(("a traceback",)),
        "traceback.format_stack": lambda *a: [],
        "logging.getLogRecordFactory": lambda: Unknown(("the log's settings",)),
        "logging.setLogRecordFactory": lambda *a: None,
        "logging.config.dictConfig": lambda *a: None,
        "sys.stdout.isatty": lambda: Unknown(("whether there is a terminal",)),
        "threading.Lock": lambda: _quiet(machine, "Lock"),
        "threading.RLock": lambda: _quiet(machine, "Lock"),
    }
    add |= natives(machine, runs)
    for name in _KINDS:
        add[f"inspect.Parameter.{name}"] = getattr(inspect.Parameter, name)
    for path in ("torch.nn.Module", "torch.nn.modules.module.Module"):
        add[path] = Marker(path)
        add[f"{path}?names"] = frozenset(_MODULE)
        machine.kinds[path] = _module_kind
    for path in ("typing.Protocol", "typing.Generic", "typing_extensions.Protocol"):
        add[f"{path}?names"] = frozenset()


def _clock(*args: Any) -> Unknown:
    return Unknown(("the time",))


def _quiet(machine: Machine, name: str) -> Instance:
    """Return an object whose methods do nothing."""
    cls = GuestClass(name, (), {}, machine, "")
    cls.record_is_own = False  # type: ignore[attr-defined]
    nothing = Native("nothing", lambda *a, **k: None, machine)
    for method in (
        "__enter__",
        "__exit__",
        "acquire",
        "release",
        "define",
        "impl",
        "_register_fake",
        "locked",
    ):
        cls.namespace[method] = nothing
    return Instance(cls)


def _module_kind(cls: GuestClass, options: dict[str, Any]) -> None:
    for name in _MODULE:
        if cls.find(name) is MISSING:
            cls.namespace[name] = Unknown((f"torch.nn.Module.{name}",))


def signature(machine: Machine, held: Any) -> Any:
    """Return the parameters of a function, method or class."""
    skip = 0
    if isinstance(held, GuestClass):
        held, skip = held.find("__init__"), 1
    if isinstance(held, BoundMethod):
        held, skip = held.function, skip + 1
    if isinstance(held, Descriptor):
        held = held.get
    if not isinstance(held, Function):
        return unknown_of(held, need="inspect.signature()")
    return types.SimpleNamespace(parameters=dict(list(_parameters(machine, held))[skip:]))


def _parameters(machine: Machine, function: Function) -> Any:
    spec = machine.read_body(function).args
    plain = [*spec.posonlyargs, *spec.args]
    first = len(plain) - len(function.defaults)
    for position, one in enumerate(plain):
        kind = "POSITIONAL_ONLY" if position < len(spec.posonlyargs) else "POSITIONAL_OR_KEYWORD"
        default = function.defaults[position - first] if position >= first else inspect.Parameter.empty
        yield one.arg, _parameter(machine, function, one, kind, default)
    if spec.vararg is not None:
        yield (
            spec.vararg.arg,
            _parameter(machine, function, spec.vararg, "VAR_POSITIONAL", inspect.Parameter.empty),
        )
    for one in spec.kwonlyargs:
        default = function.kw_defaults.get(one.arg, inspect.Parameter.empty)
        yield one.arg, _parameter(machine, function, one, "KEYWORD_ONLY", default)
    if spec.kwarg is not None:
        yield (
            spec.kwarg.arg,
            _parameter(machine, function, spec.kwarg, "VAR_KEYWORD", inspect.Parameter.empty),
        )


def _parameter(machine: Machine, function: Function, node: ast.arg, kind: str, default: Any) -> Any:
    annotation = inspect.Parameter.empty if node.annotation is None else Unknown((f"the type of {node.arg}",))
    return types.SimpleNamespace(
        name=node.arg, kind=getattr(inspect.Parameter, kind), default=default, annotation=annotation
    )
