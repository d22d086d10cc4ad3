"""Options of the test run."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.threat_table", "tests.eval_fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let snapshots be written anew: ``pytest tests/test_snapshots.py --renew-snapshots``."""
    parser.addoption("--renew-snapshots", action="store_true", help="Write tests/snapshots/ anew.")
    parser.addoption("--renew-pictures", action="store_true", help="Write docs/pictures/ anew from a run.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that one file alone uses."""
    config.addinivalue_line("markers", "picture: makes pictures; most need Debian's chromium")
