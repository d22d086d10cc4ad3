"""Save a finished investigation as a case: a neutral transcript, the host's scenario, the draft of a case."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from os.path import relpath
from pathlib import Path
from typing import Any

from agent import threads
from agent.config import Settings
from agent.errors import LeadlineError, UsageError
from agent.events import ApprovalGiven, Event, Started, ToolFinished
from agent.transcript import read_events
from evals import case as cases
from evals import case_text, saving
from evals.capture_scenario import Recorded, capture_scenario
from evals.captured_host import gather, hosts_of
from evals.case_evidence import plain
from evals.case_skeleton import Skeleton, draft
from evals.findings import fold
from evals.lab import scenario as scenarios
from evals.neutral import Neutral
from evals.pack import PackError
from evals.packed import write_whole
from evals.results import Score
from evals.scenario_package import version_of
from evals.score import score
from tools.artifacts import ArtifactStore

SAYS = "The investigation that its case was drafted from."


@dataclass(frozen=True, slots=True)
class Places:
    """Say where the files go: as in a checkout, where there is one, else into folders of their own."""

    cases: Path
    scenarios: Path
    transcripts: Path
    by_name: bool
    """True where `leadline eval` and ``lab:NAME`` find a scenario by its name."""

    @classmethod
    def below(cls, out: Path) -> Places:
        """Return the folders for files that are to go to ``out``."""
        checkout = out / "evals" / "cases"
        if checkout.is_dir():
            ours = scenarios.FOLDER.resolve() == (out / "evals" / "lab" / "scenarios").resolve()
            return cls(checkout, out / "evals" / "lab" / "scenarios", out / "transcripts", ours)
        return cls(out / "cases", out / "scenarios", out / "transcripts", False)


@dataclass(slots=True)
class Made:
    """Tell what was written, and what a person should know of it."""

    name: str
    case: Path
    scenario: Path | None = None
    scenario_name: str = ""
    transcript: Path | None = None
    missing: list[str] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    score: Score | None = None


def make(settings: Settings, source: str, *, name: str | None, out: Path, force: bool, how: str = "") -> Made:
    """Write the files of a new case; raise one `LeadlineError` where it cannot be made."""
    thread = _thread(settings, source)
    events = read_events(thread / "transcript.jsonl")
    started = events[0]
    assert isinstance(started, Started)  # the reader accepts nothing else first
    neutral = _neutral(thread, events, started)
    name = name or _name(started, neutral)
    places = Places.below(out)
    _refuse_what_exists(places, name, force)
    with tempfile.TemporaryDirectory(prefix="leadline-case-") as scratch:
        kept = saving.read_thread(thread, neutral.clean)
        store = ArtifactStore(Path(scratch) / "artifacts")
        for data in kept.artifacts.values():
            store.put(data)
        made = Made(name, places.cases / f"{name}.yaml")
        recorded = _scenario(made, places, kept.events, store, neutral)
        found = fold(kept.events)
        sketch = draft(found, store, name=name, scenario=made.scenario_name, cache=settings.cache_dir)
        made.remarks += sketch.remarks
        _write_scenario(made, recorded)
        _write_case(made, sketch)
        made.score = score(cases.load(str(made.case)), kept.events, store, cache=settings.cache_dir)
    _keep_transcript(made, thread, places, neutral, settings, how)
    return made


def _thread(settings: Settings, source: str) -> Path:
    """Return the folder of an investigation, named by its id, its folder or its transcript."""
    path = Path(source)
    if path.is_file():
        if path.name != "transcript.jsonl":
            raise UsageError(f"{path} is no transcript.jsonl", do="name the folder of an investigation")
        return path.parent
    if (path / "transcript.jsonl").is_file():
        return path
    if "/" in source or path.is_dir():
        raise UsageError(f"{path}: no transcript.jsonl lies there", do="see `leadline sessions list`")
    return threads.find(settings, threads.named(settings, source))


def _neutral(thread: Path, events: Sequence[Event], started: Started) -> Neutral:
    """Learn the names that the outputs of an investigation hold."""
    neutral = Neutral(keep_hosts=started.scenario is not None)
    for host in started.hosts:
        neutral.host(host)
    store = ArtifactStore(thread / "artifacts")
    for event in events:
        if isinstance(event, ApprovalGiven) and not event.by.startswith("--"):
            neutral.user(event.by)
        for ref in event.artifacts if isinstance(event, ToolFinished) else ():
            if not ref.package:
                try:
                    neutral.learn(store.get(ref.sha256), ref.host)
                except (KeyError, ValueError):
                    continue  # `read_thread` says which one is missing, and where
    return neutral


def _name(started: Started, neutral: Neutral) -> str:
    return f"{plain(neutral.text(started.symptom), 40)}-{started.at:%Y%m%d}"


def _refuse_what_exists(places: Places, name: str, force: bool) -> None:
    if not saving.NAME.fullmatch(name):
        raise UsageError(f"not a name: {name!r}", do="write lower-case letters, digits and hyphens")
    there = [
        path
        for path in (
            places.cases / f"{name}.yaml",
            places.scenarios / f"{name}.yaml",
            places.transcripts / f"{name}.jsonl",
        )
        if path.exists()
    ]
    if there and not force:
        raise UsageError(f"{there[0]} exists", do="give another --name, or --force to write over it")


def _scenario(
    made: Made, places: Places, events: Sequence[Event], store: ArtifactStore, neutral: Neutral
) -> Recorded | None:
    """Name the scenario of a lab, or return that of a real host; a lab's own file is copied."""
    started = events[0]
    assert isinstance(started, Started)  # the reader accepts nothing else first
    if started.scenario in scenarios.names():
        made.scenario_name = started.scenario
        return None
    made.scenario = places.scenarios / f"{made.name}.yaml"
    made.scenario_name = made.name if places.by_name else relpath(made.scenario, places.cases)
    if started.scenario is not None:
        own = scenarios.load(started.scenario)
        fields: dict[str, Any] = own.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return Recorded(_cleaned({**fields, "name": made.name}, neutral))
    hosts = hosts_of(events)
    if not hosts:
        raise UsageError("the investigation read nothing of any host", do="go on with it, or write the case")
    recorded = capture_scenario(gather(events, store, hosts[0]), made.name, _hostname(hosts[0]))
    recorded.missing += [f"host {host}: a scenario is one host" for host in hosts[1:]]
    recorded.fields = _cleaned(recorded.fields, neutral)
    return recorded


def _hostname(host: str) -> str:
    return host if host.startswith("host-") else "host-1"


def _cleaned(value: Any, neutral: Neutral) -> Any:
    """Return a tree with every text in it redacted and neutral once more."""
    if isinstance(value, str):
        return neutral.text(value)
    if isinstance(value, dict):
        return {
            neutral.text(key) if isinstance(key, str) else key: _cleaned(item, neutral)
            for key, item in value.items()
        }
    return [_cleaned(item, neutral) for item in value] if isinstance(value, list) else value


def _write_scenario(made: Made, recorded: Recorded | None) -> None:
    if recorded is None or made.scenario is None:
        return
    made.missing += recorded.missing
    made.todo += recorded.todo
    text = case_text.scenario_text(recorded.fields, recorded.missing, recorded.todo)
    made.scenario.parent.mkdir(parents=True, exist_ok=True)
    write_whole(made.scenario, text.encode())
    scenarios.load(str(made.scenario))
    version_of.cache_clear()


def _write_case(made: Made, sketch: Skeleton) -> None:
    made.case.parent.mkdir(parents=True, exist_ok=True)
    text = case_text.case_text(sketch.fields, sketch.remarks, [*made.missing, *made.todo])
    write_whole(made.case, text.encode())


def _keep_transcript(
    made: Made, thread: Path, places: Places, neutral: Neutral, settings: Settings, how: str
) -> None:
    """Keep the transcript, unless the source that it quotes cannot be told apart from the host's own text."""
    try:
        made.transcript = saving.save(
            thread,
            made.name,
            case=made.name,
            says=SAYS,
            how=how,
            folder=places.transcripts,
            cache_dir=settings.cache_dir,
            clean=neutral.clean,
        )
    except (PackError, LeadlineError) as error:
        made.missing.append(f"the transcript: {error}")
