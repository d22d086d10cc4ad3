"""Run the simulated engine in the place of the real one's launch module (see ``boot.py``)."""

from __future__ import annotations

import os
import sys

from evals.lab import simulator

FACTS_FILE = "/run/lab/engine-facts.json"

if __name__ == "__main__":
    # What differs between starts of one unit says nothing about the engine's settings.
    os.environ.pop("INVOCATION_ID", None)  # noqa: TID251 - the environment of the engine's own process
    sys.exit(simulator.main(sys.argv[1:], FACTS_FILE))
