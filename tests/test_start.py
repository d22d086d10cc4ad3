"""What makes the command line slow to start is not loaded for a help text."""

from __future__ import annotations

from evals.bench_start import _imported_by_help


def test_help_loads_nothing_heavy() -> None:
    assert _imported_by_help() == []
