"""``torch`` and its kind: answered from the facts of the host, unknown where they do not say."""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any, cast

from tools.interpreter.library.surroundings import version_of
from tools.interpreter.values import External, GuestRaise, Native, Unknown

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine


def capability(arch: str | None) -> tuple[int, int] | None:
    """Return the compute capability that an architecture's name says (``sm120`` is 12.0)."""
    found = re.fullmatch(r"sm_?(\d+)(\d)a?", arch or "")
    return (int(found[1]), int(found[2])) if found else None


def between(mib: int) -> Unknown:
    """Return the memory in bytes that ``torch`` may see of a GPU, by its bounds, to be compared.

    What the driver keeps for itself, up to a few parts in a hundred, is not in it.
    """
    return Unknown(("the GPU's memory in bytes",), ((mib << 20) * 96 // 100, (mib + 1 << 20) - 1))


def install(machine: Machine) -> None:
    """Add ``torch``."""
    own = Torch(machine)
    for path, run in {
        "torch.cuda.is_available": own.available,
        "torch.cuda.is_initialized": lambda: False,
        "torch.cuda.device_count": own.count,
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.get_device_capability": own.capability,
        "torch.cuda.get_device_name": own.name,
        "torch.cuda.get_device_properties": own.properties,
        "torch.cuda.is_bf16_supported": own.bf16,
        "torch.xpu.is_available": lambda: own.platform("xpu"),
        "torch.npu.is_available": lambda: own.platform("npu"),
        "torch.hpu.is_available": lambda: own.platform("hpu"),
        "torch.musa.is_available": lambda: own.platform("musa"),
        "torch.backends.mps.is_available": own.mps,
        "torch.mps.is_available": own.mps,
        "torch.device": lambda name, *a: own.device(name),
        "torch.cuda._get_nvml_device_index": lambda index: index,
        "pynvml.nvmlInit": lambda: None,
        "pynvml.nvmlShutdown": lambda: None,
        "pynvml.nvmlDeviceGetCount": own.count,
        "pynvml.nvmlDeviceGetHandleByIndex": lambda index: External("an NVML handle"),
        "pynvml.nvmlDeviceGetCudaComputeCapability": own.capability,
        "pynvml.nvmlDeviceGetName": own.name,
    }.items():
        machine.library[path] = Native(path, cast(Any, run), machine)
    for name in ("cuda", "xpu", "mps", "backends", "version", "distributed", "accelerator"):
        machine.library[f"torch.{name}?"] = lambda: True
    for name in ("npu", "hpu", "musa"):
        machine.library[f"torch.{name}?"] = lambda name=name: own.platform(name)
    machine.library["torch.version.hip?"] = machine.library["torch.version.cuda?"] = lambda: True
    machine.library["torch.version.musa?"] = lambda: own.platform("musa")
    machine.library["torch.version.cuda"] = own.cuda()
    machine.library["torch.version.hip"] = own.hip()
    machine.library["torch.__version__"] = own.version()


class Torch:
    """Answer what argument code asks ``torch``."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.facts = machine.world.facts

    def platform(self, name: str) -> Any:
        """Tell whether the host is of a platform."""
        known = self.facts.platform
        return Unknown(("platform",)) if known is None else known == name

    def mps(self) -> Any:
        """Tell whether there is Apple's GPU: never where another platform is known."""
        return Unknown(("platform",)) if self.facts.platform is None else False

    def available(self) -> Any:
        """Tell whether a GPU of NVIDIA or AMD can be used."""
        return (
            Unknown(("platform",)) if self.facts.platform is None else self.facts.platform in ("cuda", "hip")
        )

    def count(self) -> Any:
        """Return how many GPUs there are."""
        found = self.facts.gpu_count
        return Unknown(("gpu_count",)) if found is None else found

    def capability(self, *device: Any) -> Any:
        """Return the compute capability."""
        found = capability(self.facts.gpu_arch)
        return Unknown(("gpu_arch",)) if found is None else found

    def name(self, *device: Any) -> Any:
        """Return the GPU's name."""
        return Unknown(("gpu_name",)) if self.facts.gpu_name is None else self.facts.gpu_name

    def properties(self, *device: Any) -> Any:
        """Return the GPU's properties."""
        facts = self.facts
        pair = capability(facts.gpu_arch)
        unknown = Unknown(("gpu_arch",))
        memory = Unknown(("gpu_memory_mib",))
        return types.SimpleNamespace(
            name=self.name(),
            major=pair[0] if pair else unknown,
            minor=pair[1] if pair else unknown,
            total_memory=memory if facts.gpu_memory_mib is None else between(facts.gpu_memory_mib),
            multi_processor_count=Unknown(("the number of multiprocessors",)),
            gcnArchName=facts.gpu_arch if (facts.gpu_arch or "").startswith("gfx") else unknown,
        )

    def bf16(self, *args: Any) -> Any:
        """Tell whether the GPU computes in bfloat16."""
        pair = capability(self.facts.gpu_arch)
        return Unknown(("gpu_arch",)) if pair is None else pair >= (8, 0)

    def cuda(self) -> Any:
        """Return the CUDA version of the build; None on other platforms."""
        if self.facts.platform not in (None, "cuda"):
            return None
        return Unknown(("cuda_version",)) if self.facts.cuda_version is None else self.facts.cuda_version

    def hip(self) -> Any:
        """Return the HIP version of the build; None on other platforms."""
        if self.facts.platform not in (None, "hip"):
            return None
        return Unknown(("the HIP version" if self.facts.platform == "hip" else "platform",))

    def version(self) -> Any:
        """Return the version of ``torch``."""
        doubts = self.machine.doubts
        try:
            return version_of(self.machine, "torch")
        except GuestRaise:
            return Unknown(("version of torch",))
        finally:
            self.machine.doubts = doubts

    def device(self, name: Any) -> Any:
        """Return a device by its name."""
        if isinstance(name, str):
            kind, _, index = name.partition(":")
            return types.SimpleNamespace(type=kind, index=int(index) if index.isdigit() else None)
        return External("torch.device()")
