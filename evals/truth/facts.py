"""Say what our evaluation would know of the host on which a record was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from evals.truth.inside import pins
from evals.truth.read import Recorded
from tools.settings.host_facts import Installed
from tools.settings.types import HostFacts

_REAL: Final = {"torch": "2.13.0+cpu", "torchvision": "0.28.0", "triton": "3.5.1"}
"""What records without a list of packages were made with, whatever the wheel pins."""
_ABSENT: Final = (
    *("aiter", "deep-ep", "deep_ep", "deepep", "kernels", "lmcache", "mooncake", "mooncake-transfer-engine"),
    *("mori", "nixl", "sgl-kernel-npu", "sgl_kernel_npu", "torch-npu", "torch_npu", "torch_musa", "vllm"),
)
"""Optional packages that no requirement brings, so that they were not there."""
ALWAYS: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONHASHSEED": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Variables that were set for every record."""


def of_record(
    record: Recorded,
    site: Path,
    read_file: Callable[[str], bytes | None],
    list_folder: Callable[[str], Sequence[str]] | None = None,
) -> HostFacts:
    """Return the facts of the pretended machine and of the environment that the record was made in."""
    machine = record.hardware
    major, minor = machine["capability"]
    return HostFacts(
        platform="cuda",
        gpu_arch=f"sm{major}{minor}",
        gpu_name=machine["name"],
        gpu_count=machine["count"],
        gpu_memory_mib=machine["mem_mib"],
        cuda_version=machine["torch_version_cuda"],
        packages=packages(site, record.packages),
        read_file=read_file,
        list_folder=list_folder,
    )


def packages(site: Path, listed: Mapping[str, str] | None) -> Mapping[str, str | None]:
    """Return what was installed: what is listed, else what the wheel requires and little that surely was not.

    Modules that were pretended stand among the distributions.
    """
    found = dict(listed) if listed is not None else pins.required(site) | _REAL
    held = {pins.plain_name(name) for name in found}
    for _, modules in pins.pretended(site).values():
        found |= {module: "" for module in modules if pins.plain_name(module) not in held}
    if listed is not None:
        return Installed(found)
    known = {pins.plain_name(name) for name in found}
    return {**found, **{name: None for name in _ABSENT if pins.plain_name(name) not in known}}


def names_from(models: Path) -> Callable[[str], Sequence[str]]:
    """Return what names the files of the model folders; elsewhere it cannot tell."""

    def names(path: str) -> Sequence[str]:
        place = Path(path)
        if not place.is_relative_to(models) or not place.is_dir():
            raise OSError(f"{path} is no folder of the models")
        return sorted(one.name for one in place.iterdir())

    return names


def from_folder(models: Path) -> Callable[[str], bytes | None]:
    """Return a reader of the model folders; elsewhere it cannot tell."""

    def read(path: str) -> bytes | None:
        place = Path(path)
        if not place.is_relative_to(models):
            raise OSError(f"{path} lies outside the models")
        return place.read_bytes() if place.is_file() else None

    return read
