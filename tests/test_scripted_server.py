"""Whole investigations through the wire: the openai model against the scripted server, with faults."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent.config import Settings
from agent.errors import ExitCode, ModelEndpointError, UsageError
from agent.events import ConclusionChecked, Failed, TextDelta, ToolFinished, TurnTaken
from agent.models import Model
from agent.models.openai import OpenAIModel
from agent.models.playbook import PlaybookModel
from agent.models.scripted import MODEL, ScriptedServer, serving
from agent.models.scripted_script import (
    FaultKind,
    ScriptCall,
    ScriptTurn,
    by_method,
    from_file,
    from_turns,
    parse_faults,
)
from agent.models.select import model_of
from agent.session import Session
from agent.state import AssistantTurn
from tests.lab_fixtures import lab_settings, running
from tests.scripted_parts import STORY, TOOLS, LocalHost, ScriptedModel, essence, make_settings, plain
from tests.scripted_parts import run as run_session
from tools.contract import Host
from tools.host import connect


def story() -> list[ScriptTurn]:
    turns = [move for move in STORY if isinstance(move, AssistantTurn)]
    assert len(turns) == len(STORY)
    return [
        ScriptTurn(
            text=turn.text,
            tool_calls=[ScriptCall(name=call.name, arguments=call.arguments) for call in turn.tool_calls],
        )
        for turn in turns
    ]


async def no_pause(seconds: float) -> None:
    assert seconds <= 60


def model_at(settings: Settings, url: str, **more: Any) -> Model:
    update = {"model": MODEL, "base_url": url, "model_stall_s": 0.3, **more}
    return OpenAIModel(settings.model_copy(update=update), sleep=no_pause)


def begin(root: Path, model: Model, symptom: str = "slow", host: Host | None = None) -> Session:
    host = host or LocalHost("here")
    settings = make_settings(root)
    return Session.start(settings, model, {host.name: host}, symptom, tools=TOOLS, redact=plain)


def bare(session: Session) -> list[dict[str, Any]]:
    """Return what must not depend on the way a turn came: all but names of models and calls, and counts."""
    rows = essence(session.events)
    for row in rows:
        for key in ("recorded", "model", "usage", "tool_call_id"):
            row.pop(key, None)
        for call in row.get("tool_calls", []):
            call.pop("id")
    return rows


FAULTS: Mapping[int, FaultKind] = {
    1: "500",
    2: "cut",
    4: "parallel",
    5: "429",
    6: "stall",
    8: "garbage",
    9: "html",
    10: "no-ids",
}


async def test_a_story_through_the_wire_is_the_same_story(tmp_path: Path) -> None:
    direct = begin(tmp_path / "direct", ScriptedModel(STORY))
    await run_session(direct)
    server = ScriptedServer(from_turns(story()), FAULTS)
    async with serving(server) as url:
        wired = begin(tmp_path / "wired", model_at(make_settings(tmp_path), url))
        live = await run_session(wired)
    assert bare(wired) == bare(direct)
    assert wired.ended is not None and wired.ended.outcome == "diagnosed"
    assert len(server.requests) == 11
    shown = "".join(event.text for event in live if isinstance(event, TextDelta))
    assert "the turn is taken again]" in shown


async def test_a_broken_call_teaches_through_the_wire(tmp_path: Path) -> None:
    turns = story()
    server = ScriptedServer(from_turns([*turns[:2], turns[1], *turns[2:]]), {2: "broken-call"})
    async with serving(server) as url:
        session = begin(tmp_path, model_at(make_settings(tmp_path), url))
        await run_session(session)
    results = [event for event in session.events if isinstance(event, ToolFinished) and event.turn == 2]
    assert [event.status for event in results] == ["tool_error"] * 3
    assert session.ended is not None and session.ended.outcome == "diagnosed"


async def test_a_dead_endpoint_loses_nothing_and_can_be_gone_on_with(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    faults: dict[int, FaultKind] = dict.fromkeys(range(3, 9), "500")
    async with serving(ScriptedServer(from_turns(story()), faults)) as url:
        session = begin(tmp_path, model_at(settings, url))
        with pytest.raises(ModelEndpointError, match="HTTP 500"):
            await run_session(session)
    assert session.exit_code is ExitCode.MODEL_ENDPOINT
    failed = session.events[-1]
    assert isinstance(failed, Failed) and session.thread in failed.error and "\n" not in failed.error
    async with serving(ScriptedServer(from_turns(story()))) as url:
        host = {"here": LocalHost("here")}
        later = Session.resume(
            settings, session.thread, model_at(settings, url), host, tools=TOOLS, redact=plain
        )
        await run_session(later)
    assert later.ended is not None and later.ended.outcome == "diagnosed"
    assert [event.turn for event in later.events if isinstance(event, TurnTaken)] == [0, 1, 2, 3, 4, 5]


async def test_the_method_answers_over_http(tmp_path: Path) -> None:
    sessions = []
    async with serving(ScriptedServer(by_method(), {1: "broken-call"})) as url:
        for model in (PlaybookModel(), model_at(make_settings(tmp_path), url)):
            session = begin(tmp_path / model.name.replace(":", "-"), model)
            await run_session(session)
            sessions.append(session)
    ends = [session.ended for session in sessions]
    assert ends[0] is not None and ends[1] is not None
    assert (ends[0].outcome, ends[0].summary) == (ends[1].outcome, ends[1].summary)


async def test_the_server_is_openai_compatible() -> None:
    async with serving(ScriptedServer(by_method())) as url, httpx2.AsyncClient(base_url=url) as client:
        models = (await client.get("/models")).json()
        assert [row["id"] for row in models["data"]] == [MODEL]
        body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "slow"}]}
        whole = (await client.post("/chat/completions", json=body)).json()
        assert whole["choices"][0]["finish_reason"] == "tool_calls" and whole["usage"]["total_tokens"] > 0
        streamed = (await client.post("/chat/completions", json={**body, "stream": True})).text
        lines = [line for line in streamed.splitlines() if line]
        assert lines[-1] == "data: [DONE]" and all(line.startswith("data: ") for line in lines)
        assert "usage" not in streamed
        assert (await client.post("/chat/completions", content=b"{")).status_code == 400
        assert (await client.post("/chat/completions", json=[])).status_code == 400
        assert (await client.get("/nothing")).status_code == 404


async def test_what_is_no_http_is_refused() -> None:
    async with serving(ScriptedServer(by_method())) as url:
        port = httpx2.URL(url).port
        assert port is not None
        for junk in (
            b"hello\r\n\r\n",
            b"x" * 100_000 + b"\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(junk)
            with suppress(ConnectionResetError):  # it may hang up before all of it was sent
                assert (await reader.read()).startswith(b"HTTP/1.1 400")
            writer.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- text: [", "is not YAML"),
        ("text: hello", "file: should be a list"),
        ("- txt: hello", "0.txt: there is no such field"),
        ("- tool_calls: [{}]", "0.tool_calls.0.name: is missing"),
    ],
)
def test_a_script_that_is_none_is_told(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        from_file(path)
    assert "\n" not in str(caught.value)


async def test_a_script_file_is_followed_by_what_was_said_so_far(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(
        "- text: Look.\n  tool_calls: [{name: grep, arguments: {pattern: x}}]\n"
        "- reasoning: Hm.\n  text: End.\n"
    )
    answers = from_file(path)
    first = await answers([{"role": "user", "content": "slow"}], [])
    assert first.tool_calls[0].name == "grep" and json.loads(first.tool_calls[0].arguments) == {
        "pattern": "x"
    }
    said = [{"role": "assistant", "content": "Look."}]
    assert (await answers(said, [])).reasoning == "Hm."
    assert "no further turn" in (await answers(said * 2, [])).text


@pytest.mark.parametrize("spec", ["3", "0:429", "x:429", "3:teapot", ":429"])
def test_a_fault_that_is_none_is_told(spec: str) -> None:
    with pytest.raises(UsageError, match="kinds: 401, 429"):
        parse_faults([spec])


def test_the_model_is_chosen_by_the_settings(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, api_key=None, base_url=None)
    assert model_of(settings).name == "playbook"
    named = settings.model_copy(update={"model": "kimi"})
    with pytest.raises(UsageError, match="model kimi needs an endpoint; give --base-url"):
        model_of(named)
    with pytest.raises(UsageError, match="not a base URL: 'gpu1:30000'"):
        model_of(named.model_copy(update={"base_url": "gpu1:30000"}))
    assert model_of(named.model_copy(update={"base_url": "http://gpu1:30000/v1"})).name == "openai:kimi"


async def test_the_command_serves_until_it_is_told_to_stop() -> None:
    argv = ["scripted", "--fault", "1:429"]
    code = "import sys; sys.argv = ['leadline', *sys.argv[1:]]; from agent.surfaces.main import main; main()"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *argv, stdout=-1, stderr=-1)
    assert child.stdout is not None
    url = (await asyncio.wait_for(child.stdout.readline(), 60)).decode().strip()
    async with httpx2.AsyncClient(base_url=url) as client:
        body = {"model": MODEL, "messages": []}
        assert (await client.post("/chat/completions", json=body)).status_code == 429
    child.send_signal(signal.SIGTERM)
    await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode == 0


def outline(session: Session) -> dict[str, Any]:
    """Return what an investigation of a measured host comes to, whatever the noise of its numbers."""
    ledger = session._work.ledger
    checked = [event for event in session.events if isinstance(event, ConclusionChecked)][-1]
    return {
        "outcome": checked.conclusion.outcome,
        "causes": checked.conclusion.causes,
        "hypotheses": [(item.id, item.rank, item.status) for item in ledger.hypotheses.values()],
        "links": [
            [(link.prediction, link.matched) for link in item.links] for item in ledger.hypotheses.values()
        ],
        "changes": [(item.setting, item.from_value, item.to_value) for item in ledger.changes.values()],
        "claims": Counter(
            (claim.type, check.status)
            for claim, check in zip(checked.conclusion.claims, checked.checks, strict=True)
        ),
        "ruled_out": [item.hypothesis for item in checked.conclusion.ruled_out],
    }


@pytest.mark.lab
@pytest.mark.slow
async def test_the_founding_case_is_solved_through_the_wire(tmp_path: Path) -> None:
    base = lab_settings(tmp_path)
    settings = base.model_copy(update={"tools": base.tools.model_copy(update={"allow_load": True})})
    faults: dict[int, FaultKind] = {1: "html", 2: "429", 3: "parallel", 4: "cut", 5: "broken-call", 8: "500"}
    symptom = "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"
    server = ScriptedServer(by_method(), faults)
    with running("kimi-k26-pp8", settings) as lab:
        async with serving(server) as url:
            models: Sequence[Model] = (PlaybookModel(), model_at(settings, url))
            outlines = []
            for model in models:
                host = await connect(lab.target(), settings)
                try:
                    session = Session.start(settings, model, {host.name: host}, symptom)
                    await run_session(session)
                finally:
                    await host.close()
                outlines.append(outline(session))
    assert outlines[0] == outlines[1]
    assert outlines[0]["outcome"] == "diagnosed"
    assert {status for _, status in outlines[0]["claims"]} == {"verified"}
    assert len(server.requests) > max(faults)
