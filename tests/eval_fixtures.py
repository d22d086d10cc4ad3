"""One small case with one recording of it, made once a test file and copied for each test."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the case and its recording."""
    from tests.eval_parts import case_file, recorded  # loaded by every test run otherwise

    root = tmp_path_factory.mktemp("made")
    case_file(root)
    asyncio.run(recorded(root))
    shutil.rmtree(root / "state")
    return root


@pytest.fixture
def small(made: Path, tmp_path: Path) -> Path:
    """Return a folder with one case and one recording of it."""
    return Path(shutil.copytree(made, tmp_path / "small"))
