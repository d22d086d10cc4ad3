"""Make the separate environment: torch for the CPU, what engines import, a version's transformers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from agent.errors import LeadlineError
from evals.truth.inside import pins

TORCH: Final = ("torch==2.13.0", "torchvision==0.28.0", "triton==3.5.1")
_IMPORTED: Final = Path(__file__).with_name("imported.txt")
_PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
INSTALL_S: Final = 1800

Progress = Callable[[str], None]


class SetupError(LeadlineError):
    """Report that the separate environment cannot be made."""


def interpreter(folder: Path, progress: Progress) -> Path:
    """Return the environment's interpreter, installing it the first time."""
    venv, python = folder / "venv", folder / "venv" / "bin" / "python"
    done = folder / "venv" / ".installed"
    if not done.exists():
        progress(f"making {venv}, once: torch and about 60 packages, some minutes")
        folder.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(venv)])
        _run([str(python), *_PIP, *TORCH, "-r", str(_IMPORTED)])
        done.touch()
    return python


def transformers(folder: Path, site: Path, progress: Progress, version: str = "") -> Path:
    """Return a folder with the transformers of a release: the pinned one, else the least it asks for."""
    version = version or pins.exactly(site, "transformers") or pins.required(site).get("transformers", "")
    if not version:
        raise SetupError(f"{site.name} states no transformers", do="name one with --transformers VERSION")
    final = folder / f"transformers-{version}"
    if not list(final.glob("transformers-*.dist-info")):
        progress(f"installing transformers {version} beside it, once")
        _run([str(folder / "venv/bin/python"), *_PIP, "--target", str(final), f"transformers=={version}"])
    return final


def _run(argv: Sequence[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise SetupError(f"{argv[-1]}: pip took over {INSTALL_S} s", do="try again") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise SetupError(f"pip could not install ({last[:300]})", do="go online and try again")
