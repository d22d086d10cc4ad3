"""A chat on terminals that can little, are far away, or go away in the middle."""

from __future__ import annotations

import asyncio
import getpass
import shlex
from pathlib import Path

import pytest

from agent.events import Ended, ToolFinished
from tests.sshd_fixtures import openssh_server
from tests.terminal_fixtures import CTRL_C, CTRL_D, Terminal, environment, typing
from tests.test_chat import SYMPTOM, events, outcomes, program

pytestmark = pytest.mark.slow


def talk(terminal: Terminal) -> None:
    """Have a whole short conversation."""
    terminal.expect("what is wrong>", 60)
    terminal.type(SYMPTOM)
    terminal.expect("diagnosed: Graphs are off.", 60)
    terminal.expect("ask on>")
    terminal.type("/cost")
    terminal.expect("turns")
    terminal.type(CTRL_D, enter=False)
    terminal.expect("ask on with: leadline chat here --resume one")


async def test_the_same_over_plain_ssh(tmp_path: Path) -> None:
    async with openssh_server(tmp_path) as server:
        own = {
            name: value
            for name, value in environment(str(tmp_path / "state")).items()
            if name.startswith(("LEADLINE_", "PROMPT_", "PYTHON", "PAGER"))
        }
        words = [f"{name}={value}" for name, value in own.items()]
        remote = shlex.join(["env", *words, *program(tmp_path / "state", "quick")])
        login = ["-i", str(tmp_path / "client_key"), "-o", f"UserKnownHostsFile={tmp_path / 'known_hosts'}"]
        where = ["-p", str(server.port), f"{getpass.getuser()}@127.0.0.1"]
        argv = ["ssh", "-F", "none", "-tt", *login, *where, remote]

        def over_ssh() -> int:
            with typing(argv, environment(str(tmp_path))) as terminal:
                talk(terminal)
                return terminal.ends()

        assert await asyncio.to_thread(over_ssh) == 0
    assert outcomes(tmp_path / "state") == ["diagnosed"]


def test_a_dumb_terminal_is_typed_at(tmp_path: Path) -> None:
    with typing(program(tmp_path, "quick"), environment(str(tmp_path), TERM="dumb")) as terminal:
        talk(terminal)
        assert terminal.ends() == 0 and terminal.echoes
    assert "\x1b[3" not in terminal.raw, "no colours"


def test_no_color_leaves_no_colours(tmp_path: Path) -> None:
    with typing(program(tmp_path, "apply"), environment(str(tmp_path), NO_COLOR="1")) as terminal:
        terminal.expect("what is wrong>")
        terminal.type(SYMPTOM)
        terminal.expect("Apply it?")
        terminal.type("y")
        terminal.expect("at 1 after")
        terminal.expect("Apply it?")
        terminal.type(CTRL_C, enter=False)
        assert terminal.ends() == 0
    for colour in range(30, 38):
        assert f"\x1b[{colour}m" not in terminal.raw and f";{colour}m" not in terminal.raw


@pytest.mark.parametrize("story", ["slow", "quick"])
def test_a_terminal_that_hangs_up_ends_the_chat_and_nothing_else(tmp_path: Path, story: str) -> None:
    terminal = Terminal(program(tmp_path, story), environment(str(tmp_path)))
    try:
        terminal.expect("what is wrong>")
        terminal.type(SYMPTOM)
        terminal.expect("t3 look text=slow" if story == "slow" else "ask on>")
        terminal.hang_up()
        assert terminal.process.wait(30) == 143
    finally:
        terminal.close()
    if story == "slow":
        look = [one for one in events(tmp_path) if isinstance(one, ToolFinished) and one.tool == "look"]
        assert [one.status for one in look] == ["ok"], "the step that ran came to its end"
    with typing(program(tmp_path, story, "here", "one"), environment(str(tmp_path))) as again:
        again.expect("ask on>")
        again.type(CTRL_D, enter=False)
        assert again.ends() == 0
    assert [event.outcome for event in events(tmp_path) if isinstance(event, Ended)] == ["diagnosed"]
