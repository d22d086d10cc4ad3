"""NVML, versions, and the small questions that vLLM asks of packages which are not followed."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, parse

from tools.interpreter.callables import natives
from tools.interpreter.library.surroundings import read
from tools.interpreter.operators import DTYPES
from tools.interpreter.plain import Device
from tools.interpreter.values import External, GuestClass, GuestRaise, Instance, Native, Undecided, Unknown

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_LEAST: Final = {
    "cutlass_scaled_mm_supports_fp8": 89,
    "cutlass_scaled_mm_supports_block_fp8": 90,
    "cutlass_group_gemm_supported": 90,
    "cutlass_scaled_mm_supports_fp4": 100,
    "mxfp4_experts_quant_supported": 100,
}
"""From which compute capability the CUDA part of the package answers yes to these questions."""


class NVMLError(Exception):
    """Stand for the error of NVML's bindings."""


def install(machine: Machine) -> None:
    """Add what devices and versions are asked."""
    add = machine.library
    add["contextlib.suppress"] = Native("suppress", lambda *kinds: _suppressing(machine, kinds), machine)
    _add_versions(machine)
    _add_types_of_torch(machine)
    _add_devices(machine)
    _add_patterns(machine)


def _add_versions(machine: Machine) -> None:
    add = machine.library
    add["packaging.version.Version"] = add["packaging.version.parse"] = Native(
        "Version", _version, machine, raw=False
    )
    add["packaging.version.InvalidVersion"] = InvalidVersion
    add["packaging.specifiers.SpecifierSet"] = Native("SpecifierSet", SpecifierSet, machine, raw=False)


def _add_types_of_torch(machine: Machine) -> None:
    add = machine.library
    deterministic = machine.environment.get("TORCHINDUCTOR_DETERMINISTIC")
    add["torch._inductor.config.deterministic"] = (
        deterministic if isinstance(deterministic, Unknown) else deterministic == "1"
    )
    add["torch.device"] = Device
    for path, name in DTYPES.items():
        bits = re.search(r"\d+", name)
        if bits is not None or name == "bool":
            add[f"{path}.itemsize"] = max(1, int(bits[0]) // 8) if bits is not None else 1
            add[f"{path}.is_floating_point"] = name.startswith(("float", "bfloat"))


def _add_devices(machine: Machine) -> None:
    """Add what is asked of the machine's GPUs, processes and memory."""
    add = machine.library
    facts = machine.world.facts
    add["pynvml.NVMLError"] = NVMLError
    runs: dict[str, Callable[..., Any]] = {
        "logging.disable": lambda *a: None,
        "pynvml.nvmlDeviceGetMemoryInfo": lambda handle: _memory(facts.gpu_memory_mib),
        "pynvml.nvmlDeviceGetUUID": lambda handle: Unknown(("the GPU's UUID",)),
        "torch.cuda._is_compiled": lambda: _on(facts.platform, "cuda"),
        "torch.cuda._device_count_nvml": lambda: (
            Unknown(("gpu_count",)) if facts.gpu_count is None else facts.gpu_count
        ),
        "torch.accelerator.device_count": lambda: (
            Unknown(("gpu_count",)) if facts.gpu_count is None else facts.gpu_count
        ),
        "torch.accelerator.is_available": lambda: _on(facts.platform, "cuda", "hip"),
        "torch.accelerator.current_device_index": lambda: 0,
        "torch.distributed.is_initialized": lambda: False,
        "torch.distributed.is_available": lambda: True,
        "torch.backends.cuda.enable_cudnn_sdp": lambda *a: None,
        "torch.compiler.is_compiling": lambda: False,
        "psutil.virtual_memory": lambda: _host_memory(machine),
        "ray.is_initialized": lambda: False,
        "torch.library.custom_op": lambda *a, **k: Native("custom_op", lambda f: f, machine),
        "torch.library.register_fake": lambda *a, **k: Native("register_fake", lambda f: f, machine),
        "concurrent.futures.ProcessPoolExecutor": lambda *a, **k: _pool(machine),
        "concurrent.futures.process.ProcessPoolExecutor": lambda *a, **k: _pool(machine),
        "multiprocessing.get_context": lambda *a: External("multiprocessing.get_context()"),
        "threading.local": lambda: types.SimpleNamespace(),
        "threading.current_thread": lambda: External("threading.main_thread()"),
        "threading.main_thread": lambda: External("threading.main_thread()"),
    }
    add |= natives(machine, runs)
    for name, least in _LEAST.items():
        run = lambda have, least=least: have >= least  # noqa: E731
        for module in ("_C", "_C_stable_libtorch", "_moe_C"):
            add[f"torch.ops.{module}.{name}"] = Native(name, run, machine, raw=False)


def _add_patterns(machine: Machine) -> None:
    """Add ``regex`` by ``re``, which reads most of its patterns."""
    add = machine.library
    for name in ("compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer", "escape"):
        add[f"regex.{name}"] = Native(name, _alike(getattr(re, name)), machine, raw=False)
    for name in ("IGNORECASE", "DOTALL", "MULTILINE", "VERBOSE", "I", "S", "M", "X", "Pattern", "Match"):
        add[f"regex.{name}"] = getattr(re, name)


def _pool(machine: Machine) -> Instance:
    """Return a pool of processes that does its work here and now."""
    cls = GuestClass("ProcessPoolExecutor", (), {}, machine, "")
    cls.record_is_own = False  # type: ignore[attr-defined]

    def submit(held: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        found = machine.call(function, args, kwargs)
        return types.SimpleNamespace(result=Native("result", lambda *a, **k: found, machine))

    cls.namespace["__enter__"] = Native("__enter__", lambda held: held, machine)
    for name in ("__exit__", "shutdown"):
        cls.namespace[name] = Native(name, lambda *a, **k: None, machine)
    cls.namespace["submit"] = Native("submit", submit, machine)
    return Instance(cls)


def _alike(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of ``re`` as one of ``regex``, whose patterns may hold more."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs)
        except re.error:
            raise Undecided(("a regular expression",)) from None

    return call


def _suppressing(machine: Machine, kinds: tuple[Any, ...]) -> Native:
    """Return a context manager that ends quietly when its block raises one of some errors."""

    def run(inside: Callable[[Any], Any]) -> Any:
        try:
            return inside(None)
        except GuestRaise as raised:
            if machine.is_instance(raised.value, kinds) is False:
                raise
            return None

    return Native("contextmanager", run, machine)


def _on(platform: str | None, *names: str) -> Any:
    return Unknown(("platform",)) if platform is None else platform in names


def _version(text: Any) -> Any:
    try:
        return parse(str(text))
    except InvalidVersion as error:
        raise GuestRaise(error) from None


def _host_memory(machine: Machine) -> Any:
    """Return what the kernel says of the host's memory."""
    data = read(machine, "/proc/meminfo")
    found = re.search(rb"^MemTotal:\s*(\d+) kB", data, re.MULTILINE) if isinstance(data, bytes) else None
    unknown = Unknown(("the host's memory",))
    total = int(found[1]) << 10 if found is not None else unknown
    return types.SimpleNamespace(total=total, available=unknown, free=unknown, used=unknown, percent=unknown)


def _memory(mib: int | None) -> Any:
    """Return the GPU's memory in bytes: between what ``nvidia-smi`` says in MiB and one more."""
    if mib is None:
        total: Any = Unknown(("gpu_memory_mib",))
    else:
        total = Unknown(("the GPU's memory in bytes",), (mib << 20, (mib + 1 << 20) - 1))
    return types.SimpleNamespace(
        total=total, free=Unknown(("the GPU's free memory",)), used=Unknown(("the GPU's free memory",))
    )
