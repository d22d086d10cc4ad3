"""Mask secrets in what hosts print, before a model, a transcript or a disk sees it.

Five kinds of signs, in this order: secrets of our own, wherever and however they are written; the shape of a
value (``hf_...``, a private key block, the rules of gitleaks); the words before it; its place in a whole text
(a Kubernetes secret); and the name that stands before it (``API_KEY=...``). A value is replaced by a
placeholder with a digest keyed by this installation, the same wherever it stands, so that two places can
still be compared. Line breaks are kept, so that line numbers stay right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tools import redact_cuts
from tools.redact_logs import mask_messages
from tools.redact_marks import MASKED, collecting, placeholder
from tools.redact_named import mask_named
from tools.redact_names import strength
from tools.redact_shapes import mask_own, mask_shapes

__all__ = ["environ_view", "placeholder", "redact", "secrets_in"]

_SHOWN: Final = re.compile(
    r"(?:CUDA|NCCL|GLOO|VLLM|SGLANG|SGL|OMP|MKL|OPENBLAS|HF|TORCH|PYTORCH|TORCHINDUCTOR|NVIDIA|NVSHMEM|NVTE|TRITON"
    r"|FLASHINFER|DG|DEEPGEMM|DEEPEP|UCX|RAY|TRANSFORMERS|TOKENIZERS|SAFETENSORS|MALLOC|PYTHON|MOONCAKE)[A-Z0-9_]*"
    r"|LD_PRELOAD|LD_LIBRARY_PATH|PATH|VIRTUAL_ENV|CONDA_PREFIX|LANG|LC_[A-Z]+|TZ|TMPDIR|RANK|LOCAL_RANK|WORLD_SIZE"
    r"|MASTER_ADDR|MASTER_PORT"
)


def redact(data: bytes) -> bytes:
    """Return ``data`` with secrets replaced by placeholders; the number of lines stays the same."""
    data = mask_messages(data, _masked)
    return redact_cuts.mask_cuts(data) if redact_cuts.SIGN in data else data


def _masked(data: bytes) -> bytes:
    return mask_named(mask_shapes(mask_own(data)))


def secrets_in(data: bytes) -> set[bytes]:
    """Return the secrets that `redact` would mask, a line each: to mask them elsewhere, never to be kept."""
    with collecting() as found:
        redact(data)
    return {value for value in found if value and not MASKED.fullmatch(value)}


def environ_view(pairs: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """Return environment names with values where they may be shown; ``None`` for the other names."""
    view: dict[str, str | None] = {}
    for name, value in sorted(pairs):
        if not _SHOWN.fullmatch(name):
            view[name] = None
        elif strength(name) != "none" and value:
            view[name] = placeholder("secret", value.encode("utf-8", "surrogateescape")).decode()
        else:
            view[name] = redact(value.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
    return view
