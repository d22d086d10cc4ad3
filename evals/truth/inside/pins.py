"""Say which distributions an engine's wheel requires, and which modules of them are only pretended."""

from __future__ import annotations

import csv
import re
from pathlib import Path, PurePosixPath

MODULES: dict[str, tuple[str, ...]] = {
    "apache-tvm-ffi": ("tvm_ffi",),
    "cuda-python": ("cuda",),
    "decord": ("decord",),
    "decord2": ("decord",),
    "easydict": ("easydict",),
    "flashinfer-cubin": ("flashinfer_cubin",),
    "flashinfer-python": ("flashinfer",),
    "humming-kernels": ("humming",),
    "llguidance": ("llguidance",),
    "nvidia-cutlass-dsl": ("cutlass",),
    "openai-harmony": ("openai_harmony",),
    "outlines": ("outlines", "outlines_core"),
    "quack-kernels": ("quack",),
    "sgl-deep-ep": ("deep_ep",),
    "sgl-deep-gemm": ("deep_gemm",),
    "sgl-flash-mla": ("flash_mla",),
    "sgl-kernel": ("sgl_kernel", "deep_gemm", "triton_kernels"),
    "sglang-kernel": ("sgl_kernel", "deep_gemm", "triton_kernels"),
    "soundfile": ("soundfile",),
    "tilelang": ("tilelang",),
    "tokenspeed-mla": ("tokenspeed_mla",),
    "torch-memory-saver": ("torch_memory_saver",),
    "torchao": ("torchao",),
    "torchaudio": ("torchaudio",),
    "torchcodec": ("torchcodec",),
    "xgrammar": ("xgrammar",),
}
"""Modules of a required distribution that stand empty when they are not really installed."""
UNASKED: dict[str, tuple[str, ...]] = {"av": ("av",), "decord2": ("decord",), "nvtx": ("nvtx",)}
"""What some versions import at the top of a module although they do not require it."""
UNPINNED = "99.0"
"""The version that a stand-in states when the wheel names none."""
_EXTRAS = re.compile(r"""extra == ['"](srt|runtime-common)['"]""")
"""Early SGLang kept what a server needs in these extras."""
_REQUIRED = re.compile(r"Requires-Dist:\s*([\w.-]+)\s*(?:\[[^\]]*\])?\s*([^;]*)(?:;(.*))?")
_PINNED = re.compile(r"[=>~]=\s*(\d[^\s,)]*)")


def plain_name(name: str) -> str:
    """Return a distribution's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(site: Path) -> dict[str, str]:
    """Return what the wheel unpacked in ``site`` requires: name to stated version, ``""`` for any.

    The version is the pinned one, else the least that is asked for.
    """
    return {name: version[1] if version else "" for name, version in _stated(site)}


def exactly(site: Path, name: str) -> str:
    """Return the version of a requirement that is pinned with ``==``, or ``""``."""
    found = (asked for asked in _lines(site) if plain_name(asked[1]) == name)
    return next((pin[1] for one in found if (pin := re.search(r"==\s*([\w.]+)", one[2]))), "")


def _stated(site: Path) -> list[tuple[str, re.Match[str] | None]]:
    found: dict[str, re.Match[str] | None] = {}
    for asked in _lines(site):
        found.setdefault(plain_name(asked[1]), _PINNED.search(asked[2]))
    return list(found.items())


def _lines(site: Path) -> list[re.Match[str]]:
    """Return the requirements of a server: the plain ones, and those of the extras that held them once."""
    matches = []
    for metadata in sorted(site.glob("*.dist-info/METADATA")):
        for line in metadata.read_text("utf-8", "replace").splitlines():
            found = _REQUIRED.fullmatch(line.strip())
            if found and ("extra ==" not in (found[3] or "") or _EXTRAS.search(found[3])):
                matches.append(found)
    return matches


def compiled(site: Path) -> set[str]:
    """Return the names of the wheel's compiled modules, which are not unpacked."""
    found = set()
    for record in site.glob("*.dist-info/RECORD"):
        for row in csv.reader(record.read_text("utf-8").splitlines()):
            path = PurePosixPath(row[0])
            if path.suffix == ".so":
                found.add(".".join([*path.parent.parts, path.name.partition(".")[0]]))
    return found


def pretended(site: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the distributions that may be pretended: name to version and modules."""
    asked = required(site)
    wanted = {name: modules for name, modules in MODULES.items() if name in asked} | UNASKED
    return {name: (asked.get(name) or UNPINNED, modules) for name, modules in wanted.items()}
