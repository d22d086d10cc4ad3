"""Run every benchmark one after the other: ``make bench``. Ratios inside one run, never absolutes alone."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path


def names() -> list[str]:
    """Return the modules that measure something: every ``evals/bench_*.py``."""
    return sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))


def main() -> int:
    """Run each benchmark in a process of its own, so that none warms another; return how many failed."""
    failed = []
    for name in names():
        importlib.import_module(f"evals.{name}")
        if subprocess.run([sys.executable, "-m", f"evals.{name}"], check=False).returncode:
            failed.append(name)
    print(f"benchmarks over their limit: {', '.join(failed) or 'none'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
