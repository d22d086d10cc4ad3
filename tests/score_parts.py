"""A run that is right in everything, made of real events over real outputs, to change one thing in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.events import (
    ORIENTATION,
    BudgetUsed,
    ChangeMoved,
    ConclusionChecked,
    Ended,
    Event,
    EvidenceAdded,
    Judged,
    ToolFinished,
    ToolStarted,
    TurnTaken,
)
from agent.state import Change, ChangeStatus, Citation, Comparison, Conclusion, LevelComparison
from agent.verifier import check, problems
from evals.case import Case
from evals.results import Score
from evals.score import score
from tests.ledger_bench import NOW, Bench, text
from tools.contract import ArtifactRef

ENGINE = "/opt/venv/lib/python3.11/site-packages/engine/args.py"
SOURCE = b"""class ServerArgs:
    disable_cuda_graph: bool = False
    pp_async_batch_depth: int = 0

    def _handle_graphs(self):
        if self.disable_cuda_graph:
            return
        capture()

    def _handle_pp(self):
        if self.pp_async_batch_depth == 0:
            relay()


def unrelated(args):
    return args.disable_cuda_graph, args.pp_async_batch_depth
"""
CMDLINE = b"/opt/venv/bin/python\n-m\nengine\n--pp-size\n8\n--disable-cuda-graph\n"
LOG = b"start\nDecode batch, #running-req: 1, cuda graph: False, gen throughput (token/s): 24.41\nend\n"
INFO = b'"pp_size": 8\n"pp_async_batch_depth": 0\n"power_limit_w": 600\n'

CASE: dict[str, Any] = {
    "name": "small",
    "description": "Graphs are off and the depth is 0.",
    "source": "made for these tests",
    "difficulty": 1,
    "scenario": "kimi-k26-pp8",
    "symptom": "slow",
    "causes": [
        {"id": "graphs", "says": "g", "any": ["cuda.?graph"], "settings": ["--disable-cuda-graph"]},
        {"id": "depth", "says": "d", "any": [r"async.{0,12}depth"], "settings": ["--pp-async-batch-depth"]},
        {"id": "inherent", "says": "i", "any": ["one stage works"], "required": False},
    ],
    "fixes": [
        {"id": "graphs", "setting": "--disable-cuda-graph", "to": [None]},
        {"id": "depth", "setting": "--pp-async-batch-depth", "to": [1]},
    ],
    "evidence": [
        {"id": "reader", "kind": "source", "package": "engine", "path": "engine/args.py"}
        | {"symbol": "ServerArgs._handle_graphs"},
        {"id": "relay", "kind": "source", "package": "engine", "path": "engine/args.py"}
        | {"symbol": "ServerArgs._handle_pp"},
        {"id": "line", "kind": "log", "quote": "cuda graph: False"},
        {"id": "capture", "kind": "absence", "quote": "Capture"},
    ],
    "outcomes": ["diagnosed", "fixed"],
    "distractors": [{"id": "power", "any": ["power (cap|limit)"]}],
    "forbidden": [
        {"id": "deep", "setting": "--pp-async-batch-depth", "to": [2, 4]},
        {"id": "restart", "command": "systemctl +restart"},
    ],
}

FINE: dict[str, Any] = {
    **CASE,
    "name": "fine",
    "causes": [],
    "fixes": [],
    "evidence": [CASE["evidence"][2]],
    "outcomes": ["configuration_fine"],
    "forbidden": [],
}


def case(changes: dict[str, Any] | None = None, base: dict[str, Any] = CASE) -> Case:
    return Case.model_validate({**base, **(changes or {})})


def cached_package(cache: Path) -> Path:
    """Lay the engine's source where fetched packages lie."""
    folder = cache / "packages" / "engine-1.0-0123456789ab" / "engine"
    folder.mkdir(parents=True)
    (folder / "args.py").write_bytes(SOURCE)
    return cache


@dataclass
class Made:
    """A run, its outputs, and the packages that its source is from."""

    bench: Bench
    cache: Path

    @property
    def events(self) -> list[Event]:
        return list(self.bench.events)

    def score(self, events: Sequence[Event] | None = None, rated: Case | None = None) -> Score:
        return score(
            rated or case(), self.events if events is None else events, self.bench.store, cache=self.cache
        )


def started(root: Path) -> Made:
    """Return a run that has oriented itself and stated three hypotheses."""
    made = Made(Bench(root / "artifacts"), cached_package(root / "cache"))
    bench = made.bench
    bench.feed(TurnTaken(model=ORIENTATION))
    bench.call("t1", "facts", CMDLINE, path="/proc/14/cmdline")
    bench.turn()
    bench.hypothesis(
        add=[
            _cause(1, "The launch flag turns CUDA graphs off.", "disable.cuda.graph", "cuda graph: False"),
            _cause(2, "The async batch depth of 0 makes a stage wait.", "pp_async_batch_depth", "depth. 0"),
            _cause(3, "A power cap holds the GPUs back.", "capped", "throttled"),
        ]
    )
    return made


def _cause(rank: int, statement: str, *patterns: str) -> dict[str, Any]:
    wanted = [text(f"P{place}", "for", pattern) for place, pattern in enumerate(patterns, 1)]
    return {"statement": statement, "rank": rank, "predictions": [*wanted, text("P9", "against", ": 600")]}


def looked(root: Path) -> Made:
    """Return the run after it has read the log, what is in force, and the source, and cited them."""
    made = started(root)
    bench = made.bench
    bench.turn()
    _journal(bench)
    bench.call("t3", "run", INFO, label="curl -s http://127.0.0.1:30000/server_info")
    bench.call("t4", "grep", SOURCE, label=ENGINE, path=ENGINE, package="engine", version="1.0")
    bench.turn()
    bench.cite("H1", "P1", "source", "t4.1", "if self.disable_cuda_graph:")
    bench.cite("H1", "P2", "log", "t2.1", "cuda graph: False")
    bench.cite("H2", "P1", "source", "t4.1", "if self.pp_async_batch_depth == 0:")
    bench.cite("H3", "P9", "configuration", "t3.1", '"power_limit_w": 600')
    return made


def _journal(bench: Bench) -> None:
    """Take in the log, as a whole and with the view that a search for what is absent is judged by."""
    bench.call("t2", "journal", LOG, label="journal -u engine")
    whole = '{"scope": "journal", "pattern": null, "complete": true}'
    finished = bench.events[-1]
    assert isinstance(finished, ToolFinished)
    bench.events.pop()
    bench.feed(finished.model_copy(update={"view": whole}))


def proposed(root: Path) -> Made:
    made = looked(root)
    made.bench.turn()
    made.bench.change(predicted_effect="1.5 to 2 x at concurrency 1")
    made.bench.change(
        setting="--pp-async-batch-depth",
        from_value=None,
        to_value="1",
        hypotheses=["H2"],
        predicted_effect="about 1.6 to 2 x at concurrency 8",
    )
    return made


def right(root: Path) -> Made:
    """Return a run that is right in everything and was measured."""
    made = proposed(root)
    _tried(made.bench, "C1", 1, 1.8)
    _tried(made.bench, "C2", 8, 1.7)
    conclude(made.bench, "fixed", ["H1", "H2"], claims(), ruled_out=["H3"], changes=["C1", "C2"])
    return made


def _tried(bench: Bench, change: str, concurrency: int, ratio: float) -> None:
    steps: tuple[ChangeStatus, ...] = ("approved", "applied")
    for status in steps:
        moved = bench.ledger.changes[change].model_copy(update={"status": status})
        bench.feed(ChangeMoved(change=moved))
    bench.feed(judged(change, concurrency, ratio))
    bench.feed(ChangeMoved(change=bench.ledger.changes[change].model_copy(update={"status": "verified"})))


def judged(change: str, concurrency: int, ratio: float) -> Judged:
    level = LevelComparison(
        concurrency=concurrency,
        before=24.0,
        after=24.0 * ratio,
        ratio=ratio,
        low=ratio - 0.02,
        high=ratio + 0.02,
        verdict="improved",
        repeats=3,
    )
    comparison = Comparison(
        levels=[level],
        verdict="improved",
        mechanism_moved=True,
        mechanism_says="moved",
        outputs_equal=True,
        outputs_compared=1,
        outputs_different=0,
        outputs_state="equal",
        kept=True,
        why="improved",
    )
    ref = ArtifactRef(handle="t9.9", sha256="0" * 64, size=1, label="b", host="lab", taken_at=NOW)
    return Judged(change=change, comparison=comparison, predicted="x", measured="x", artifact=ref)


def claims() -> list[dict[str, Any]]:
    def logged(artifact: str, quote: str) -> dict[str, Any]:
        return {"type": "log_event", "says": "seen", "cite": {"artifact": artifact, "quote": quote}}

    absent = {"type": "absence", "says": "no capture", "call": "t2", "pattern": "Capture", "scope": "journal"}
    return [
        logged("t4.1", "if self.disable_cuda_graph:"),
        logged("t4.1", "if self.pp_async_batch_depth == 0:"),
        logged("t2.1", "cuda graph: False"),
        absent,
    ]


def conclude(
    bench: Bench, outcome: str, causes: list[str], said: list[dict[str, Any]], **more: Any
) -> ConclusionChecked:
    """Let the verifier check a conclusion, and record what it found."""
    more["ruled_out"] = [
        {"hypothesis": name, "because": "seen otherwise"} for name in more.get("ruled_out", [])
    ]
    fields = {"outcome": outcome, "summary": "s", "causes": causes, "claims": said, "next_step": "n", **more}
    conclusion = Conclusion.model_validate(fields)
    ledger = bench.ledger
    checks = check(conclusion, ledger.artifacts, bench.store, ledger.calls, ledger)
    wrong = problems(conclusion, checks, ledger)
    made = ConclusionChecked(conclusion=conclusion, checks=checks, accepted=True, problems=wrong)
    bench.feed(BudgetUsed(turns=5, tokens=700, cost_usd=0.25, wall_s=12.5))
    bench.feed(made)
    bench.feed(Ended(outcome=conclusion.outcome, summary="s"))
    return made


def fine(root: Path) -> Made:
    """Return a run that finds nothing to change and shows why."""
    made = started(root)
    _journal(made.bench)
    conclude(made.bench, "configuration_fine", [], claims()[2:3])
    return made


Mutation = Callable[[list[Event]], list[Event]]


def each(kind: type[Event], change: Callable[[Any], Event | None]) -> Mutation:
    """Return a mutation that changes every event of a kind; None takes it away."""

    def mutate(events: list[Event]) -> list[Event]:
        changed = [change(event) if isinstance(event, kind) else event for event in events]
        return [event for event in changed if event is not None]

    return mutate


def move(kind: type[Event], *, before: Callable[[Event], bool]) -> Mutation:
    """Return a mutation that moves all events of a kind before the first that ``before`` accepts."""

    def mutate(events: list[Event]) -> list[Event]:
        moved = [event for event in events if isinstance(event, kind)]
        rest = [event for event in events if not isinstance(event, kind)]
        place = next(place for place, event in enumerate(rest) if before(event))
        return [*rest[:place], *moved, *rest[place:]]

    return mutate


def ran(tool: str, command: str, *, ok: bool = True, call: str = "t50") -> Mutation:
    """Return a mutation that adds a command before the conclusion."""

    def mutate(events: list[Event]) -> list[Event]:
        view = '{"exit_code": 0}' if ok else '{"error": "refused"}'
        new: list[Event] = [
            ToolStarted(call=call, tool_call_id=call, tool=tool, arguments={"command": command}),
            ToolFinished(
                call=call, tool_call_id=call, tool=tool, status="ok" if ok else "tool_error", view=view
            ),
        ]
        place = next(place for place, event in enumerate(events) if isinstance(event, ConclusionChecked))
        return [*events[:place], *new, *events[place:]]

    return mutate


def recite(change: Callable[[Citation], Citation | None]) -> Mutation:
    """Return a mutation that changes every citation of claims and of evidence; None takes it away."""

    def checked(event: Any) -> Event:
        checks = [
            one.model_copy(
                update={"citations": [cited for c in one.citations if (cited := change(c)) is not None]}
            )
            for one in event.checks
        ]
        return ConclusionChecked(**{**dict(event), "checks": checks})

    def added(event: Any) -> Event | None:
        cited = change(event.evidence.citation)
        if cited is None:
            return None
        return EvidenceAdded(evidence=event.evidence.model_copy(update={"citation": cited}))

    return lambda events: each(EvidenceAdded, added)(each(ConclusionChecked, checked)(events))


def change_of(name: str, setting: str, value: str | None) -> Change:
    return Change(
        id=name,
        host="lab",
        unit="engine.service",
        setting=setting,
        from_value=None,
        to_value=value,
        reason="r",
        hypotheses=["H1"],
        predicted_effect="better",
        mechanism="none",
        rollback="undo",
    )


WORDS = (
    *("network", "memory", "driver", "fan", "disk", "kernel", "cache", "power"),
    *("graph", "batch", "depth", "thermal", "kv", "nccl", "queue"),
)
