"""Measure the processor time that the built-in model needs for a case, its lab's processes included.

``python -m evals.bench_solve`` solves two cases in a worker of their own and prints seconds of processor and
of clock. What is imported until a worker, or a lab, is ready does not count.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from agent.config import load_settings
from evals import runs
from evals.jobs import Asked, plan
from evals.run import Run

PATTERN = "founding-[hc]*"
"""A host with nothing to fix, from scratch, and the founding case from a turn of its recording."""

CPU_S = 3.0
"""Processor seconds a case, at most."""


def main() -> int:
    """Print the seconds of each case and the limit; return 1 when one is over it or does not count."""
    asked = Asked(ways=["solve", "continue"], pattern=PATTERN, jobs=1)
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder:
        settings = load_settings().model_copy(update={"state_dir": Path(folder)})
        done = Run(settings, runs.create(settings, asked, plan(asked))).work()
    found = {
        f"{result.way} {result.case}": {"cpu_s": result.cpu_s, "wall_s": result.wall_s}
        for result in done.counted
    }
    missed = [name for name, spent in found.items() if spent["cpu_s"] > CPU_S]
    lost = [result.error for result in done.results if result.error]
    shown = {"cases": found, "limits": {"cpu_s": CPU_S}, "missed": missed, "not_counted": lost}
    sys.stdout.write(json.dumps({"solve": shown}, indent=1) + "\n")
    return 1 if missed or lost or not found else 0


if __name__ == "__main__":
    sys.exit(main())
