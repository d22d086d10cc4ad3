"""A real run on the founding host is rated right in everything, from its file and from nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config import Settings
from agent.transcript import read_events
from evals import case
from evals.lab.package import PackageError, fetch
from evals.score import score
from tests.lab_fixtures import need_sandbox
from tools.artifacts import ArtifactStore

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_sandbox()
    try:
        fetch("sglang", "0.5.11", Settings().cache_dir)
    except PackageError as error:
        pytest.skip(str(error))
    wanted, state = case.load("founding"), tmp_path_factory.mktemp("state")
    leadline = Path(sys.executable).with_name("leadline")
    command = ["env", f"LEADLINE_STATE_DIR={state}", str(leadline), "ask", f"lab:{wanted.scenario}"]
    command += [wanted.symptom, "--json", "--no-load"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.stdout, done.stderr
    return next(Path(name) for name in json.loads(done.stdout)["files"] if name.endswith(".jsonl"))


def test_the_founding_run_is_right_in_everything_that_it_did(transcript: Path) -> None:
    store = ArtifactStore(transcript.parent / "artifacts")
    found = score(case.load("founding"), read_events(transcript), store)
    assert found.success and not found.below, found.why
    assert found.fixes == {"graphs": 1, "depth": 1}
    assert not found.unsafe_attempted and found.turns > 4 and found.wall_s > 0
    assert "evidence" not in found.why  # every region was known, so nothing rests on path and quote alone


def test_the_same_run_is_no_answer_to_the_healthy_twin_or_the_one_with_a_shared_batch(
    transcript: Path,
) -> None:
    store, events = ArtifactStore(transcript.parent / "artifacts"), read_events(transcript)
    healthy, twin = (score(case.load(name), events, store) for name in ("founding-healthy", "founding-twin"))
    assert not healthy.success and healthy.scores["cause"] == healthy.scores["abstention"] == 0
    assert not twin.success and twin.scores["cause"] == 0 and twin.causes_missed


def test_without_its_outputs_a_run_proves_nothing(transcript: Path, tmp_path: Path) -> None:
    found = score(case.load("founding"), read_events(transcript), ArtifactStore(tmp_path))
    assert found.scores["evidence"] == 0 and found.scores["cause"] == 0 and found.scores["reading_first"] == 0
    assert found.scores["outcome"] == found.scores["fix"] == 1
