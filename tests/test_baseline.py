"""The plain shell agent that Leadline is compared with: what of its answers counts, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.casefile import build, to_markdown
from agent.errors import ModelEndpointError
from agent.events import (
    ChangeMoved,
    ConclusionChecked,
    Ended,
    Event,
    EvidenceAdded,
    Failed,
    HypothesisMoved,
    Started,
    SystemNote,
    ToolFinished,
    TurnTaken,
)
from agent.models import ToolSchema
from agent.models.openai import OpenAIModel
from agent.models.scripted import MODEL, ScriptedServer, serving
from agent.models.scripted_script import FaultKind, from_file
from agent.state import AssistantTurn, Message, Mode
from agent.surfaces.cli import app
from agent.transcript import check_order, read_events
from evals.baselines import run_baseline
from tests.lab_fixtures import lab_settings, running
from tests.scripted_parts import LocalHost, call, make_settings, turn
from tools.artifacts import ArtifactStore
from tools.host import connect

SCRIPTS = Path(__file__).parent.parent / "transcripts" / "scripts"
SYMPTOM = "decode is slow"


class Shell:
    """Take the turns of a script, the last one again and again; or fail."""

    name = "openai:test"

    def __init__(self, moves: Sequence[AssistantTurn | Exception]) -> None:
        self.moves = moves
        self.offered: list[list[str]] = []

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        self.offered.append([tool["function"]["name"] for tool in tools])
        number: int = sum(message["role"] == "assistant" for message in messages)
        move = self.moves[min(number, len(self.moves) - 1)]
        if isinstance(move, Exception):
            raise move
        return move


def bash(command: str, **more: Any) -> AssistantTurn:
    return turn(call("bash", command=command, **more))


def quote(text: str, seen_in: str = "t1", **more: Any) -> dict[str, Any]:
    return {"quote": text, "seen_in": seen_in, "kind": "log", **more}


def submit(*causes: dict[str, Any], outcome: str = "diagnosed", **more: Any) -> AssistantTurn:
    return turn(call("submit", outcome=outcome, causes=list(causes), summary="So it is.", **more))


def cause(statement: str, *evidence: dict[str, Any]) -> dict[str, Any]:
    return {"statement": statement, "evidence": list(evidence)}


async def played(root: Path, *moves: AssistantTurn | Exception, **limits: Any) -> list[Event]:
    """Run the baseline on this machine; return its events, which must form a valid transcript."""
    settings = make_settings(root, **limits)
    folder = await run_baseline(settings, Shell(moves), LocalHost(), SYMPTOM, "propose")
    return recorded(folder)


def recorded(folder: Path) -> list[Event]:
    path = folder / "transcript.jsonl"
    events = read_events(path)
    check_order(events, path)
    return events


def only(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def statuses(events: Sequence[Event]) -> list[str]:
    [checked] = only(events, ConclusionChecked)
    return [check.status for check in checked.checks]


async def test_what_was_printed_is_evidence_and_what_was_not_is_none(tmp_path: Path) -> None:
    events = await played(
        tmp_path,
        bash("uname -s"),
        submit(
            cause("It runs Linux.", quote("Linux")),
            cause("It reaches 80 tok/s.", quote("gen throughput (token/s): 80.00")),
            cause("It is slow."),
        ),
    )
    assert statuses(events) == ["verified", "unverified", "opinion"]
    [evidence] = only(events, EvidenceAdded)
    assert evidence.evidence.citation.artifact == "t1.1" and evidence.evidence.citation.lines == (1, 1)
    moved = {event.hypothesis.id: event.hypothesis.status for event in only(events, HypothesisMoved)}
    assert moved == {"H1": "supported", "H2": "open", "H3": "open"}
    [checked] = only(events, ConclusionChecked)
    assert checked.conclusion.causes == ["H1", "H2", "H3"] and "not in t1.1" in checked.problems[0]
    [started], [ended] = only(events, Started), only(events, Ended)
    assert (started.recorded, ended.outcome) == ("baseline:test", "diagnosed")


@pytest.mark.parametrize(
    ("text", "seen_in"),
    [
        ("Linux", "t2"),  # another command than the one that printed it
        ("Linux", "t9"),  # no command at all
        ("Linux", "/etc/nowhere.conf"),
        ("cuda graph: False", "t2"),  # the agent's own words, printed by echo
        ("Lin", "t1"),  # half a word
    ],
)
async def test_a_wrong_citation_is_not_verified(tmp_path: Path, text: str, seen_in: str) -> None:
    moves = bash("uname -s"), bash("echo 'cuda graph: False'"), submit(cause("So.", quote(text, seen_in)))
    events = await played(tmp_path, *moves)
    assert statuses(events) == ["unverified"] and not only(events, EvidenceAdded)


async def test_a_quote_out_of_a_file_is_cited_by_path_and_line(tmp_path: Path) -> None:
    path = tmp_path / "engine.py"
    path.write_text("first = 1\nsecond = 2\n\nif depth == 0:\n    relay()\n\nif depth == 0:\n    again()\n")
    events = await played(
        tmp_path,
        turn(
            call("bash", command=f"grep -n 'depth ==' {path}"),
            call("bash", command=f"cd {tmp_path}; cat engine.py"),
        ),
        submit(
            cause(
                "The relay is late.",
                quote("7:if depth == 0:", "t1", kind="source"),
                quote("if depth == 0:", str(path), kind="source"),
                quote("second = 2", "t2", kind="source"),
            )
        ),
    )
    cited = [event.evidence.citation for event in only(events, EvidenceAdded)]
    assert [(one.path, one.lines) for one in cited] == [
        (str(path), (7, 7)),
        (str(path), (4, 4)),
        (None, (2, 2)),
    ]
    assert statuses(events) == ["verified"] * 3


async def test_only_what_evidence_refutes_is_ruled_out(tmp_path: Path) -> None:
    events = await played(
        tmp_path,
        bash("uname -s"),
        submit(
            outcome="configuration_fine",
            ruled_out=[
                {"statement": "A power cap.", "because": "600 W", "evidence": [quote("600 W")]},
                {"statement": "Another system.", "because": "it is Linux", "evidence": [quote("Linux")]},
            ],
        ),
    )
    [checked] = only(events, ConclusionChecked)
    assert [ruled.hypothesis for ruled in checked.conclusion.ruled_out] == ["H2"]
    assert [event.hypothesis.status for event in only(events, HypothesisMoved)] == ["open", "refuted"]


async def test_the_budget_ends_it_after_one_turn_to_answer_in(tmp_path: Path) -> None:
    model = Shell([bash("uname -s")])
    settings = make_settings(tmp_path, max_turns=2)
    events = recorded(await run_baseline(settings, model, LocalHost(), SYMPTOM, "propose"))
    assert model.offered == [["bash", "submit"]] * 2 + [["submit"]]
    assert only(events, ToolFinished)[-1].status == "tool_error"
    [ended] = only(events, Ended)
    assert ended.outcome == "inconclusive" and "2 turns" in ended.summary
    assert not only(events, ConclusionChecked)


async def test_an_answer_in_the_last_turn_counts(tmp_path: Path) -> None:
    events = await played(tmp_path, bash("uname -s"), submit(cause("It.", quote("Linux"))), max_turns=1)
    assert statuses(events) == ["verified"]


async def test_tokens_end_it(tmp_path: Path) -> None:
    events = await played(tmp_path, turn(call("bash", command="true"), tokens=60), max_tokens=100)
    assert len(only(events, TurnTaken)) == 2 and "120 of 100 tokens" in only(events, Ended)[0].summary


async def test_what_is_wrong_with_a_call_is_told(tmp_path: Path) -> None:
    broken = call("bash").model_copy(update={"arguments": '{"command": "una'})
    events = await played(
        tmp_path,
        turn(broken, call("python", code="1"), call("bash", cmd="true"), call("submit", outcome="perhaps")),
        submit(outcome="inconclusive"),
    )
    told = [(event.status, json.loads(event.view).get("error", "")) for event in only(events, ToolFinished)]
    assert [status for status, _ in told] == ["tool_error"] * 4 + ["ok"]
    for (_, error), says in zip(
        told, ["not JSON", "no tool named 'python'", "command: Field", "outcome"], strict=False
    ):
        assert says in error
    assert only(events, Ended)[0].outcome == "inconclusive"


async def test_a_turn_without_a_call_is_reminded_once(tmp_path: Path) -> None:
    said = AssistantTurn(text="I believe it is the network.")
    events = await played(tmp_path, bash("true"), said, bash("true"), said, said)
    assert len(only(events, SystemNote)) == 2
    [ended] = only(events, Ended)
    assert (ended.outcome, ended.summary) == ("inconclusive", said.text)


async def test_calls_beside_an_answer_are_not_carried_out_after_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    events = await played(
        tmp_path,
        turn(*submit(outcome="inconclusive").tool_calls, call("bash", command=f"touch {mark}")),
    )
    assert not mark.exists() and len(only(events, Ended)) == 1


async def test_an_endpoint_that_is_down_is_recorded(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    model = Shell([bash("true"), ModelEndpointError("model m at u: HTTP 500")])
    with pytest.raises(ModelEndpointError, match="HTTP 500"):
        await run_baseline(settings, model, LocalHost(), SYMPTOM, "propose")
    [folder] = (tmp_path / "threads").iterdir()
    events = recorded(folder)
    assert isinstance(events[-1], Failed) and events[-1].exit_code == 7


async def test_secrets_and_floods_do_not_reach_the_model(tmp_path: Path) -> None:
    key = "hf_" + "aB3" * 12
    path = tmp_path / "secret.env"
    path.write_text(f"HF_TOKEN={key}\n")
    events = await played(
        tmp_path, bash(f"cat {path}; seq 200000"), bash(f"cut -d= -f2 {path}"), submit(outcome="inconclusive")
    )
    first, second, _ = only(events, ToolFinished)
    assert len(first.view) <= make_settings(tmp_path).tools.view_chars and "read_file" not in first.view
    assert "200000" in first.view and second.status == "tool_error"
    everything = b"".join(one.read_bytes() for one in (tmp_path / "threads").rglob("*") if one.is_file())
    assert key.encode() not in everything


def test_the_built_in_model_is_no_shell_agent() -> None:
    result = CliRunner().invoke(app, ["baseline", "local", "slow"])
    assert result.exit_code != 0 and "language model" in str(result.exception)


@pytest.mark.lab
@pytest.mark.slow
async def test_scripts_through_the_wire_against_a_lab(tmp_path: Path) -> None:
    settings = lab_settings(tmp_path)
    faults: dict[int, FaultKind] = {2: "cut"}
    with running("kimi-k26-pp8-notes", settings) as lab:
        host = await connect(lab.target(), settings)
        folders = []
        runs: list[tuple[str, Mode]] = [
            ("shell-right", "propose"),
            ("shell-graphs-only", "apply"),
            ("shell-obeys-log", "apply"),
        ]
        for script, mode in runs:
            async with serving(ScriptedServer(from_file(SCRIPTS / f"{script}.yaml"), faults)) as url:
                wired = settings.model_copy(update={"model": MODEL, "base_url": url})
                model = OpenAIModel(wired)
                folders.append(await run_baseline(wired, model, host, SYMPTOM, mode, lab.scenario))
        await host.close()
    right, half, obeyed = (recorded(folder) for folder in folders)
    assert statuses(right) == ["verified"] * 6
    source = [
        event.evidence.citation for event in only(right, EvidenceAdded) if event.evidence.kind == "source"
    ]
    assert [(Path(one.path or "").name, one.lines, one.version) for one in source] == [
        ("model_runner.py", (2761, 2761), "0.5.11"),
        ("scheduler_pp_mixin.py", (117, 117), "0.5.11"),
        ("server_args.py", (392, 392), "0.5.11"),
    ]
    assert [event.change.status for event in only(right, ChangeMoved)] == ["proposed", "proposed"]
    assert [event.change.status for event in only(half, ChangeMoved)] == ["proposed", "applied"]
    [_, stopped] = only(obeyed, ChangeMoved)
    assert (stopped.change.setting, stopped.change.status) == ("ActiveState", "applied")
    assert only(obeyed, Ended)[0].outcome == "configuration_fine"
    assert "--disable-cuda-graph" in to_markdown(build(half, ArtifactStore(folders[1] / "artifacts")))
