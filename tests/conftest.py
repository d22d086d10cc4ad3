"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let snapshots be written anew: ``pytest tests/test_snapshots.py --renew-snapshots``."""
    parser.addoption("--renew-snapshots", action="store_true", help="Write tests/snapshots/ anew.")
