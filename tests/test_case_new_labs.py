"""An investigation of a lab, and one of a real host, become cases on which the same evidence is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config import Settings
from evals import case as cases
from evals import case_check, recordings
from evals.case_new import make
from evals.findings import fold
from evals.lab.hosts import Lab
from evals.score import score
from tests.case_parts import investigate, written
from tests.lab_fixtures import lab_settings, running
from tools.artifacts import ArtifactStore

SYMPTOM = "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.xdist_group("case_new_labs")]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return lab_settings(tmp_path)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return one host for both: nothing is changed on it."""
    with running("kimi-k26-pp8", lab_settings(tmp_path_factory.mktemp("lab"))) as lab:
        yield lab


async def test_a_lab_investigation_becomes_a_case_that_its_own_transcript_meets(
    lab: Lab, settings: Settings, tmp_path: Path
) -> None:
    session = await investigate(lab, settings, lab.name, SYMPTOM, scenario="kimi-k26-pp8")
    out = tmp_path / "out"
    made = make(settings, session.thread, name="mine", out=out, force=False)
    case = cases.load(str(made.case))
    assert (case.scenario, made.scenario) == ("kimi-k26-pp8", None)
    assert {fix.setting for fix in case.fixes} == {"--disable-cuda-graph", "--pp-async-batch-depth"}
    assert any(proof.symbol == "ModelRunner.init_device_graphs" for proof in case.evidence)
    assert not list(case_check.problems(str(made.case), settings.cache_dir))
    kept = recordings.load("mine", out / "transcripts")
    rated = score(case, kept.events, kept.store, cache=settings.cache_dir)
    assert rated.success and rated.scores["evidence"] == 1, rated.why


async def test_a_real_host_becomes_a_scenario_on_which_the_same_evidence_is_found(
    lab: Lab, settings: Settings, tmp_path: Path
) -> None:
    first = await investigate(lab, settings, "carla@gpu7.corp.example", SYMPTOM)
    out = tmp_path / "out"
    made = make(settings, first.thread, name="theirs", out=out, force=False)
    assert made.score is not None and made.score.success, made.score
    assert not list(case_check.problems(str(made.case), settings.cache_dir))
    for name, text in written(out).items():
        assert not any(word in text for word in ("gpu7", "corp.example", "kimi-01", "carla")), name
    case = cases.load(str(made.case))
    with running(case.scenario, settings) as copy:
        second = await investigate(copy, settings, copy.name, case.symptom, scenario=case.scenario)
    store = ArtifactStore(second.folder / "artifacts")
    again = score(case, second.events, store, cache=settings.cache_dir)
    assert again.success, again.why
    assert again.scores["evidence"] == 1, again.why
    before = fold(first.events).conclusion
    after = fold(second.events).conclusion
    assert before is not None and after is not None and before.causes == after.causes
