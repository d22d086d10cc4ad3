"""Measure how many transcripts are read and rated a second on two cores, what rating costs, and memory.

Two kinds are rated, each by two processes at a time: the recordings in ``transcripts/`` as they are, and one
long transcript, a real one: the built-in model on the founding case's lab host, with some of its calls
repeated so that it has about 200 events. For memory each of 1,000 transcripts has a log of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from agent.events import ConclusionChecked, Event, ToolFinished, ToolStarted, TurnTaken
from agent.state import ToolCall
from agent.transcript import read_events
from evals import case, recordings
from evals.score import score
from tools.artifacts import ArtifactStore

CASE = "founding"
EVENTS = 200
RATE = 200.0
"""Transcripts read and rated a second on two cores, at least."""
CORES = 2
LIMITS = {"score_to_read": 1.0, "memory_1000_to_200": 1.05}
_ROUNDS = 9
_TIMES = 20
_WARM = 200
_TRANSCRIPTS = 1000


@dataclass(frozen=True)
class Recorded:
    """Hold a transcript with its outputs, and the digest of its log."""

    path: Path
    events: list[Event]
    store: ArtifactStore
    log: str


def record(folder: Path) -> Recorded:
    """Let the built-in model work on the founding case and return its transcript, lengthened."""
    wanted = case.load(CASE)
    leadline = Path(sys.executable).with_name("leadline")
    command = ["env", f"LEADLINE_STATE_DIR={folder}", str(leadline), "ask", f"lab:{wanted.scenario}"]
    command += [wanted.symptom, "--json", "--no-load"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"no transcript to rate: {done.stderr.strip()[-400:]}")
    path = next(Path(name) for name in json.loads(done.stdout)["files"] if name.endswith(".jsonl"))
    events = lengthened(read_events(path))
    log = next(
        ref.sha256
        for event in events
        if isinstance(event, ToolFinished) and event.tool == "journal"
        for ref in event.artifacts
    )
    whole = folder / "long.jsonl"
    whole.write_text("".join(f"{event.model_dump_json()}\n" for event in events), encoding="utf-8")
    return Recorded(whole, events, ArtifactStore(path.parent / "artifacts"), log)


def lengthened(events: Sequence[Event]) -> list[Event]:
    """Repeat reads before the conclusion, under names of their own, until there are enough events."""
    place = next(place for place, event in enumerate(events) if isinstance(event, ConclusionChecked))
    pairs = [
        (asked, done)
        for asked in events
        for done in events
        if isinstance(asked, ToolStarted) and isinstance(done, ToolFinished) and asked.call == done.call
        if asked.tool in ("journal", "run", "grep")
    ]
    more: list[Event] = []
    while len(events) + len(more) < EVENTS:
        asked, done = pairs[len(more) // 3 % len(pairs)]
        name = f"t{1000 + len(more)}"
        call = ToolCall(id=name, name=asked.tool, arguments=json.dumps(asked.arguments))
        more.append(TurnTaken(model="playbook", tool_calls=[call]))
        more.append(asked.model_copy(update={"call": name, "tool_call_id": name}))
        more.append(done.model_copy(update={"call": name, "tool_call_id": name, "artifacts": []}))
    merged = [*events[:place], *more, *events[place:]]
    return [event.model_copy(update={"seq": number}) for number, event in enumerate(merged)]


def seconds(work: Callable[[], object], times: int = _TIMES) -> float:
    """Return the processor time that some work takes, in the round that other programs disturbed least."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(times):
            work()
        rounds.append((time.process_time() - began) / times)
    return min(rounds)


def rate_recordings() -> float:
    """Return the processor seconds of reading and rating one of the recordings, on average."""
    wanted = {name: case.load(recordings.about(name).case) for name in recordings.names()}

    def once() -> None:
        for name, its_case in wanted.items():
            recording = recordings.load(name)
            score(its_case, recording.events, recording.store)

    once()  # imports, and the package sources that recordings refer to
    return seconds(once, times=1) / len(wanted)


def rate_long(path: Path, artifacts: Path) -> float:
    """Return the processor seconds of reading and rating a transcript."""
    wanted, store = case.load(CASE), ArtifactStore(artifacts)
    score(wanted, read_events(path), store)
    return seconds(lambda: score(wanted, read_events(path), store))


def a_second(work: Callable[..., float], *args: Path) -> float:
    """Return how many transcripts two processes, both at work, do a second of the processor time of each."""
    with ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as pool:
        at_work = [pool.submit(work, *args) for _ in range(CORES)]
        return sum(1 / done.result() for done in at_work)


def memory_growth(recorded: Recorded, folder: Path) -> float:
    """Return the peak of memory after 1,000 transcripts over that after 200, each with a log of its own."""
    wanted = case.load(CASE)
    text, log = recorded.path.read_text(encoding="utf-8"), recorded.store.get(recorded.log)
    peaks = []
    for number in range(1, _TRANSCRIPTS + 1):
        digest = recorded.store.put(log + f"transcript {number}\n".encode())
        path = folder / "one.jsonl"
        path.write_text(text.replace(recorded.log, digest), encoding="utf-8")
        score(wanted, read_events(path), recorded.store)
        recorded.store.path(digest).unlink()
        if number in (_WARM, _TRANSCRIPTS):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peaks[1] / peaks[0]


def main() -> int:
    """Print the figures as JSON; return 1 when one is over its limit."""
    wanted = case.load(CASE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded = record(folder)
        rated = score(wanted, recorded.events, recorded.store)
        if not rated.success:
            raise SystemExit(f"the run did not solve {CASE}: {rated.why}")
        read_s = seconds(lambda: read_events(recorded.path))
        score_s = seconds(lambda: score(wanted, recorded.events, recorded.store))
        rates = {
            "recordings_a_second": a_second(rate_recordings),
            "long_a_second": a_second(rate_long, recorded.path, recorded.store.root),
        }
        ratios = {"score_to_read": score_s / read_s, "memory_1000_to_200": memory_growth(recorded, folder)}
    missed = [name for name, rate in rates.items() if rate < RATE]
    missed += [name for name, limit in LIMITS.items() if ratios[name] > limit]
    figures = {
        **{name: round(rate, 1) for name, rate in rates.items()},
        "events_of_long": len(recorded.events),
        "read_ms": round(read_s * 1000, 2),
        "score_ms": round(score_s * 1000, 2),
        **{key: round(value, 3) for key, value in ratios.items()},
    }
    limits = dict.fromkeys(rates, RATE) | LIMITS
    sys.stdout.write(json.dumps({"score": figures, "limits": limits, "missed": missed}, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
