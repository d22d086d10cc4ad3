"""``leadline init``: a few answers become one settings file, shown first and never written over unasked."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import subprocess
import sys
import termios
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config import load_settings
from agent.errors import UsageError
from agent.models.scripted import ScriptedServer
from agent.models.scripted_script import by_method
from agent.surfaces.init import InitOptions, agreed, answered, by_default, run
from agent.surfaces.init_file import Answers, name_of, text_of
from agent.surfaces.init_hosts import picked
from evals.loopback_sshd import free_port
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]

NOTHING = InitOptions(
    base_url=None, model=None, hosts=None, slack=None, state_dir=None, yes=False, force=False
)
ALIASES = "Host gpu1 gpu2\n  User ops\nHost *.lan\nHost gpu3\n"


def test_without_a_terminal_flags_and_defaults_are_taken(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.person.unlink(missing_ok=True)
    folder.ssh_config.write_text(ALIASES)
    run(NOTHING)
    said = capsys.readouterr()
    assert said.out == f"{folder.person}\n"
    assert '    model = "playbook"\n' in said.err and "leadline doctor" in said.err
    assert folder.person.stat().st_mode & 0o777 == 0o600
    settings = load_settings()
    assert settings.model == "playbook" and not settings.hosts
    with pytest.raises(UsageError, match="is there already; edit it, or write over it with --force"):
        run(NOTHING)


def test_flags_say_everything(folder: SettingsFolder, tmp_path: Path) -> None:
    folder.person.write_text("max_turns = 3\n")
    run(
        InitOptions(
            base_url="http://gpu1:30000/v1",
            model='a "quoted" name',
            hosts=["gpu1", "ops@10.0.0.2:2222", "gpu3.example.net"],
            slack=True,
            state_dir=tmp_path / "elsewhere",
            yes=True,
            force=True,
        )
    )
    settings = load_settings()
    assert (settings.base_url, settings.model) == ("http://gpu1:30000/v1", 'a "quoted" name')
    assert settings.state_dir == tmp_path / "elsewhere" and settings.max_turns == 40
    places = {name: entry.ssh for name, entry in settings.hosts.items()}
    assert places == {"gpu1": None, "10.0.0.2": "ops@10.0.0.2:2222", "gpu3.example.net": None}
    assert "[slack]" in folder.person.read_text() and settings.slack.teams == ()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"base_url": "gpu1:30000", "model": "m"}, "not a base URL"),
        ({"base_url": "http://gpu1/v1", "model": ""}, "no model is named for http://gpu1/v1"),
        ({"hosts": ["ana@gpu1", "bo@gpu1"]}, "two hosts would be named gpu1"),
        ({"hosts": ["-oProxyCommand=x"]}, "not a host"),
        ({"hosts": ["all"]}, "that word has another meaning"),
    ],
)
def test_what_could_not_be_loaded_is_not_written(
    folder: SettingsFolder, options: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        run(dataclasses.replace(NOTHING, **options))  # type: ignore[arg-type]
    assert not folder.person.exists()


def test_hosts_are_picked_by_number_name_and_all() -> None:
    aliases = ["gpu1", "gpu2", "7"]
    assert picked("2, gpu1 ops@gpu9,2", aliases) == ["gpu2", "gpu1", "ops@gpu9"]
    assert picked("all", aliases) == aliases and picked("7", aliases) == ["7"] and picked(" ", aliases) == []
    with pytest.raises(UsageError, match="there is no host 4; numbers go from 1 to 3"):
        picked("4", aliases)
    near = r"no host gpu9: ~/\.ssh/config has .*; nearest: gpu2, gpu1; to take it .*, or USER@gpu9$"
    for line in ("gpu9", "1,gpu9", "maybe"):
        with pytest.raises(UsageError, match=near if "gpu9" in line else "no host maybe: .*name; to take"):
            picked(line, aliases, lambda name: False)
    assert picked("gpu9 gpu8.lan ::1 local", aliases, lambda name: name == "gpu9")[0] == "gpu9"
    assert picked("u@gpu8 10.0.0.9 gpu8:22", aliases, lambda name: False) == ["u@gpu8", "10.0.0.9", "gpu8:22"]
    assert [name_of(place) for place in ("a@b:1", "::1", "x y", "lab:n#1")] == ["b", "1", "x-y", "lab"]


async def test_the_endpoint_says_which_models_it_serves(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ScriptedServer(by_method())
    url = await server.start()
    replies = iter([url, "", "", "y", ""])

    def ask(question: str, default: str) -> str:
        return next(replies) or default

    try:
        answers = await asyncio.to_thread(answered, NOTHING, ask)
    finally:
        await server.close()
    assert answers == Answers(base_url=url, model="scripted", slack=True)
    assert "It serves: scripted" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no model is named"):
        await asyncio.to_thread(
            answered, dataclasses.replace(NOTHING, base_url="http://127.0.0.1:9/v1"), by_default
        )
    assert "note: http://127.0.0.1:9/v1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "default", "wanted"),
    [(["y"], "n", True), (["YES!"], "n", True), (["no"], "y", False), ([""], "y", True), ([""], "n", False)],
)
def test_yes_and_no_are_understood(typed: list[str], default: str, wanted: bool) -> None:
    answers = iter(["maybe", "yep", "on", *typed])
    assert agreed("Slack bot? [y/N]", default, lambda question, usual: next(answers) or usual) is wanted
    assert next(answers, None) is None


def test_every_name_and_word_survives_the_file() -> None:
    text = text_of(Answers(base_url='http://x/"\\\x7f', model="m\n\x1b", hosts=["gpu.1"]))
    data = tomllib.loads(text)
    assert data["base_url"] == 'http://x/"\\\x7f' and data["model"] == "m\n\x1b" and "gpu.1" in data["hosts"]


@pytest.fixture
def typed(folder: SettingsFolder) -> Iterator[list[str]]:
    """Lines that a person types at a terminal when `leadline init` asks."""
    folder.ssh_config.write_text(ALIASES)
    yield []


def at_a_terminal(lines: str, columns: int = 200) -> tuple[int, str]:
    """Run it on a terminal of its own with these lines typed ahead."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    leadline = str(Path(sys.executable).with_name("leadline"))
    process = subprocess.Popen(
        [leadline, "init"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    os.write(master, lines.encode())
    said = b""
    try:
        while piece := os.read(master, 4096):
            said += piece
    except OSError:
        pass  # how the end of a terminal is told
    os.close(master)
    return process.wait(timeout=30), said.decode().replace("\r\n", "\n")


def test_at_a_terminal_it_asks_shows_and_writes(typed: list[str], folder: SettingsFolder) -> None:
    code, said = at_a_terminal("\n1,gpu3\n\n\nn\n")
    assert code == 0 and "nothing was written" in said and not folder.person.exists()
    code, said = at_a_terminal("\n1,gpu3\ny\n\n\n")
    assert code == 0, said
    assert "  1  gpu1\n" in said and "Write it? [Y/n]" in said and "leadline hosts check" in said
    assert list(load_settings().hosts) == ["gpu1", "gpu3"]
    before = folder.person.read_text()
    code, said = at_a_terminal("gpu1:30000\n\n1\nmaybe\nNo.\n\nno thanks\nnope\nN\n")
    assert code == 0 and "nothing was written" in said and folder.person.read_text() == before
    assert said.count("answer y or n, or Enter for the one in capitals\n") == 3
    assert "not a base URL" in said and said.count("Model endpoint") == 2 and said.count("Slack bot?") == 2
    code, said = at_a_terminal("\nmaybe\ngpu9\nu@gpu1,gpu1\n-x\n2\n\n\nn\n")
    assert code == 0 and said.count("Hosts to take") == 5 and "[hosts.gpu2]" in said, said
    assert "nearest: gpu" in said and "two hosts would be named gpu1" in said and "gpu9]" not in said
    code, said = at_a_terminal("\n\n\n\n\n")
    assert code == 0 and "Write over it? [y/N]" in said and folder.person.read_text() == before


def test_an_endpoint_that_is_away_costs_no_answer(typed: list[str], folder: SettingsFolder) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    code, said = at_a_terminal(f"{url}\n\nno\n\n\n\ny\ngpu2\ny\n\n\n")
    assert code == 0 and said.count("Model: ") == 3 and said.count("Leave the endpoint out?") == 3, said
    settings = load_settings()
    assert (settings.base_url, settings.model, list(settings.hosts)) == (None, "playbook", ["gpu2"])
    folder.person.unlink()
    code, said = at_a_terminal(f"{url}\n\n\nlarge\n\n\n\n\n")
    assert code == 0 and (load_settings().base_url, load_settings().model) == (url, "large"), said


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_its_questions_break_between_words(typed: list[str], columns: int) -> None:
    code, said = at_a_terminal("http://127.0.0.1:9/v1\n\ny\nmaybe\n\n\n\nn\n", columns)
    assert code == 0
    said = re.sub(r"([])]|Model): (?=\S)", r"\1:\n", said)  # as Enter does where nothing is typed ahead
    words = set(said.split())
    assert {"playbooks):", "OpenAI-compatible", "~/.ssh/config,", "between", "[y/N]:"} <= words
    shown = [line for line in said.splitlines() if not line.startswith("    ")]
    assert [line for line in shown if len(line) > columns and " " in line.strip()] == []
