"""Bind what vLLM's argument code asks and that is not followed: compiled modules, platform, models."""

from __future__ import annotations

import ast
import re
from inspect import cleandoc
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.module import ModuleValue
from tools.interpreter.values import MISSING, GuestClass, GuestRaise, Native, Unknown

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine
    from tools.settings.evaluation import Run

_BINDINGS: Final = "third_party/pynvml.py"
_BOUND: Final = re.compile(r"^(?:def |class )?(\w+)(?=\(| *=)", re.MULTILINE)
_COMPILED: Final = re.compile(r"^vllm/([\w/]+\.[\w.-]*so),", re.MULTILINE)
_INTERPRETER: Final = (3, 12, 0, "final", 0)
_PLATFORMS: Final = {
    "cuda": ("vllm.platforms.cuda", "CudaPlatform"),
    "hip": ("vllm.platforms.rocm", "RocmPlatform"),
    "cpu": ("vllm.platforms.cpu", "CpuPlatform"),
    "xpu": ("vllm.platforms.xpu", "XPUPlatform"),
}
_OTHERS: Final = (
    ("vllm.platforms.zen_cpu", "ZenCpuPlatform"),
    ("vllm.platforms.tpu", "TpuPlatform"),
    ("vllm.platforms.hpu", "HpuPlatform"),
    ("vllm.platforms.neuron", "NeuronPlatform"),
    ("vllm.platforms.openvino", "OpenVinoPlatform"),
    ("vllm.platforms.interface", "UnspecifiedPlatform"),
)
"""Platforms that no fact names, of one release or another."""
_PLAIN: Final = {
    "vllm.tracing": ("instrument",),
    "vllm.compilation.decorators": ("support_torch_compile", "ignore_torch_compile"),
    "vllm.logging_utils": ("logtime",),
    "vllm.logging_utils.log_time": ("logtime",),
}
"""Decorators that leave alone what the argument code sees of a function or class."""
_QUIET: Final = {
    "vllm.utils.torch_utils": ("direct_register_custom_op",),
    "vllm.utils": ("direct_register_custom_op",),
}
"""Functions that tell torch of kernels."""
_FINDER: Final = "resolve_current_platform_cls_qualname"
_REGISTRY: Final = "vllm.model_executor.models.registry"


def stand_in(run: Run) -> None:
    """Bind everything."""
    machine = run.machine
    # Of the argument code, only what it says of deprecated options depends on this.
    machine.library["sys.version_info"] = _INTERPRETER
    _modules(run)
    _choose_platform(run)
    late = Native("LazyLoader", lambda local, names, name: machine.module_or_symbol(name), machine)
    for module in ("vllm.utils.import_utils", "vllm.utils"):
        _replace(machine, module, ("LazyLoader",), late)
    same = Native("same", lambda function: function, machine)
    plain = Native("decorator", lambda held=None, *a, **k: same if held is None else held, machine)
    for module, names in _PLAIN.items():
        _replace(machine, module, names, plain)
    for module, names in _QUIET.items():
        _replace(machine, module, names, Native("nothing", lambda *a, **k: None, machine))
    if run.facts.platform in ("cuda", "hip") and machine.present("triton") is not False:
        _replace(machine, "vllm.triton_utils.importing", ("HAS_TRITON",), True)
    for module in ("vllm.config.utils", "vllm.config"):
        _replace(machine, module, ("get_attr_docs",), Native("get_attr_docs", documented, machine))
    _network(machine)
    _inspect_models(machine)


def _module(machine: Machine, name: str) -> ModuleValue | None:
    """Return a module of the package; None when there is none, or when importing it fails."""
    try:
        return machine.module_named(name)
    except GuestRaise:
        return None


def _replace(machine: Machine, module: str, names: tuple[str, ...], value: Any) -> None:
    """Bind names of a module that has them."""
    found = _module(machine, module)
    for name in names if found is not None else ():
        if name in found.globals:  # type: ignore[union-attr]
            found.globals[name] = value  # type: ignore[union-attr]


def documented(cls: Any) -> dict[str, str]:
    """Return the texts that stand below the attributes of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.mro if isinstance(cls, GuestClass) else ()):
        body = base.node.body if isinstance(base, GuestClass) and base.node is not None else []
        for one, below in pairwise(body):
            text = below.value if isinstance(below, ast.Expr) else None
            targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found |= {t.id: cleandoc(text.value) for t in targets if isinstance(t, ast.Name)}
    return found


def _network(machine: Machine) -> None:
    """Leave ports and addresses of the host open, without following how they are found."""
    port, address = Unknown(("a port that is free",)), Unknown(("the host's address",))
    ports = Native("ports", lambda count=5, *a, **k: [port] * count, machine)
    for module in ("vllm.utils.network_utils", "vllm.utils"):
        _replace(machine, module, ("get_open_port",), Native("get_open_port", lambda *a, **k: port, machine))
        _replace(machine, module, ("get_open_ports_list",), ports)
        _replace(machine, module, ("get_ip",), Native("get_ip", lambda *a, **k: address, machine))


def _modules(run: Run) -> None:
    machine = run.machine
    data = run.tree.read(_BINDINGS)
    if data is not None:
        module = _empty(machine, _BINDINGS)
        for word in _BOUND.findall(data.decode("utf-8", "replace")):
            module.globals[word] = machine.external(f"pynvml.{word}")
    record = run.tree.distribution("RECORD") or b""
    for path in _COMPILED.findall(record.decode("utf-8", "replace")):
        _empty(machine, path)


def _empty(machine: Machine, path: str) -> ModuleValue:
    """Return a module of the package that is compiled, or answered otherwise."""
    name = "vllm." + path.partition(".")[0].replace("/", ".")
    module = machine.modules[name] = ModuleValue(name, path, None, ran=True)
    return module


def _inspect_models(machine: Machine) -> None:
    """Inspect a model's class here instead of in a process of its own, and never from what was kept of it."""
    registry = _module(machine, _REGISTRY)
    if registry is None:
        return
    cls = machine.module_attribute(registry, "_LazyRegisteredModel")
    info = machine.module_attribute(registry, "_ModelInfo")
    if isinstance(cls, GuestClass) and isinstance(info, GuestClass) and "inspect_model_cls" in cls.namespace:

        def inspect(held: Any) -> Any:
            model = machine.call(machine.get_attribute(held, "load_model_cls"), (), {})
            return machine.call(machine.get_attribute(info, "from_model_cls"), (model,), {})

        cls.namespace["inspect_model_cls"] = Native("inspect_model_cls", inspect, machine)


def _choose_platform(run: Run) -> None:
    """Bind the platform of the host, which the package finds by trying what is installed."""
    machine, platform = run.machine, run.facts.platform
    if platform is None:
        _any_platform(run)
        return
    if platform not in _PLATFORMS or machine.world.environment.get("VLLM_TARGET_DEVICE") not in (
        None,
        platform,
    ):
        return
    where, name = _PLATFORMS[platform]
    platforms = _module(machine, "vllm.platforms")
    if platforms is None:
        return
    if _FINDER in platforms.globals:
        platforms.globals[_FINDER] = Native(_FINDER, lambda: f"{where}.{name}", machine)
        return
    if (cls := _platform_class(machine, where, name)) is not None:
        platforms.globals["current_platform"] = machine.instantiate(cls, (), {})


def _platform_class(machine: Machine, where: str, name: str) -> GuestClass | None:
    module = _module(machine, where)
    cls = machine.module_attribute(module, name) if module is not None else MISSING
    return cls if isinstance(cls, GuestClass) else None


def _any_platform(run: Run) -> None:
    """Let the platform be any that the package brings; leave it open where a plugin may bring another."""
    machine = run.machine
    platforms = _module(machine, "vllm.platforms")
    # A plugin's platform may do anything to the parser; those that are known are named after the engine.
    if platforms is None or any(re.match(r"vllm[-_]", name) for name in run.facts.packages or ()):
        return
    found = [_platform_class(machine, *one) for one in (*_PLATFORMS.values(), *_OTHERS)]
    options = tuple(machine.instantiate(cls, (), {}) for cls in found if cls is not None)
    if options:
        platforms.globals["current_platform"] = Unknown(("platform",), options)
