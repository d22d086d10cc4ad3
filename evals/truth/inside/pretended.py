"""Pretend a machine with GPUs: the queries of torch, NVML and nvidia-smi, and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DRIVER = "580.95.05"
HOST_MEMORY = 1 << 40
_SMI = """#!/bin/sh
case "$*" in
  *memory.total*) line=$PRETENDED_MEMORY ;;
  *compute_cap*) line=$PRETENDED_CAPABILITY ;;
  *driver_version*) line=$PRETENDED_DRIVER ;;
  *-L* | *--list-gpus*) line="GPU: $PRETENDED_NAME" ;;
  *) exit 1 ;;
esac
n=0
while [ "$n" -lt "$PRETENDED_COUNT" ]; do
  echo "$line"
  n=$((n + 1))
done
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """Hold one machine: its GPUs as nvidia-smi and torch describe them."""

    id: str
    name: str
    memory_mib: int
    capability: tuple[int, int]
    count: int
    processors: int
    cuda: str

    @property
    def memory(self) -> int:
        """Return the bytes of one GPU's memory."""
        return self.memory_mib << 20

    @property
    def variables(self) -> dict[str, str]:
        """Return what the pretended nvidia-smi reads."""
        return {
            "PRETENDED_NAME": self.name,
            "PRETENDED_MEMORY": str(self.memory_mib),
            "PRETENDED_CAPABILITY": ".".join(str(part) for part in self.capability),
            "PRETENDED_COUNT": str(self.count),
            "PRETENDED_DRIVER": DRIVER,
        }


class Pretence:
    """Answer torch and NVML for one machine, which may be exchanged between forks."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def properties(self, *args: Any, **options: Any) -> Any:
        """Return what torch says of a device."""
        machine = self.machine
        return types.SimpleNamespace(
            name=machine.name,
            total_memory=machine.memory,
            major=machine.capability[0],
            minor=machine.capability[1],
            multi_processor_count=machine.processors,
            is_integrated=False,
        )

    def install(self) -> None:
        """Replace the queries of torch.cuda, and lay an NVML module that knows the same devices."""
        torch: Any = importlib.import_module("torch")
        importlib.import_module(
            "torch._inductor.utils"
        )  # it looks for real CUDA bindings where a GPU is said
        torch.version.cuda = self.machine.cuda
        cuda = torch.cuda
        cuda.is_available = lambda: self.machine.count > 0
        cuda.is_initialized = lambda: True
        cuda.device_count = lambda: self.machine.count
        cuda.current_device = lambda: 0
        cuda.get_device_capability = lambda *args, **options: self.machine.capability
        cuda.get_device_name = lambda *args, **options: self.machine.name
        cuda.get_device_properties = self.properties
        cuda.mem_get_info = lambda *args, **options: (self.machine.memory, self.machine.memory)
        module = types.ModuleType("pynvml")
        module.__dict__["NVMLError"] = type("NVMLError", (Exception,), {})
        self.answer_nvml(module)
        sys.modules["pynvml"] = module
        _pretend_memory()

    def answer_nvml(self, module: types.ModuleType) -> None:
        """Let a module of NVML bindings answer for the pretended devices."""

        def memory(handle: Any) -> Any:
            total = self.machine.memory
            return types.SimpleNamespace(total=total, free=total, used=0)

        vars(module).update(
            nvmlInit=lambda *args: None,
            nvmlShutdown=lambda *args: None,
            nvmlDeviceGetCount=lambda: self.machine.count,
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetCudaComputeCapability=lambda handle: self.machine.capability,
            nvmlDeviceGetMemoryInfo=memory,
            nvmlDeviceGetName=lambda handle: self.machine.name,
            nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
            nvmlSystemGetDriverVersion=lambda: DRIVER,
        )


def _pretend_memory() -> None:
    """Let the host have the memory of such a machine, where psutil is asked for it."""
    with contextlib.suppress(ImportError):
        psutil: Any = importlib.import_module("psutil")
        now = psutil.virtual_memory()._replace(total=HOST_MEMORY, available=HOST_MEMORY, free=HOST_MEMORY)
        psutil.virtual_memory = lambda: now


def write_smi(folder: Path) -> None:
    """Write an nvidia-smi that answers from the environment."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "nvidia-smi"
    program.write_text(_SMI)
    program.chmod(0o755)


def machine_of(values: dict[str, Any]) -> Machine:
    """Return a machine from plain JSON values."""
    return Machine(**{**values, "capability": tuple(values["capability"])})


def values_of(machine: Machine) -> dict[str, Any]:
    """Return a machine as plain JSON values."""
    return dataclasses.asdict(machine)
