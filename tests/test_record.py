"""Demonstrations: lines that a person types, scripts, and a whole run under the guards of any model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.actions import ACTION_ARGS, DESCRIPTIONS
from agent.errors import UsageError
from agent.events import Ended, HypothesisMoved, Started, ToolFinished, TurnTaken
from agent.investigation import schemas_of
from agent.models.demonstration import (
    DemonstrationModel,
    DemonstrationStopped,
    from_script,
    read_script,
)
from agent.surfaces.input_line import Closed
from evals.record_lines import understand
from evals.record_prompt import Person, suggestions
from tests.lab_fixtures import lab_settings, running
from tools.registry import load_all

SCRIPTS = Path(__file__).parent.parent / "transcripts" / "scripts"
SCHEMAS = schemas_of(load_all())


def understood(line: str) -> tuple[str, dict[str, Any]]:
    found = understand(line, SCHEMAS, [])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ('grep {"pattern": "a b", "judge": false}', {"pattern": "a b", "judge": False}),
        (
            'grep pattern="a b" judge=false max_matches=7',
            {"pattern": "a b", "judge": False, "max_matches": 7},
        ),
        ("grep pattern=24", {"pattern": "24"}),
        ("benchmark port=30000 concurrency=1 concurrency=8", {"port": 30000, "concurrency": [1, 8]}),
        ("benchmark port=30000 concurrency=[1,8]", {"port": 30000, "concurrency": [1, 8]}),
    ],
)
def test_arguments_are_json_or_pairs(line: str, arguments: dict[str, Any]) -> None:
    assert understood(line)[1] == arguments


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("gerp pattern=a", "no tool 'gerp'"),
        ("grep pattern", "'pattern' has no key"),
        ("grep {pattern}", "not JSON"),
        ('grep pattern="a', "close the quotes"),
        ("hypothesis too few words", "needs a statement"),
        ("cite H1 P1", "names what it is for"),
    ],
)
def test_what_is_no_call_is_explained(line: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        understood(line)


def test_short_forms_are_valid_calls() -> None:
    tool, stated = understood('hypothesis "graphs are off" rank=1 for="graph: False" against="graph: True"')
    assert tool == "hypothesis"
    _, cited = understood('cite H1 P1 log t3.1 "cuda graph: False" lines=3-4 note=seen')
    for arguments in (stated, cited):
        ACTION_ARGS["hypothesis"].model_validate(arguments)
    assert cited["update"][0]["evidence"][0]["lines"] == [3, 4]


def test_claims_wait_for_the_conclusion() -> None:
    claims: list[Any] = []
    line = 'claim log_event says="no graph" cite.artifact=t3.1 cite.quote="cuda graph: False"'
    assert understand(line, SCHEMAS, claims) is None
    found = understand('conclude outcome=diagnosed summary="graphs are off" causes=H1', SCHEMAS, claims)
    assert found is not None
    conclusion = ACTION_ARGS["conclude"].model_validate(found[1])
    assert conclusion.model_dump()["claims"][0]["cite"]["quote"] == "cuda graph: False"


def test_tools_fields_and_values_are_completed() -> None:
    assert suggestions("gr", SCHEMAS) == ["grep"]
    assert "pattern=" in suggestions("grep pa", SCHEMAS)
    assert suggestions("grep judge=f", SCHEMAS) == ["judge=false"]
    assert set(DESCRIPTIONS) <= set(suggestions("", SCHEMAS))


class Typed:
    """Lines of a person who types these."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = list(lines)

    async def read(self, prompt: str) -> str:
        if not self._lines:
            raise Closed
        return self._lines.pop(0)


async def test_a_person_is_asked_again_and_can_call_tools_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    person = Person(Typed(["say looking", "gerp a", "grep pattern=a &", "journal unit=x.service"]))
    turn = await person([], SCHEMAS)
    assert (turn.text, [call.name for call in turn.tool_calls]) == ("looking", ["grep", "journal"])
    assert "no tool 'gerp'" in capsys.readouterr().err
    with pytest.raises(DemonstrationStopped):
        await person([], SCHEMAS)


def write(folder: Path, *lines: object) -> Path:
    path = folder / "script.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", r"script\.jsonl:2: line: not JSON"),
        (
            {"tool": "grep", "argument": {}},
            r"script\.jsonl:2: calls\.0\.argument: there is no such field; near",
        ),
        ({"calls": [{"arguments": {}}]}, r"script\.jsonl:2: calls\.0\.tool: is missing"),
    ],
)
def test_a_wrong_script_is_named_by_line_and_field(tmp_path: Path, line: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_script(write(tmp_path, "# a comment", line))


async def test_a_script_can_take_values_from_results(tmp_path: Path) -> None:
    pid = {"$view": "t1", "match": '"pid": (\\d+)', "number": True}
    ask = from_script(
        read_script(write(tmp_path, {"tool": "grep", "arguments": {"pattern": "a", "pid": pid}}))
    )
    call = {"id": "orient-1", "function": {"name": "facts", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "slow"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "orient-1", "content": '{"pid": 14}'},
    ]
    turn = await DemonstrationModel(ask).next_turn(messages, SCHEMAS)
    assert json.loads(turn.tool_calls[0].arguments) == {"pattern": "a", "pid": 14.0}
    messages.append({"role": "assistant", "content": "", "tool_calls": []})
    with pytest.raises(DemonstrationStopped, match="no turn 2"):
        await ask(messages, SCHEMAS)
    messages[2]["content"] = "{}"
    with pytest.raises(DemonstrationStopped, match="nothing in the result of t1"):
        await ask(messages[:3], SCHEMAS)


@pytest.mark.lab
@pytest.mark.slow
def test_a_demonstration_passes_the_same_guards(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from agent.transcript import read_events
    from evals.record import app

    settings = lab_settings(tmp_path)
    with running("kimi-k26-pp8", settings) as lab, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEADLINE_STATE_DIR", str(settings.state_dir))
        script = SCRIPTS / "founding-halfway.jsonl"
        words = [lab.name, "PP8 decode is slow", "--mode", "propose", "--from", str(script), "--json", "-q"]
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout.splitlines()[-1])
    events = read_events(settings.state_dir / "threads" / said["session_id"] / "transcript.jsonl")
    started, ended = events[0], events[-1]
    assert isinstance(started, Started) and started.recorded == "demonstration"
    assert isinstance(ended, Ended) and ended.outcome == "diagnosed"
    assert {event.model for event in events if isinstance(event, TurnTaken)} == {
        "orientation",
        "demonstration",
    }
    moved = [event.hypothesis.status for event in events if isinstance(event, HypothesisMoved)]
    assert moved == ["open", "confirmed"]
    assert all(event.status == "ok" for event in events if isinstance(event, ToolFinished))
