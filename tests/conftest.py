"""Options of the test run."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["tests.threat_table", "tests.eval_fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let snapshots be written anew: ``pytest tests/test_snapshots.py --renew-snapshots``."""
    parser.addoption("--renew-snapshots", action="store_true", help="Write tests/snapshots/ anew.")
    parser.addoption("--renew-pictures", action="store_true", help="Write docs/pictures/ anew from a run.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that one file alone uses."""
    config.addinivalue_line("markers", "picture: makes pictures; most need Debian's chromium")
    if getattr(config.option, "tx", None) and not hasattr(config, "workerinput") and _may_unshare():
        own = shlex.join([str(Path(__file__).with_name("worker.sh")), sys.executable])
        config.option.tx = [f"popen//python={own}" if spec == "popen" else spec for spec in config.option.tx]


def _may_unshare() -> bool:
    """Tell whether a worker can be given processes of its own: on Linux, and as root."""
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0
