"""Conversations, typed at a pseudo-terminal as a person would, or read from a pipe."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events import (
    ActionStarted,
    ApprovalGiven,
    ApprovalVoided,
    Ended,
    Event,
    PlanMade,
    ToolFinished,
    TurnTaken,
    UserMessage,
)
from agent.transcript import check_order, read_events
from tests.chat_program import WORDS
from tests.lab_fixtures import need_sandbox
from tests.terminal_fixtures import CTRL_C, CTRL_D, Terminal, environment, typing

HERE = Path(__file__).parent
SYMPTOM = "slow: 24 tok/s"
LEADLINE = str(Path(sys.executable).with_name("leadline"))


def program(root: Path, story: str, *more: str) -> list[str]:
    return [sys.executable, str(HERE / "chat_program.py"), str(root), story, *more]


@pytest.fixture
def chat(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A chat about the story that the test names, in a terminal."""
    with typing(program(tmp_path, request.param), environment(str(tmp_path))) as terminal:
        terminal.expect("what is wrong>")
        yield terminal


def events(root: Path) -> list[Event]:
    (path,) = (root / "threads").glob("*/transcript.jsonl")
    found = read_events(path)
    check_order(found, path)
    return found


def said(root: Path) -> list[str]:
    return [event.text for event in events(root) if isinstance(event, UserMessage)]


def outcomes(root: Path) -> list[str]:
    return [event.outcome for event in events(root) if isinstance(event, Ended)]


@pytest.mark.parametrize("chat", ["quick"], indirect=True)
def test_a_symptom_is_investigated_and_asked_on_about(chat: Terminal, tmp_path: Path) -> None:
    chat.type(SYMPTOM)
    chat.expect("H1 CUDA graphs are off")
    chat.expect("diagnosed: Graphs are off.")
    chat.expect("case.md")
    chat.expect("ask on>")
    chat.type("who reads the flag?")
    chat.expect("> who reads the flag?")
    chat.expect(WORDS)
    chat.expect("ask on>")
    chat.type("half a line", enter=False)
    chat.type(CTRL_C, enter=False)
    chat.expect("ask on>")
    chat.type(CTRL_D, enter=False)
    chat.expect("ask on with: leadline chat here --resume one")
    assert chat.ends() == 0 and chat.echoes
    assert said(tmp_path) == ["who reads the flag?"] and outcomes(tmp_path) == ["diagnosed"]
    assert "\x1b[?1049h" not in chat.raw, "no alternate screen"
    history = tmp_path / "chat-history"
    assert "+who reads the flag?" in history.read_text() and history.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("chat", ["quick"], indirect=True)
def test_slash_commands_answer_from_the_record(chat: Terminal) -> None:
    chat.type("/evidence")
    chat.expect("nothing was investigated yet: say first what is wrong; then /evidence")
    chat.type(SYMPTOM)
    chat.expect("ask on>")
    for command, shows in (
        ("/help", "/evidence N"),
        ("/hypotheses", "P1 for: the launch line disables graphs [E1 matches]"),
        ("/evidence", "E1 configuration: here:t1.1"),
        ("/evidence 1", "    --disable-cuda-graph"),
        ("/evidence 7", "no evidence 7; there is: E1"),
        ("/show t2", '"status": "open"'),
        ("/show t1.1", "--pp-size"),
        ("/show t99", "t99 is not a call"),
        ("/diff", "no change was proposed"),
        ("/cost", "turns    5 of 40"),
        ("/mode", "read-only: it only looks"),
        ("/frobnicate", "no command /frobnicate; there are: /help"),
    ):
        chat.type(command)
        chat.expect(shows)
        chat.expect("ask on>")
    chat.type("/quit")
    assert chat.ends() == 0


@pytest.mark.parametrize("chat", ["slow"], indirect=True)
def test_one_interrupt_holds_the_model_and_ends_no_call(chat: Terminal, tmp_path: Path) -> None:
    chat.type(SYMPTOM)
    chat.expect("I look for long.")
    chat.expect("working>")
    chat.type(CTRL_C, enter=False)
    chat.expect("held: the model waits")
    chat.expect("held>")
    chat.expect("t3 done in 3.")
    chat.type("the facts will do")
    chat.expect("> the facts will do")
    chat.expect("diagnosed: Graphs are off.")
    chat.expect("ask on>")
    assert said(tmp_path) == ["the facts will do"]
    look = [one for one in events(tmp_path) if isinstance(one, ToolFinished) and one.tool == "look"]
    assert [one.status for one in look] == ["ok"]
    chat.type(CTRL_C, enter=False)
    assert chat.ends() == 0


@pytest.mark.parametrize("chat", ["slow"], indirect=True)
def test_what_was_left_half_done_is_resumed(chat: Terminal, tmp_path: Path) -> None:
    chat.type(SYMPTOM)
    chat.expect("I look for long.")
    chat.expect("working>")
    chat.type(CTRL_C, enter=False)
    chat.expect("held>")
    chat.type(CTRL_C, enter=False)
    chat.expect("left unfinished; go on with: leadline chat here --resume one")
    assert chat.ends() == 0
    with typing(program(tmp_path, "slow", "here", "one"), environment(str(tmp_path))) as again:
        again.expect(f"one on here: {SYMPTOM}")
        again.expect("working>")
        again.process.kill()
        again.ends()
    with typing(program(tmp_path, "slow", "here", "one"), environment(str(tmp_path))) as again:
        again.expect("diagnosed: Graphs are off.")
        again.expect("ask on>")
        again.type(CTRL_D, enter=False)
        assert again.ends() == 0
    ids = [event.tool_call_id for event in events(tmp_path) if isinstance(event, ToolFinished)]
    assert len(ids) == len(set(ids)) and outcomes(tmp_path) == ["diagnosed"]


@pytest.mark.parametrize("chat", ["slow"], indirect=True)
def test_what_is_typed_meanwhile_steers_and_tab_sets_aside(chat: Terminal, tmp_path: Path) -> None:
    chat.type(SYMPTOM)
    chat.expect("I look for long.")
    chat.expect("working>")
    chat.type("/mode")
    chat.expect("read-only: it only looks")
    chat.type("who reads the flag?\t", enter=False)
    chat.expect("kept for after the answer: who reads the flag?")
    chat.type("mind the driver")
    chat.expect("> mind the driver")
    chat.expect("diagnosed: Graphs are off.")
    chat.expect("> who reads the flag?")
    chat.expect(WORDS)
    chat.expect("ask on>")
    chat.type("/quit")
    assert chat.ends() == 0
    order = [event for event in events(tmp_path) if isinstance(event, UserMessage | ToolFinished | TurnTaken)]
    place = next(index for index, event in enumerate(order) if isinstance(event, UserMessage))
    look, after = order[place + 1], order[place + 2]
    assert isinstance(look, ToolFinished) and look.tool == "look" and look.status == "ok"
    assert isinstance(after, TurnTaken) and after.turn == 3 and after.unheard == 0
    assert said(tmp_path) == ["mind the driver", "who reads the flag?"]


@pytest.mark.parametrize("chat", ["apply"], indirect=True)
def test_a_plan_is_shown_and_decided_on(chat: Terminal, tmp_path: Path) -> None:
    chat.type(SYMPTOM)
    chat.expect("C1: --disable-cuda-graph of engine.service")
    plan = chat.expect("Apply it?")
    for row in ("-engine --disable-cuda-graph", "+engine", "Predicted:", "Undo:", "Touches:", "Plan:"):
        assert row in plan, row
    assert "\x1b[31m    -engine --disable-cuda-graph" in chat.raw, "the diff is in colour"
    chat.type("/diff")
    chat.expect("C1 proposed: --disable-cuda-graph true -> (left out)")
    chat.expect("Apply it?")
    chat.type("y")
    chat.expect("C1 kept: improved at 1")
    chat.expect("C2: --pp-async-batch-depth of engine.service")
    first = digest(chat.expect("Apply it?"))
    chat.type("e")
    chat.expect("New value of --pp-async-batch-depth, empty to leave it out: ")
    chat.type("\x7f2")
    chat.expect("C2 is planned anew; the plan that was shown is void")
    chat.expect("C2: --pp-async-batch-depth of engine.service")
    again = chat.expect("Apply it?")
    assert "edited the value: 1 was proposed" in again and digest(again) != first
    chat.type("yes please")
    chat.expect("'yes please' is no answer. Deny with it as the reason?")
    chat.type("n")
    chat.expect("Apply it?")
    chat.type("d")
    chat.expect("Reason:")
    chat.type("not today")
    chat.expect("C2 denied by")
    chat.expect("ask on>")
    chat.type("/diff")
    chat.expect("C1 verified")
    chat.type(CTRL_D, enter=False)
    assert chat.ends() == 0
    given = [event for event in events(tmp_path) if isinstance(event, ApprovalGiven)]
    assert [(one.decision, one.reason) for one in given] == [("approved", ""), ("denied", "not today")]
    acted = {event.change for event in events(tmp_path) if isinstance(event, ActionStarted)}
    assert acted == {"C1"}
    plans = [event for event in events(tmp_path) if isinstance(event, PlanMade) and event.change == "C2"]
    voided = [event.digest for event in events(tmp_path) if isinstance(event, ApprovalVoided)]
    assert [plan.plan["to_value"] for plan in plans] == ["1", "2"] and voided == [plans[0].digest]


def digest(plan: str) -> str:
    return plan.rpartition("Plan:")[2].split()[0]


@pytest.mark.parametrize("chat", ["late"], indirect=True)
def test_keys_of_an_unfinished_message_decide_nothing(chat: Terminal, tmp_path: Path) -> None:
    chat.type(SYMPTOM)
    chat.expect("I look for long.")
    chat.expect("working>")
    chat.type("yes", enter=False)
    chat.expect("Plan:")
    chat.type("y")
    chat.expect("Apply it?")
    chat.type("")
    chat.expect("Apply it?")
    assert not any(isinstance(event, ApprovalGiven) for event in events(tmp_path))
    chat.type(CTRL_C, enter=False)
    chat.expect("left unfinished")
    assert chat.ends() == 0
    with typing(program(tmp_path, "late", "here", "one"), environment(str(tmp_path))) as again:
        again.expect("Apply it?")
        again.type("n")
        again.expect("C1 denied by")
        again.expect("inconclusive: Done.")
        again.type("/quit")
        assert again.ends() == 0


@pytest.mark.parametrize("chat", ["slow"], indirect=True)
def test_two_interrupts_in_a_row_leave_at_once(chat: Terminal, tmp_path: Path) -> None:
    chat.type(SYMPTOM)
    chat.expect("I look for long.")
    chat.expect("working>")
    chat.type(CTRL_C + CTRL_C, enter=False)
    chat.expect("left unfinished; go on with: leadline chat here --resume one")
    assert chat.ends() == 0 and chat.echoes
    assert outcomes(tmp_path) == []


@pytest.mark.parametrize("chat", ["quick"], indirect=True)
def test_a_termination_leaves_and_says_so(chat: Terminal) -> None:
    chat.type(SYMPTOM)
    chat.expect("ask on>")
    chat.process.send_signal(signal.SIGTERM)
    chat.expect("ask on with: leadline chat here --resume one")
    assert chat.ends() == 143 and chat.echoes


def piped(argv: list[str], root: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(
        argv, input=text, env=environment(str(root)), capture_output=True, text=True, check=False, timeout=60
    )


def test_lines_of_a_pipe_are_messages(tmp_path: Path) -> None:
    done = piped(program(tmp_path, "quick"), tmp_path, SYMPTOM, "who reads the flag?", "/hypotheses", "/nope")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    answer, words, rest = done.stdout.partition(WORDS)
    assert "diagnosed: Graphs are off." in answer and words
    assert "H1 " in rest and "no command /nope" in rest
    assert "verifier:" in done.stderr and "verifier:" not in done.stdout
    assert "go on" not in done.stderr and "ask on with: leadline chat here --resume one" in done.stderr


def test_a_pipe_decides_on_simulated_hosts_alone(tmp_path: Path) -> None:
    done = piped(program(tmp_path / "real", "apply"), tmp_path / "real", SYMPTOM, "y", "y")
    assert done.returncode == 4, done.stderr
    assert (
        "an approval of C1 is needed; answer it at a terminal: leadline chat here --resume one" in done.stderr
    )
    assert not any(isinstance(event, ApprovalGiven) for event in events(tmp_path / "real"))
    lab = tmp_path / "lab"
    done = piped(program(lab, "apply", "lab:tiny#1"), lab, SYMPTOM)
    assert done.returncode == 4 and "--disable-cuda-graph" in done.stdout, done.stderr
    done = piped(program(lab, "apply", "lab:tiny#1", "one"), lab, "y", "no, it is Friday")
    assert done.returncode == 0, done.stderr
    given = [event for event in events(lab) if isinstance(event, ApprovalGiven)]
    assert [(one.decision, one.reason) for one in given] == [("approved", ""), ("denied", "no, it is Friday")]


def test_an_error_of_the_model_does_not_end_the_chat(tmp_path: Path) -> None:
    argv = [LEADLINE, "chat", "local", "--model", "absent", "--base-url", "http://127.0.0.1:9/v1"]
    quick = environment(str(tmp_path), LEADLINE_MODEL_RETRIES="0")
    text = f"{SYMPTOM}\n/cost\nand now?\n"
    done = subprocess.run(
        argv, input=text, env=quick, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 7, done.stderr
    assert done.stderr.count("resume thread") == 2 and "Traceback" not in done.stderr
    assert "turns    0 of 40" in done.stdout
    assert said(tmp_path) == ["and now?"]


def test_the_built_in_method_says_that_it_cannot_answer(tmp_path: Path) -> None:
    done = piped(program(tmp_path, "deaf"), tmp_path, SYMPTOM, "try another flag", "/cost")
    assert done.returncode == 0, done.stderr
    assert "The built-in playbooks take no advice" in done.stdout
    assert "/model NAME URL" in done.stdout and "turns" in done.stdout
    assert said(tmp_path) == []


def test_a_chat_without_a_message_leaves_nothing(tmp_path: Path) -> None:
    done = piped(program(tmp_path, "quick"), tmp_path)
    assert done.returncode == 0 and not (tmp_path / "threads").exists()


def test_words_stand_above_the_input_line_as_they_come(tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is absent")
    tmux = ["tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
    command = shlex.join(program(tmp_path, "words"))
    size = ["-x", "100", "-y", "30"]
    subprocess.run(
        [*tmux, "new-session", "-d", "-s", "chat", *size, command], env=environment(str(tmp_path)), check=True
    )

    def screen(text: str) -> list[str]:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            pane = [*tmux, "capture-pane", "-p", "-t", "chat"]
            shown = subprocess.run(pane, capture_output=True, text=True, check=True).stdout.rstrip()
            if text in shown:
                return shown.splitlines()
            time.sleep(0.05)
        pytest.fail(f"{text!r} is not on the screen:\n{shown}")

    try:
        screen("what is wrong>")
        subprocess.run([*tmux, "send-keys", "-t", "chat", SYMPTOM, "Enter"], check=True)
        *_, words, line = screen("It is set in")
        assert words.startswith("It is set in") and line.endswith("working>"), (words, line)
        *above, line = screen("ask on>")
        assert line == "[here · read-only] ask on>"
        assert [row for row in above if WORDS in row] == [WORDS], above
        assert not any("working>" in row for row in above)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


@pytest.mark.lab
@pytest.mark.slow
def test_a_change_of_a_lab_host_is_approved_and_another_denied(tmp_path: Path) -> None:
    need_sandbox()
    argv = [LEADLINE, "chat", "lab:kimi-k26-pp8", "--mode", "apply"]
    quick = environment(
        str(tmp_path), LEADLINE_EXPERIMENT_REPEATS="1", LEADLINE_EXPERIMENT_TOKENS="16", NO_COLOR="1"
    )
    with typing(argv, quick) as terminal:
        terminal.expect("what is wrong>", 120)
        terminal.type("PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W")
        terminal.expect("C1: --disable-cuda-graph of sglang-kimi.service", 90)
        terminal.expect("---disable-cuda-graph")
        assert "\x1b[31m" not in terminal.raw
        terminal.expect("Apply it?")
        terminal.type("y")
        terminal.expect("C1 confirmed", 60)
        terminal.expect("C2: --pp-async-batch-depth", 30)
        terminal.expect("Apply it?")
        terminal.type("d another day")
        terminal.expect("C2 denied by")
        terminal.expect("ask on>", 60)
        terminal.type(CTRL_D, enter=False)
        terminal.expect("the simulated host is given back")
        assert terminal.ends() == 0
    given = [event.decision for event in events(tmp_path) if isinstance(event, ApprovalGiven)]
    assert given == ["approved", "denied"]
    assert list((tmp_path / "labs").iterdir()) == []
