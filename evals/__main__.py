"""Serve ``python -m evals`` as ``leadline eval``."""

from __future__ import annotations

import sys

from agent.surfaces.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["eval"]
    main()
