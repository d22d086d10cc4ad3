"""Measure how many recorded investigations are repeated a second on one core, reading them included.

``python -m evals.bench_replay`` prints each recording's processor seconds as JSON: the least of some rounds,
since other programs can only add to them. The first round, with its imports, does not count.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from agent.config import load_settings, pin_libraries
from agent.errors import LeadlineError
from agent.replay import replay
from evals import recordings

RATE = 10.0
"""Investigations a second on one core, at least."""
ROUNDS = 5


def measure() -> tuple[dict[str, float], list[str]]:
    """Return the processor seconds of each recording of an investigation, and which differ now."""
    settings = load_settings()
    names = [
        name for name in recordings.names() if not recordings.about(name).recorded.startswith("baseline")
    ]
    if not names:
        raise LeadlineError("there is no recording to repeat", do="see transcripts/README.md")
    least: dict[str, float] = {}
    differ: set[str] = set()
    for place in range(ROUNDS + 1):
        for name in names:
            began = time.process_time()
            report = asyncio.run(replay(recordings.load(name), settings))
            spent = time.process_time() - began
            if place:
                least[name] = min(spent, least.get(name, spent))
            if not report.same:
                differ.add(name)
    return least, sorted(differ)


def main() -> int:
    """Print the rates and their limit; return 1 when it is missed or a replay goes another way."""
    pin_libraries()
    least, differ = measure()
    rate = len(least) / sum(least.values())
    missed = ["replays_a_second"] if rate < RATE else []
    shown = {
        "replays_a_second": round(rate, 2),
        "cpu_s": {name: round(spent, 4) for name, spent in least.items()},
        "limits": {"replays_a_second": RATE},
        "missed": missed,
        "differ": differ,
    }
    sys.stdout.write(json.dumps({"replay": shown}, indent=1) + "\n")
    return 1 if missed or differ else 0


if __name__ == "__main__":
    sys.exit(main())
