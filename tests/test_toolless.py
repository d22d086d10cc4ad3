"""A model that takes no tools: told in a line, whether its server refuses them or passes them over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.models.scripted import MODEL, ScriptedServer, serving
from agent.models.scripted_script import from_file
from agent.session import Session
from agent.toolless import without_tools
from tests.scripted_parts import STORY, TOOLS, LocalHost, ScriptedModel, make_settings, plain, run, turn
from tests.terminal_fixtures import environment

LEADLINE = str(Path(sys.executable).with_name("leadline"))
TALK = '- text: "It is the network."\n- text: "As I said, the network."\n'


def begin(root: Path, *said: str, name: str = "openai:chatty") -> Session:
    model = ScriptedModel([turn(text=text) for text in said])
    model.name = name
    hosts = {"here": LocalHost()}
    return Session.start(make_settings(root), model, hosts, "slow", thread="one", tools=TOOLS, redact=plain)


async def test_a_model_that_only_talks_is_told_from_one_that_looked(tmp_path: Path) -> None:
    session = begin(tmp_path, "It is the network.", "As I said,\n the network.")
    await run(session)
    assert session.ended is not None and session.ended.outcome == "inconclusive"
    said = session.ended.summary
    assert said.startswith("chatty made no tool call in 2 turns, so it looked at nothing")
    assert "--tool-call-parser" in said and said.endswith("It said: As I said, the network.")


async def test_what_a_model_says_at_length_is_cut(tmp_path: Path) -> None:
    session = begin(tmp_path, "x " * 4000, "x " * 4000)
    await run(session)
    assert session.ended is not None and len(session.ended.summary) < 800


@pytest.mark.parametrize("name", ["scripted", "playbook"])
async def test_only_models_behind_an_endpoint_are_meant(tmp_path: Path, name: str) -> None:
    session = begin(tmp_path, "It is the network.", name=name)
    await run(session)
    assert session.ended is not None and session.ended.summary == "It is the network."


async def test_one_that_called_a_tool_is_not_meant(tmp_path: Path) -> None:
    session = begin(tmp_path, "unused")
    session.work.model = ScriptedModel([*STORY[:2], turn(text="I stop."), turn(text="I stop.")])
    session.work.model.name = "openai:able"
    await run(session)
    assert without_tools(session.work) is None
    assert session.ended is not None and session.ended.summary == "I stop."


async def test_through_the_wire_it_is_one_line(tmp_path: Path) -> None:
    import asyncio

    script = tmp_path / "talk.yaml"
    script.write_text(TALK)
    async with serving(ScriptedServer(from_file(script), {}), 0) as url:
        argv = [LEADLINE, "ask", "-", "why did it die", "--model", MODEL, "--base-url", url]
        child = await asyncio.create_subprocess_exec(
            *argv, stdin=subprocess.PIPE, stdout=-1, stderr=-1, env=environment(str(tmp_path))
        )
        out, err = await asyncio.wait_for(child.communicate(b"a log\n"), 60)
    assert child.returncode == 0, err
    assert out.decode().count("made no tool call in 2 turns") == 1
    assert out.decode().startswith("inconclusive: scripted made no tool call")
