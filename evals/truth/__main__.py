"""Serve ``python -m evals.truth``."""

from __future__ import annotations

from evals.truth.commands import app

if __name__ == "__main__":
    app(prog_name="python -m evals.truth")
