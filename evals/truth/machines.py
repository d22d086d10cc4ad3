"""The machines that are pretended; numbers are those of the GPUs' data sheets and of nvidia-smi."""

from __future__ import annotations

from typing import Final

from evals.truth.inside.pretended import Machine

CUDA: Final = "13.0"
MACHINES: Final = {
    one.id: one
    for one in (
        Machine(
            "rtxpro6000x8", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, (12, 0), 8, 188, CUDA
        ),
        Machine("h100x8", "NVIDIA H100 80GB HBM3", 81_559, (9, 0), 8, 132, CUDA),
        Machine("h200x8", "NVIDIA H200", 143_771, (9, 0), 8, 132, CUDA),
        Machine("b200x8", "NVIDIA B200", 183_359, (10, 0), 8, 148, CUDA),
        Machine("a100-40x8", "NVIDIA A100-SXM4-40GB", 40_960, (8, 0), 8, 108, CUDA),
        Machine("l4x1", "NVIDIA L4", 23_034, (8, 9), 1, 58, CUDA),
    )
}
DEFAULT: Final = "rtxpro6000x8"
WEIGHTS: Final = {
    "rtxpro6000x8": 50,
    "h100x8": 16,
    "b200x8": 12,
    "h200x8": 8,
    "a100-40x8": 8,
    "l4x1": 6,
}
"""How often random lines run on each; the founding case's machine leads."""
