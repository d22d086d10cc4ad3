"""Long pastes, named in the input line, said whole and bounded; and the way to the shell and back."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from agent.surfaces.pastes import FOLDED, MOST, Pastes, shortened
from tests.terminal_fixtures import CTRL_C, CTRL_D, environment, typing
from tests.test_chat import SYMPTOM, events, program, said


def test_a_long_paste_has_a_name_and_is_said_whole() -> None:
    pastes = Pastes()
    one, other = "a" * FOLDED, "b" * FOLDED
    assert pastes.fold("short") == "short"
    line = f"see {pastes.fold(one)} and {pastes.fold(other)} and {pastes.fold(one)}"
    name = f"[pasted {FOLDED:,} characters"
    assert line == f"see {name}] and {name}, 2] and {name}]"
    assert pastes.unfold(line) == f"see {one} and {other} and {one}"
    assert pastes.unfold("[pasted 3 characters] by hand") == "[pasted 3 characters] by hand"


def test_a_name_inside_of_a_paste_stays_what_it_is() -> None:
    pastes = Pastes()
    quoting = pastes.fold("x" * FOLDED) * 1_000
    assert pastes.unfold(pastes.fold(quoting)) == quoting


def test_a_paste_that_is_too_long_is_refused_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert Pastes().fold("x" * (MOST + 1)) == ""
    told = capsys.readouterr().err
    assert "the paste of 200,001 characters is left out" in told and told.count("\n") == 1


def test_what_is_shown_again_of_a_long_text_is_its_beginning() -> None:
    assert shortened("short") == "short"
    assert shortened("x" * FOLDED) == "x" * 400 + " ... [16,000 characters]"


def test_pastes_into_a_chat(tmp_path: Path) -> None:
    log = "line of a log\n" * 10_000
    with typing(program(tmp_path, "quick"), environment(str(tmp_path))) as terminal:
        terminal.expect("what is wrong>")
        terminal.type(SYMPTOM)
        terminal.expect("ask on>", 60)
        terminal.type(f"\x1b[200~{'y' * 256_000}\x1b[201~", enter=False)
        terminal.expect("the paste of 256,000 characters is left out", 60)
        terminal.type(f"\x1b[200~{log}\x1b[201~", enter=False)
        terminal.expect("[pasted 140,000 characters]", 60)
        terminal.type(" what is this?")
        terminal.expect("reads it.", 60)
        terminal.type(CTRL_D, enter=False)
        assert terminal.ends(60) == 0
    assert said(tmp_path) == [f"{log} what is this?"]
    assert len(terminal.raw) < len(log), "it was not drawn"


def test_a_paste_that_the_terminal_does_not_mark(tmp_path: Path) -> None:
    log = "line of a log\n" * 5_000
    long = "what is this? " + "x" * 400
    with typing(program(tmp_path, "quick"), environment(str(tmp_path))) as terminal:
        terminal.expect("what is wrong>")
        terminal.type(SYMPTOM)
        terminal.expect("ask on>", 60)
        terminal.type("y" * 1_000_000, enter=False)
        terminal.expect("the paste of 1,000,000 characters is left out", 120)
        terminal.type(log.replace("\n", "\r"), enter=False)
        terminal.expect("[pasted 69,999 characters]", 60)
        terminal.type(CTRL_C, enter=False)
        terminal.expect("ask on>")
        terminal.type(long)
        terminal.expect("> what is this?")
        terminal.expect("reads it.", 60)
        terminal.type(CTRL_D, enter=False)
        assert terminal.ends(60) == 0
    assert said(tmp_path) == [long], "its Enter says it; that of a line of a log does not"
    assert len(terminal.raw) < len(log), "it was not drawn"


@pytest.mark.parametrize("shell", [["bash", "--norc", "--noprofile", "-i"], ["sh", "-i"]], ids=["bash", "sh"])
def test_to_the_shell_and_back(tmp_path: Path, shell: list[str]) -> None:
    with typing(shell, environment(str(tmp_path), PS1="shell> ", ENV="")) as terminal:
        terminal.expect("shell>")
        terminal.type(shlex.join(program(tmp_path, "quick")))
        terminal.expect("what is wrong>")
        terminal.type("slow:", enter=False)
        terminal.expect("slow:")
        terminal.type("\x1a", enter=False)
        terminal.expect("Stopped")
        terminal.expect("shell>")
        terminal.type("echo $((40 + 2))")
        terminal.expect("42")
        terminal.type("fg")
        terminal.expect("slow:")
        terminal.type(" 24 tok/s")
        terminal.expect("ask on>", 60)
        terminal.type(CTRL_D, enter=False)
        terminal.expect("shell>")
        terminal.type("exit $?")
        assert terminal.ends(60) == 0
    (started, *_) = events(tmp_path)
    assert started.type == "started" and started.symptom == SYMPTOM


def test_without_a_shell_nothing_stops(tmp_path: Path) -> None:
    with typing(program(tmp_path, "quick"), environment(str(tmp_path))) as terminal:
        terminal.expect("what is wrong>")
        terminal.type("\x1a", enter=False)
        terminal.type(SYMPTOM)
        terminal.expect("ask on>", 60)
        terminal.type(CTRL_D, enter=False)
        assert terminal.ends(60) == 0
