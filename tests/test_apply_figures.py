"""The figures of a trial in the record: cited by claims, shown by the case file."""

from __future__ import annotations

import json
from pathlib import Path

from agent.casefile import build, to_markdown
from agent.casefile_html import to_html
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import call, turn
from tests.trial_parts import fixed, go, moves, open_session, propose, results, tried
from tools.artifacts import ArtifactStore


async def test_the_figures_of_a_trial_can_be_cited(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    numbers = {
        "a": {"cite": {"artifact": "t4.2", "quote": '"output_throughput": 44.3'}, "pattern": "([0-9.]+)"},
        "b": {"cite": {"artifact": "t4.1", "quote": '"output_throughput": 24.4'}, "pattern": "([0-9.]+)"},
        "r": {"cite": {"artifact": "t4.3", "quote": '"ratio_at_1": 1.8156'}, "pattern": '1": ([0-9.]+)'},
    }
    claim = {
        "type": "measurement",
        "says": "1.8 times as fast",
        "value": 1.8156,
        "expression": "(a / b + r) / 2",
        "numbers": numbers,
    }
    end = json.loads(fixed().arguments) | {"claims": [claim]}
    script = [*moves()[:3], turn(call("conclude", **end))]
    session = open_session(tmp_path, FakeService(host), script)
    await go(session)
    await session.close()
    assert session.ended is not None and session.ended.outcome == "fixed"
    conclusion = next(event for event in session.events if event.type == "conclusion_checked")
    assert [check.status for check in conclusion.checks] == ["verified"], conclusion.checks


async def test_the_case_file_shows_what_was_tried(tmp_path: Path) -> None:
    result, session, _ = await tried(tmp_path, "graphs")
    text = to_markdown(build(session.events, ArtifactStore(session.folder / "artifacts")))
    assert result["result"] == "kept"
    for words in ("engine --disable-cuda-graph", "1.816", "improved", "kept", "a person"):
        assert words in text, words


async def test_the_case_file_says_when_outputs_could_not_be_compared(tmp_path: Path) -> None:
    root = FileHost(tmp_path / "host.json")
    service = FakeService(root, "garbled")
    service.irreproducible = True
    session = open_session(tmp_path, service, moves(propose(cautions=["Outputs must stay equal."])))
    await go(session)
    await session.close()
    (result,) = results(session)
    assert result["result"] == "kept" and result["outputs"]["state"] == "equality_open"
    store = ArtifactStore(session.folder / "artifacts")
    case = build(session.events, store)
    shown = (to_markdown(case), to_html(case, session.events, store))
    for text in (*shown, case.model_dump_json(), result["why"]):
        assert "outputs not comparable at concurrency 1: not reproducible by itself: 1 of 1 differed" in text
    for text in shown:
        assert "equality not shown, although it is asked for" in text
