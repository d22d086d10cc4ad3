"""Rate recordings as they are, or drive the state machine with them and tell what comes out differently."""

from __future__ import annotations

from agent.config import Settings
from agent.errors import TranscriptError
from agent.events import Started
from agent.replay import replay
from evals import case, recordings
from evals.context import RunContext
from evals.coverage import not_recorded
from evals.jobs import Job
from evals.results import Result
from evals.score import score
from evals.whole import check_origin, check_whole


async def rate(job: Job, context: RunContext) -> Result:
    """Score a recording against its case; a score outside the bounds kept beside it is a difference."""
    asked = context.asked
    about = recordings.about(job.recording, asked.transcripts)
    wanted = case.load(about.case, asked.cases)
    recording = recordings.load(job.recording, asked.transcripts)
    count = len(recording.events)
    if count != about.events:
        path = recordings.path_of(job.recording, asked.transcripts)
        raise TranscriptError(
            f"{path}:{count}: line: the transcript has {count} events, {about.events} were kept",
            do=f"fetch the file again, or set `events` in {path.with_suffix('.yaml').name}",
        )
    check_origin(about, recording, recordings.path_of(job.recording, asked.transcripts))
    try:
        rated = score(wanted, recording.events, recording.store)
    except (KeyError, ValueError):
        check_whole(recording, recordings.path_of(job.recording, asked.transcripts))
        raise
    misses = recordings.misses(about, rated)
    if misses or rated.evidence_missed or not about.expect:  # a changed artifact is none of the run's doing
        check_whole(recording, recordings.path_of(job.recording, asked.transcripts))
    return _result(job, recording.started).model_copy(
        update={
            "score": rated,
            "differences": misses,
            "not_recorded": not_recorded(recording.events),
        }
    )


async def repeat(job: Job, context: RunContext, settings: Settings) -> Result:
    """Replay a recording; prompts and tool schemas that have changed since are differences, too."""
    recording = recordings.load(job.recording, context.asked.transcripts)
    report = await replay(recording, settings)
    if report.differences:  # a changed artifact is none of the product's doing
        check_whole(recording, recordings.path_of(job.recording, context.asked.transcripts))
    return _result(job, recording.started).model_copy(
        update={"differences": [*report.differences, *report.changed]}
    )


def _result(job: Job, started: Started) -> Result:
    return job.result(model=started.recorded)
