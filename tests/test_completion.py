"""What a shell completes: commands, options, hosts, simulated hosts, investigations."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.kept import find_kept
from agent.surfaces.changes_kept import open_undo
from agent.surfaces.completion_words import FILES, Places, words_for
from evals.lab import sandbox, scenario
from evals.lab.hosts import Lab
from tests.scripted_parts import STORY, LocalHost, begin, make_settings, run
from tests.test_sessions import kept
from tests.trial_parts import go, ports, redact, tools

BIN = Path(sys.executable).parent
HOSTS = """
[hosts.gpu1]
ssh = "root@10.0.0.1"
role = "decode"
groups = ["prod"]
[hosts.gpu2]
groups = ["prod", "spare"]
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Two hosts in the settings, one in ~/.ssh/config."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".config" / "leadline").mkdir(parents=True)
    (tmp_path / ".config" / "leadline" / "config.toml").write_text(HOSTS)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host bastion gpu1 *.example\n  User me\n")
    return Places.of(str(tmp_path / "state"), "", "")


def words(line: str, places: Places) -> list[str]:
    return [word for word, _ in words_for(line, places)]


def test_commands_and_their_options(places: Places) -> None:
    top = dict(words_for("leadline ", places))
    assert {"ask", "chat", "sessions", "lab", "eval", "completion"} <= set(top)
    assert "completion-words" not in top and top["sessions"] == "Investigations on this machine."
    assert words("leadline se", places) == ["settings", "sessions"]
    assert words("leadline sessions ", places) == ["list", "show", "export", "rm", "validate"]
    assert words("leadline ask --mo", places) == ["--mode", "--model"]
    assert words("leadline ask gpu1 'decode is slow' --mode ", places) == ["read-only", "propose", "apply"]
    assert words("leadline sessions export x --format t", places) == ["tar"]
    assert words("leadline completion ", places) == ["bash", "zsh", "fish"]
    assert words("leadline sessions validate ", places) == [FILES]
    assert words("leadline sessions export x --out ", places) == [FILES]
    assert "up" in words("leadline lab ", places)


def test_hosts_of_the_settings_their_groups_and_ssh_aliases(places: Places) -> None:
    expected = ["local", "gpu1", "gpu2", "@prod", "@spare", "bastion"]
    for line in ("leadline ask ", "leadline chat --model x ", "leadline -p ", "leadline facts gpu1 "):
        assert words(line, places) == expected, line
    assert words("leadline ask gp", places) == ["gpu1", "gpu2"]
    assert dict(words_for("leadline ask ", places))["gpu1"] == "decode root@10.0.0.1"
    assert words("leadline ask gpu1 ", places) == [], "a symptom is said in one's own words"


def test_simulated_hosts_once_their_scheme_is_begun(places: Places) -> None:
    assert not any(word.startswith("lab:") for word in words("leadline ask ", places))
    found = dict(words_for("leadline ask la", places))
    assert set(found) == {f"lab:{name}" for name in scenario.names()}
    assert found["lab:ollama-cpu-quota"].startswith("Ollama 0.32.15 on eight processors")
    assert words("leadline chat lab:kimi-k26-pp8-h", places) == ["lab:kimi-k26-pp8-healthy"]
    assert words("leadline lab up ollama-c", places) == ["ollama-cpu-quota"]
    here = sandbox.Process.of(os.getpid())
    assert here is not None
    for ident, begun in (("abc123", here), ("def456", sandbox.Process(here.pid, here.started - 1))):
        folder = places.state / "labs" / ident
        folder.mkdir(parents=True)
        lab = Lab(ident, "ollama-cpu-quota", folder, 1, begun, 0.0)
        (folder / "lab.json").write_text(json.dumps(lab.to_json()))
    assert words("leadline ask lab:ollama-cpu-quota#", places) == ["lab:ollama-cpu-quota#abc123"]
    assert words("leadline lab down ", places) == ["abc123"], "the other one is gone"


def test_the_last_of_a_list_of_hosts(places: Places) -> None:
    assert words("leadline ask gpu1,g", places) == ["gpu1,gpu2"]
    assert words("leadline ask bastion,@pr", places) == ["bastion,@prod"]
    assert words("leadline ask gpu1,lab:kimi-k26-tp8-", places) == ["gpu1,lab:kimi-k26-tp8-prefill"]


def test_what_stands_before_the_command_is_passed_over(places: Places) -> None:
    for before in ("sudo leadline", "X=1 /opt/bin/leadline", "cd /x && leadline"):
        assert words(f"{before} ask gp", places) == ["gpu1", "gpu2"], before
    assert words("alias-of-it ask gp", places) == ["gpu1", "gpu2"]


def test_a_name_that_would_be_an_option_is_not_offered(places: Places, tmp_path: Path) -> None:
    (tmp_path / ".ssh" / "config").write_text("Host --resume -x =ls fine\n")
    assert words("leadline ask ", places)[-1] == "fine"
    assert "-x" not in words("leadline ask -", places) and "--resume" in words("leadline ask --r", places)


async def test_investigations_the_last_worked_on_first(places: Places) -> None:
    for number, thread in enumerate(("20260131-142530-aaaa", "20260131-142531-bbbb")):
        await run(begin(places.state, STORY, thread=thread))
        os.utime(places.state / "threads" / thread / "transcript.jsonl", (number, number))
    (places.state / "threads" / "x;rm").mkdir()
    (places.state / "threads" / "x;rm" / "transcript.jsonl").write_text("{}\n")
    found = words_for("leadline ask gpu1 --resume ", places)
    assert found == [("20260131-142531-bbbb", "here: slow"), ("20260131-142530-aaaa", "here: slow")]
    assert words("leadline sessions rm 20260131-142530-aaaa 2", places) == [word for word, _ in found]
    assert words("leadline sessions show x", places) == []


async def test_kept_changes_and_no_investigations_where_a_change_is_wanted(places: Places) -> None:
    places.state.mkdir()
    service = await kept(places.state)
    await run(begin(places.state, STORY, thread="two"))
    for name, text in (("bad", "{"), ("odd", '{"mode": "apply"}\n{"type": "ended"}\n')):
        (places.state / "threads" / name).mkdir()
        (places.state / "threads" / name / "transcript.jsonl").write_text(text)
    row = ("one/C1", "--disable-cuda-graph of engine.service on here")
    for command in ("undo", "verify"):
        assert words_for(f"leadline {command} ", places) == [row]
    assert {"one", "two", "bad", "odd"} == set(words("leadline sessions show ", places))
    assert words("leadline approvals show ", places) == [], "an investigation is no approval"
    settings = make_settings(places.state)
    more: dict[str, Any] = {"tools": tools(service), "redact": redact, "ports": ports(service)}
    undo = open_undo(settings, find_kept(settings, "one/C1"), LocalHost(), **more)
    await go(undo)
    await undo.close()
    assert words("leadline undo ", places) == []


@pytest.mark.parametrize(
    "line", ["", "leadline nope ", "leadline ask 'open quote ", "leadline ask --nope ", "x"]
)
def test_what_makes_no_sense_has_no_words_and_no_error(places: Places, line: str) -> None:
    assert isinstance(words_for(line, places), list)


def test_damaged_files_are_passed_over(places: Places, tmp_path: Path) -> None:
    (tmp_path / ".config" / "leadline" / "config.toml").write_text("not = [toml")
    (tmp_path / "state" / "threads" / "one-two").mkdir(parents=True)
    (tmp_path / "state" / "threads" / "one-two" / "transcript.jsonl").write_bytes(b"\x1b[2J\n")
    assert words("leadline ask ", places) == ["local", "bastion", "gpu1"]
    assert words_for("leadline sessions show ", places) == [("one-two", "")]


def test_a_cloned_folder_offers_nothing_and_no_word_is_a_command(places: Places, tmp_path: Path) -> None:
    evil = '[hosts."$(touch${IFS}x)"]\n[hosts.";id"]\n[hosts.theirs]\n'
    (tmp_path / ".leadline.toml").write_text(f'state_dir = "theirs"\n{evil}')
    assert places == Places.of(str(tmp_path / "state"), "", "")
    assert Places.of("", "", "").state != Path("theirs")
    assert words("leadline ask ", places) == ["local", "gpu1", "gpu2", "@prod", "@spare", "bastion"]
    person = tmp_path / ".config" / "leadline" / "config.toml"
    person.write_text(f'trusted_projects = ["{tmp_path}"]\n')
    trusted = Places.of("", "", "")
    assert trusted.state == Path("theirs") and words("leadline ask ", trusted)[:2] == ["local", "theirs"]
    assert words("leadline ask $", trusted) == []
    (tmp_path / ".leadline.toml").unlink()
    os.mkfifo(tmp_path / ".leadline.toml")
    assert words("leadline ask l", trusted) == ["local"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_read_by_its_shell(shell: str, tmp_path: Path) -> None:
    done = subprocess.run([BIN / "leadline", "completion", shell], capture_output=True, text=True, check=True)
    assert "completion-words" in done.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is absent; its script was only printed")
    option = "--no-execute" if shell == "fish" else "-n"
    path = tmp_path / "script"
    path.write_text(done.stdout)
    subprocess.run([shell, option, str(path)], check=True)
