"""Run the simulated engine in the place of the real one's launch module (see ``boot.py``)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

FACTS_FILE = "/run/lab/engine-facts.json"


def serve(argv: Sequence[str]) -> int:
    """Run the service that this process was started for; ``argv`` is its whole command line."""
    from evals.lab.inside import ask

    # What differs between starts of one unit says nothing about the engine's settings.
    invocation = os.environ.pop("INVOCATION_ID", "")  # noqa: TID251 - the engine's own process
    facts = ask.described(invocation)
    if facts is not None:
        from evals.lab import described_main

        return described_main.run(facts, argv)
    if Path(FACTS_FILE).is_file():
        from evals.lab import simulator

        return simulator.main(sys.argv[1:], FACTS_FILE)
    code, out, err = ask.ask(["lab-program", *sys.argv])
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code


def main() -> int:
    """Run in the place of a console script's own function."""
    return serve(sys.orig_argv)


if __name__ == "__main__":
    sys.exit(main())
