"""Measure how long a decision on a command takes, warm, over both corpora, with and without site rules."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools.policy import judge, policy_in_force
from tools.policy_settings import PolicySettings

LIMIT_MS = 1.0
"""What a decision may take, by the median and by the 99th of 100."""
_ROUNDS = 5
_DATA = Path(__file__).parent.parent / "tests" / "data"
_SITE = """
rules:
- names: [fabricctl]
  style: words
  words: [status]
  accepts: [fabricctl status]
  rejects: [fabricctl reset]
limits:
- {names: [kubectl], verdict: ask, why: not here, matches: [kubectl get pods]}
"""


def corpus() -> list[str]:
    """Return the commands of both corpora, and the longest that is read at all."""
    out = []
    for name in ("policy_allow.txt", "policy_refuse.tsv"):
        for line in (_DATA / name).read_text().splitlines():
            if line and not line.startswith("# "):
                text = line.partition("\t")[0]
                out.append(
                    text[3:].encode("ascii").decode("unicode_escape") if text.startswith("py:") else text
                )
    return [*out, f"grep -n '{'x' * 3950}' /opt/x"]


def milliseconds(commands: Sequence[str], settings: PolicySettings) -> list[float]:
    """Return what each decision takes, the best of some rounds, the reading of the site's file included."""
    best = [float("inf")] * len(commands)
    for _ in range(_ROUNDS):
        for index, command in enumerate(commands):
            begun = time.perf_counter()
            judge(command, policy_in_force(settings))
            best[index] = min(best[index], (time.perf_counter() - begun) * 1000)
    return best


def main() -> int:
    """Print the figures as one JSON line; return 1 when a decision takes longer than it may."""
    commands = corpus()
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "policy.yaml"
        site.write_text(_SITE)
        taken = {
            "shipped": milliseconds(commands, PolicySettings()),
            "with_site": milliseconds(commands, PolicySettings(rules=site)),
        }
    row: dict[str, float | int | str] = {"bench": "policy", "commands": len(commands), "limit_ms": LIMIT_MS}
    slow = False
    for name, values in taken.items():
        p99 = statistics.quantiles(values, n=100)[98]
        row |= {
            f"{name}_median_ms": round(statistics.median(values), 4),
            f"{name}_p99_ms": round(p99, 4),
            f"{name}_max_ms": round(max(values), 4),
        }
        slow |= p99 > LIMIT_MS
    sys.stdout.write(json.dumps(row) + "\n")
    return int(slow)


if __name__ == "__main__":
    raise SystemExit(main())
