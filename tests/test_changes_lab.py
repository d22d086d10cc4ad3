"""Changes tried on lab hosts: what helps is kept, what does nothing or harms is rolled back and says why."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.casefile import build, to_markdown
from agent.config import Settings
from agent.events import ActionStarted, ChangeMoved, ConclusionChecked, Judged
from agent.models import Model, ToolSchema
from agent.models.openai import OpenAIModel
from agent.models.playbook import PlaybookModel
from agent.models.scripted import MODEL, ScriptedServer, serving
from agent.models.scripted_script import by_method
from agent.session import Session
from agent.state import AssistantTurn, Message
from evals.lab.hosts import Lab
from evals.lab.scenario import Scenario, load
from evals.solve import work
from tests.lab_fixtures import running
from tools.artifacts import ArtifactStore
from tools.host import connect

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timed]

SYMPTOM = "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"


class Stubborn(PlaybookModel):
    """Follow the method, but put one change of its own choosing last, as a careless model would."""

    def __init__(self, setting: str, to_value: str) -> None:
        self.change = {"setting": setting, "from_value": None, "to_value": to_value}

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        turn = await super().next_turn(messages, tools, on_text)
        *others, final = turn.tool_calls
        if final.name != "propose_change":
            return turn
        wanted = json.dumps({**json.loads(final.arguments), **self.change})
        return turn.model_copy(
            update={"tool_calls": [*others, final.model_copy(update={"arguments": wanted})]}
        )


def unit_text(lab: Lab) -> str:
    command = [
        *lab.ssh_argv,
        "systemctl cat sglang-kimi.service; ls /etc/systemd/system/sglang-kimi.service.d",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout


def tried(
    folder: Path, scenario: str | Scenario, model: Model, tokens: int = 32
) -> tuple[Session, Lab, str, str]:
    """Investigate in mode apply and approve every plan; return also the unit's text before and after."""
    settings = Settings(state_dir=folder / "state", experiment_tokens=tokens)
    settings = settings.model_copy(update={"tools": settings.tools.model_copy(update={"allow_load": True})})
    with running(scenario, settings) as lab:
        before = unit_text(lab)
        session = asyncio.run(_investigate(settings, lab, model))
        return session, lab, before, unit_text(lab)


async def _investigate(settings: Settings, lab: Lab, model: Model) -> Session:
    host = await connect(lab.target(), settings)
    session = Session.start(settings, model, {host.name: host}, SYMPTOM, "apply", scenario=lab.scenario)
    try:
        await work(session)
    finally:
        await host.close()
    return session


def last(session: Session, kind: type[Any]) -> Any:
    return [event for event in session.events if isinstance(event, kind)][-1]


def markdown(session: Session) -> str:
    return to_markdown(build(session.events, ArtifactStore(session.folder / "artifacts")))


def verified(session: Session) -> bool:
    checked: ConclusionChecked = last(session, ConclusionChecked)
    return checked.accepted and all(check.status == "verified" for check in checked.checks)


def test_the_founding_case_is_fixed_by_graphs_and_then_depth(tmp_path: Path) -> None:
    session, _, before, after = tried(tmp_path, "kimi-k26-pp8", PlaybookModel())
    graphs, depth = [event.comparison for event in session.events if isinstance(event, Judged)]
    assert graphs.kept and graphs.mechanism_moved and graphs.outputs_equal
    for level in graphs.levels:
        assert level.verdict == "improved" and 1.6 < (level.ratio or 0) < 2.0, level
    assert depth.kept and depth.outputs_equal and depth.mechanism_moved is None
    assert [level.verdict for level in depth.levels] == ["no_effect", "improved"]
    assert 1.5 < (depth.levels[1].ratio or 0) < 2.0
    assert session.ended is not None and session.ended.outcome == "fixed"
    assert verified(session)
    assert "--disable-cuda-graph" in before and "--pp-async-batch-depth 1" in after
    steps = [event for event in session.events if isinstance(event, ActionStarted) and event.step == "apply"]
    assert len({step.digest for step in steps}) == len(steps) == 2


class Wired:
    """Take turns from the built-in method over HTTP, some of them after a fault of the endpoint."""

    name = f"openai:{MODEL}"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server = ScriptedServer(by_method(), {2: "cut", 4: "429", 6: "500"})

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        async with serving(self._server) as url:
            endpoint = self._settings.model_copy(update={"model": MODEL, "base_url": url})
            return await OpenAIModel(endpoint, jitter=lambda: 0.0).next_turn(messages, tools, on_text)


def test_the_same_through_the_wire_with_faults_is_fixed(tmp_path: Path) -> None:
    session, _, _, after = tried(tmp_path, "kimi-k26-pp8", Wired(Settings()))
    kept = [event.change for event in session.events if isinstance(event, Judged) and event.comparison.kept]
    assert len(kept) == 2
    assert session.ended is not None and session.ended.outcome == "fixed"
    assert verified(session) and "--pp-async-batch-depth 1" in after


def test_the_twin_is_fixed_by_graphs_and_a_micro_batch_of_one(tmp_path: Path) -> None:
    session, _, _, after = tried(tmp_path, "kimi-k26-pp8-onebatch", PlaybookModel())
    changes = {e.change.id: e.change for e in session.events if isinstance(e, ChangeMoved)}
    kept = {change.setting for change in changes.values() if change.status == "verified"}
    assert kept == {"--disable-cuda-graph", "--pp-max-micro-batch-size"}
    assert "--pp-max-micro-batch-size 1" in after
    assert session.ended is not None and session.ended.outcome == "fixed"
    assert verified(session)


def test_on_the_twin_depth_has_no_effect_and_is_rolled_back(tmp_path: Path) -> None:
    model = Stubborn("--pp-async-batch-depth", "1")
    session, _, _, after = tried(tmp_path, "kimi-k26-pp8-onebatch", model)
    graphs, depth = [event.comparison for event in session.events if isinstance(event, Judged)]
    assert graphs.kept
    assert not depth.kept and depth.verdict == "no_effect", depth.why
    assert [level.verdict for level in depth.levels] == ["no_effect", "no_effect"]
    assert last(session, ChangeMoved).change.status == "rolled_back"
    assert "90-leadline" in after and "--pp-async-batch-depth" not in after
    assert "no effect" in markdown(session)


def test_a_depth_that_changes_greedy_outputs_is_refused(tmp_path: Path) -> None:
    model = Stubborn("--pp-async-batch-depth", "2")
    session, _, before, after = tried(tmp_path, "kimi-k26-pp8-depth2", model)
    comparison = last(session, Judged).comparison
    assert comparison.outputs_equal is False and not comparison.kept
    assert last(session, ChangeMoved).change.status == "rolled_back"
    assert after == before
    assert "outputs" in markdown(session)


def test_on_a_server_that_does_not_reproduce_itself_a_gain_is_kept_with_that_said(tmp_path: Path) -> None:
    hazards = {"output_changes": None, "irreproducible": {"fraction": 0.6}}
    host = load("kimi-k26-pp8-depth2").mutate({"engine": {"hazards": hazards}})
    session, _, _, after = tried(tmp_path, host, PlaybookModel(), tokens=16)
    comparison = last(session, Judged).comparison
    alone, beside = comparison.outputs
    assert alone.equal is True and alone.repeated == 1, comparison
    assert beside.equal is None and beside.unlike > 0 and beside.different > 0, comparison
    assert comparison.kept and comparison.outputs_state == "equality_open", comparison.why
    assert last(session, ChangeMoved).change.status == "verified" and "--pp-async-batch-depth" in after
    assert "outputs not comparable at concurrency 8" in comparison.why
    assert "equality not shown, although it is asked for" in markdown(session)


def test_where_capture_fails_the_host_is_back_as_it_was(tmp_path: Path) -> None:
    class GraphsOnly(PlaybookModel):
        async def next_turn(
            self,
            messages: Sequence[Message],
            tools: Sequence[ToolSchema],
            on_text: Callable[[str], None] = lambda text: None,
        ) -> AssistantTurn:
            turn = await super().next_turn(messages, tools, on_text)
            kept = [call for call in turn.tool_calls if "async-batch-depth" not in call.arguments]
            proposing = any(call.name == "propose_change" for call in turn.tool_calls)
            return turn.model_copy(update={"tool_calls": kept}) if proposing else turn

    session, _, before, after = tried(tmp_path, "kimi-k26-pp8-capturefails", GraphsOnly())
    assert last(session, ChangeMoved).change.setting == "--disable-cuda-graph"
    assert last(session, ChangeMoved).change.status == "rolled_back"
    assert after == before and "--disable-cuda-graph" in after
    assert "apture" in markdown(session)
    assert session.ended is not None and session.ended.outcome != "fixed"
