"""Run the simulated engine in the place of the real one's launch module (see ``boot.py``)."""

from __future__ import annotations

import sys

from evals.lab import simulator

FACTS_FILE = "/run/lab/engine-facts.json"

if __name__ == "__main__":
    sys.exit(simulator.main(sys.argv[1:], FACTS_FILE))
