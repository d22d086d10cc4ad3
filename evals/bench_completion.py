"""Measure what a press of Tab costs against the help text: commands, hosts, and 200 investigations."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 1.3
SESSIONS = 200
_ROUNDS = 7


def main() -> int:
    """Print the ratios of processor time; return 1 when a limit is passed."""
    leadline = str(Path(sys.executable).with_name("leadline"))
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder) / "threads")
        lines = {
            "commands": "leadline ",
            "options": "leadline ask gpu1 --",
            "hosts": "leadline ask ",
            f"{SESSIONS} investigations": "leadline sessions show ",
        }
        commands = {"help": [leadline, "--help"], "script": [leadline, "completion", "bash"]}
        commands |= {
            name: [leadline, "completion-words", folder, "", "", line] for name, line in lines.items()
        }
        spent = _spent(commands)
    base = spent.pop("help")
    worst = max(spent.values()) / base
    for name, seconds in spent.items():
        print(f"completion: {name} {seconds / base:.2f} x --help ({seconds * 1000:.0f} ms), limit {LIMIT}")
    return int(worst > LIMIT)


def _fill(threads: Path) -> None:
    for number in range(SESSIONS):
        folder = threads / f"20260131-{number:06}-9f3a"
        folder.mkdir(parents=True)
        begun = {"type": "started", "hosts": ["gpu1"], "symptom": "PP8 decode is slow: 24 tok/s " * 5}
        (folder / "transcript.jsonl").write_text(json.dumps(begun) + "\n" + "x" * 100_000)


def _spent(commands: dict[str, list[str]]) -> dict[str, float]:
    """Return the median processor seconds of each command, run in turn."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(_ROUNDS):
        for name, command in commands.items():
            times[name].append(_once(command))
    return {name: statistics.median(found) for name, found in times.items()}


def _once(command: list[str]) -> float:
    """Run a command and return what it and nobody else took of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
