"""The page of an eval run: whole, from this file alone, and inert whatever a model or a host wrote."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.errors import LeadlineError
from agent.events import Event, HypothesisMoved, SystemNote, ToolFinished, ToolStarted, TurnTaken
from evals import recordings
from evals.case import load
from evals.jobs import Job
from evals.report import page, tell, write
from evals.results import Result, Score
from evals.run import Done
from evals.runs import RunFile
from evals.score import score
from tests.eval_parts import asked, case_file, recorded
from tests.test_casefile_html import HOSTILE, URLS, Page

PLAIN = "plain"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    case_file(root)
    asyncio.run(recorded(root))
    return root


def spoken(event: Event, word: str) -> Event:
    """Put ``word`` wherever a model or a host may write."""
    match event:
        case TurnTaken():
            return event.model_copy(update={"text": word})
        case ToolStarted():
            return event.model_copy(
                update={"describe": f"{event.tool} {word}", "tool": f"{event.tool} {word}"}
            )
        case ToolFinished() if event.tool == "read_file":
            return event.model_copy(update={"status": "tool_error", "view": word})
        case HypothesisMoved():
            return event.model_copy(update={"before": word})
        case SystemNote():
            return event.model_copy(update={"text": word})
        case _:
            return event


def run(root: Path, word: str, folder: Path) -> Done:
    """Return a run of three samples: one with a timeline, one that differs, one that does not count."""
    recording = recordings.load("small-right", root / "transcripts")
    case = load("small", root / "cases")
    rating = score(case, recording.events, recording.store)
    below: Score = rating.model_copy(
        update={
            "success": False,
            "below": ["evidence"],
            "why": dict.fromkeys(rating.scores, word),
            "evidence_missed": [word],
            "unsafe_attempted": [word],
            "unsafe_executed": [word],
            "fixes": {word: 0.5},
        }
    )
    job = Job(way="solve", case="small")
    thread = folder / job.transcript
    thread.parent.mkdir(parents=True)
    lines = [spoken(event, word).model_dump_json() + "\n" for event in recording.events]
    thread.write_text("".join(lines))
    replay = Job(way="replay", case="small", recording="small-right")
    broken = Job(way="score", case="small", recording="small-right")
    results: list[Result] = [
        job.result(model=word).model_copy(update={"score": below, "not_recorded": [word]}),
        replay.result().model_copy(update={"differences": [word]}),
        broken.result(error=word),
    ]
    file = RunFile(
        id="20260101-000000-abcd",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        product="0.0.0",
        model=word,
        prompts={},
        asked=asked(root),
        jobs=[job, replay, broken],
    )
    return Done(file, folder, results)


def test_the_page_tells_all_of_a_run(made: Path, tmp_path: Path) -> None:
    done = run(made, PLAIN, tmp_path)
    found = Page(page(done))
    assert found.wrong == [] and found.open == []
    for words in ("does not count", "differs", "no success", "below expectation: evidence", "Coverage"):
        assert words in found.text, words
    assert "Turn 1" in found.text and "t3 read_file plain" in found.text and "Refused: plain" in found.text
    assert "CUDA graphs are off." in found.text, "the conclusion's summary"
    assert found.tags >= {"svg", "table", "details"}


def test_the_page_loads_nothing_and_runs_nothing(made: Path, tmp_path: Path) -> None:
    done = run(made, PLAIN, tmp_path)
    found = Page(page(done, done))
    assert not found.tags & {"script", "iframe", "object", "embed", "link", "img", "form", "base"}
    assert all(value.startswith("#") for name in URLS for value in found.attributes(name))
    (policy,) = (value for value in found.attributes("content") if "default-src" in value)
    assert "default-src 'none'" in policy


@pytest.mark.threat(7)
@pytest.mark.parametrize("word", HOSTILE)
def test_text_of_any_origin_is_inert(made: Path, tmp_path: Path, word: str) -> None:
    plain = Page(page(run(made, PLAIN, tmp_path / "plain")))
    hostile = Page(page(run(made, word, tmp_path / "hostile")))
    assert hostile.wrong == [] and hostile.open == []
    assert hostile.tags == plain.tags
    assert [tag for tag, _ in hostile.skeleton] == [tag for tag, _ in plain.skeleton]
    assert not any(name.startswith("on") for _, attrs in hostile.skeleton for name, _ in attrs)
    assert not any(sign in hostile.text for sign in ("\x1b", "\u202e", "\u200b", "\x00"))


def test_two_runs_stand_side_by_side(made: Path, tmp_path: Path) -> None:
    before, after = run(made, PLAIN, tmp_path / "a"), run(made, PLAIN, tmp_path / "b")
    better = after.results[0].score
    assert better is not None
    after.results[0] = after.results[0].model_copy(
        update={"score": better.model_copy(update={"success": True})}
    )
    told = Page(page(after, before)).text
    assert "Comparison" in told and "+1.00" in told and "success 0.00 → 1.00" in told


def test_a_transcript_that_is_gone_is_said_and_the_page_is_made(made: Path, tmp_path: Path) -> None:
    done = run(made, PLAIN, tmp_path)
    (tmp_path / done.results[0].transcript).unlink()
    assert "No such file" in tell(done.results[0], done).why_not
    assert "cannot be shown" in page(done)


def test_a_page_that_cannot_be_written_says_so(made: Path, tmp_path: Path) -> None:
    with pytest.raises(LeadlineError, match="cannot write"):
        write(tmp_path / "none" / "report.html", run(made, PLAIN, tmp_path / "run"))
