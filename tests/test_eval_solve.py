"""Cases worked on with a model on lab hosts: from scratch, from a turn of a recording, and cut short."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from agent.config import Settings
from agent.errors import ExitCode, UsageError
from agent.events import Judged, Measured, PlanMade, Resumed, Started, TurnTaken
from agent.transcript import read_events
from evals import recordings, runs
from evals.going_on import apply, events_before, plans_in_force
from evals.jobs import Asked, plan
from evals.lab.hosts import Lab, list_labs
from evals.lab.scenario import load
from evals.run import Done, Run
from tests.eval_parts import case_file, start
from tests.lab_fixtures import lab_settings, need_sandbox, running, said
from tools.host import connect

FIXED = "founding-fixed"


def last_turn() -> int:
    """Return the turn of the recording that concludes."""
    return max(event.turn for event in recordings.load(FIXED).events if isinstance(event, TurnTaken))


def done(root: Path, **asked: object) -> Done:
    need_sandbox()
    settings = Settings(state_dir=root / "state")
    wanted = Asked.model_validate({"jobs": 1, **asked})
    return Run(settings, runs.create(settings, wanted, plan(wanted))).work()


@pytest.mark.lab
@pytest.mark.slow
def test_a_case_is_solved_from_scratch_and_its_lab_is_gone_after(tmp_path: Path) -> None:
    found = done(tmp_path, ways=["solve"], pattern="founding-healthy")
    (result,) = found.results
    assert result.score is not None and result.score.success, (result.error, result.score)
    assert result.score.scores["abstention"] == 1 and result.cpu_s > 0
    events = read_events(found.folder / result.transcript)
    assert isinstance(events[0], Started) and events[0].recorded == "playbook"
    assert not list((found.folder / "labs").iterdir())


@pytest.mark.lab
@pytest.mark.slow
def test_work_goes_on_from_a_turn_with_the_recorded_turns_given(tmp_path: Path) -> None:
    found = done(tmp_path, ways=["continue"], pattern="founding-continued")
    (result,) = found.results
    assert result.score is not None and result.score.success, (result.error, result.score)
    events = read_events(found.folder / result.transcript)
    before = recordings.load("founding-solved").events
    cut = next(place for place, event in enumerate(events) if isinstance(event, Resumed))
    assert [event.seq for event in events[1:cut]] == [event.seq for event in before[1:cut]]
    turns = [event.turn for event in events if isinstance(event, TurnTaken)]
    assert turns == sorted(set(turns)), "no turn is taken twice"
    assert next(event.turn for event in events[cut:] if isinstance(event, TurnTaken)) == 4


@pytest.mark.lab
@pytest.mark.slow
async def test_changes_recorded_before_the_turn_are_made_on_the_lab(tmp_path: Path) -> None:
    events = events_before(recordings.load(FIXED), last_turn(), FIXED)
    assert any(isinstance(event, Judged) for event in events)
    plans = plans_in_force(events)
    assert [plan.setting for plan in plans] == ["--disable-cuda-graph", "--pp-async-batch-depth"]
    with running("kimi-k26-pp8", lab_settings(tmp_path)) as made:
        before = said(made, "cat /proc/$(pgrep -f -o launch_server)/cmdline | tr '\\0' ' '")
        host = await connect(made.target(), lab_settings(tmp_path))
        await apply(host, plans, load("kimi-k26-pp8").ready)
        await host.close()
        after = said(made, "cat /proc/$(pgrep -f -o launch_server)/cmdline | tr '\\0' ' '")
        unit = said(made, "systemctl cat sglang-kimi.service")
    assert "--disable-cuda-graph" in before and "--pp-async-batch-depth" not in before
    assert "--disable-cuda-graph" not in after and "--pp-async-batch-depth 1" in after
    assert all(plan.dropin_path in unit for plan in plans)


def test_a_change_that_was_rolled_back_is_not_made_again() -> None:
    recording = recordings.load("capturefails-rolled-back")
    tried = [event.plan["setting"] for event in recording.events if isinstance(event, PlanMade)]
    last = max(event.turn for event in recording.events)
    kept = plans_in_force(events_before(recording, last, "capturefails-rolled-back"))
    assert "--disable-cuda-graph" in tried
    assert [plan.setting for plan in kept] == ["--pp-async-batch-depth"]


def test_outputs_and_measurements_before_the_turn_come_along(tmp_path: Path) -> None:
    from evals.case import load as load_case
    from evals.going_on import write_thread
    from tools.artifacts import ArtifactStore

    recording = recordings.load(FIXED)
    events = events_before(recording, last_turn(), FIXED)
    write_thread(tmp_path / "thread-1", events, recording.store, load_case("founding-fixed"), "some-model")
    again = read_events(tmp_path / "thread-1" / "transcript.jsonl")
    assert isinstance(again[0], Started) and again[0].recorded == "some-model" and len(again) == len(events)
    store = ArtifactStore(tmp_path / "thread-1" / "artifacts")
    measured = [event.artifact.sha256 for event in again if isinstance(event, Measured)]
    assert measured and all(store.get(sha256) for sha256 in measured)


@pytest.mark.parametrize(
    ("beyond", "says"), [(33, "has no turn"), (1, "ends before turn")], ids=["too late", "ended"]
)
def test_a_turn_that_cannot_be_gone_on_from_is_refused(beyond: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        events_before(recordings.load(FIXED), last_turn() + beyond, FIXED)


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_no_lab_outlives_a_run_that_is_cut_short(tmp_path: Path, how: signal.Signals) -> None:
    need_sandbox()
    case_file(tmp_path)
    (tmp_path / "transcripts").mkdir()
    process = start(tmp_path, "solve", "--json")
    settings = Settings(state_dir=_await_lab(tmp_path))
    (made,) = list_labs(settings)
    assert made.alive
    process.send_signal(how)
    out, _ = process.communicate(timeout=90)
    assert _gone(made, 60)
    if how is signal.SIGINT:
        assert process.returncode == ExitCode.INTERRUPTED
        assert json.loads(out)["summary"]["missing"] == 1


def _gone(made: Lab, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while made.alive and time.monotonic() < deadline:
        time.sleep(0.1)
    return not made.alive


def _await_lab(root: Path) -> Path:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for found in (root / "state").glob("evals/*/labs/*/lab.json"):
            return found.parents[2]
        time.sleep(0.05)
    raise AssertionError("no lab came up")
