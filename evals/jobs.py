"""Jobs of an eval run: which cases and recordings are run in which way; planned once, done in any order."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field

from agent.errors import LeadlineError, UsageError
from agent.state import Record
from evals import case, recordings
from evals.results import Result, Way

EVERY: tuple[Way, ...] = ("score", "replay", "solve", "continue")
RECORDED: tuple[Way, ...] = ("score", "replay")
"""Ways that need no host and no model, only the processor."""

_OTHER = re.compile(r"[^a-z0-9-]+")


class Asked(Record):
    """Hold what a person asked to be run, so that a run can be gone on with."""

    ways: list[Way] = Field(default_factory=list, description="Empty: all of them.")
    pattern: str = "*"
    samples: int = Field(default=1, ge=1)
    jobs: int = Field(ge=1, description="Labs that run side by side.")
    model: str | None = None
    base_url: str | None = None
    judge_model: str | None = None
    judge_base_url: str | None = None
    baseline: bool = Field(default=False, description="A plain shell agent works on the cases instead.")
    cases: Path = case.FOLDER
    transcripts: Path = recordings.FOLDER


class Job(Record):
    """Name one sample of a run, before it is done."""

    way: Way
    case: str = Field(description="Empty: the recording does not tell, which is why it will not count.")
    sample: int = 0
    recording: str = Field(default="", description="The recording that is rated, repeated or gone on from.")

    @property
    def thread(self) -> str:
        """Return the id of the investigation of a job that makes one; the same whenever it is tried."""
        name = _OTHER.sub("-", self.case.lower()).strip("-")
        return f"{self.way}-{name[:48]}-{self.sample}"

    @property
    def transcript(self) -> str:
        """Return what is rated: a transcript's path below the run's folder, or a recording's name."""
        return self.recording if self.way in RECORDED else f"threads/{self.thread}/transcript.jsonl"

    def result(self, *, model: str = "", error: str = "") -> Result:
        """Return the result of this job that is still to be filled in."""
        return Result(
            way=self.way,
            case=self.case,
            sample=self.sample,
            model=model,
            transcript=self.transcript,
            error=error,
        )

    @property
    def key(self) -> str:
        """Return the key that its result will have."""
        return self.result().key


def plan(asked: Asked) -> list[Job]:
    """Return every job that was asked for; raise `UsageError` when there is none."""
    ways = asked.ways or (["solve"] if asked.baseline else list(EVERY))
    if asked.baseline and ways != ["solve"]:
        raise UsageError("the baseline agent only solves cases", do="leadline eval solve --baseline")
    for option, folder in (("--cases", asked.cases), ("--transcripts", asked.transcripts)):
        if not folder.is_dir():
            raise UsageError(f"{option}: there is no folder {folder}", do="name one that is there")
    jobs = [job for way in ways if way in RECORDED for job in _recorded(asked, way)]
    jobs += [job for way in ways if way not in RECORDED for job in _worked(asked, way)]
    if not jobs:
        raise UsageError(
            f"no {' or '.join(ways)} job of {asked.pattern!r}",
            do=f"cases are: {', '.join(case.names(asked.cases)) or 'none'}; "
            f"recordings are: {', '.join(recordings.names(asked.transcripts)) or 'none'}",
        )
    return jobs


def _recorded(asked: Asked, way: Way) -> list[Job]:
    found = []
    for name in recordings.names(asked.transcripts):
        try:
            about = recordings.about(name, asked.transcripts)
            wanted, maker = about.case, about.recorded.partition(":")[0]
        except LeadlineError:
            wanted, maker = "", ""  # reported by the job itself, which fails for the same reason
        if way == "replay" and maker == "baseline":
            continue  # it was no investigation of ours, so there is no state machine to drive
        if fnmatchcase(wanted, asked.pattern) or fnmatchcase(name, asked.pattern):
            found.append(Job(way=way, case=wanted, recording=name))
    return found


def _worked(asked: Asked, way: Way) -> list[Job]:
    """Return the jobs of cases that are worked on; which way a broken one was meant for, nobody knows."""
    found = []
    for name in case.names(asked.cases):
        if not fnmatchcase(name, asked.pattern):
            continue
        try:
            one = case.load(name, asked.cases)
            fits, start = (one.go_on is not None) == (way == "continue"), one.go_on
        except LeadlineError:
            fits, start = way == "solve", None
        if fits:
            given = start.transcript if start else ""
            found += [
                Job(way=way, case=name, sample=place, recording=given) for place in range(asked.samples)
            ]
    return found
