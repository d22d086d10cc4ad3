"""A mistyped word is one line that names what is near, and leaves with 2, wherever it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import ExitCode, UsageError
from agent.inventory import Inventory
from agent.surfaces.cli import app
from evals.lab import scenario
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]


def said(*words: str) -> str:
    """Return the line that a command line ends with."""
    with pytest.raises(UsageError) as caught:
        app(list(words), prog_name="leadline")
    assert caught.value.exit_code is ExitCode.USAGE and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("aks gpu1 slow", "there is no command 'aks'; nearest: ask"),
        ("evla score", "there is no command 'evla'; nearest: eval, replay"),
        ("it's", 'there is no command "it\'s"; see: leadline --help'),
        ("zzzz", "there is no command 'zzzz'; see: leadline --help"),
        ("sessions lsit", "sessions: there is no command 'lsit'; nearest: list"),
        ("lab upp", "lab: there is no command 'upp'; nearest: up"),
        ("ask gpu1 x --mode aply", "--mode: 'aply' is none of read-only, propose, apply; nearest: apply"),
        ("eval slve", "WAY: 'slve' is none of score, replay, solve, continue; nearest: solve"),
        ("completion zhs", "SHELL: 'zhs' is none of bash, zsh, fish; nearest: zsh"),
        ("ask gpu1 x --modle y", "ask: there is no option --modle; nearest: --mode, --model"),
        ("chat gpu1 --hlep", "chat: there is no option --hlep; nearest: --help"),
        ("ask gpu1 -Z", "ask: there is no option -Z; see: leadline ask --help"),
        ("ask gpu1 x --mode", "--mode needs a value; see: leadline ask --help"),
        ("slack manifest --http", "--http needs a value; see: leadline slack manifest --help"),
        ("eval --jobs", "--jobs needs a value; see: leadline eval --help"),
        (
            "hosts list --json=x",
            "hosts list: option '--json' does not take a value; see: leadline",
        ),
        (
            "tools gpu1",
            "tools: no further words are taken: gpu1; put a text of several words in quotes, or",
        ),
        ("ask gpu1 x --max-turns many", "--max-turns: should be a whole number; see: leadline ask --help"),
        ("ask gpu1 x --max-turns 0", "--max-turns: should be greater than or equal to 1; see: leadline ask"),
        ("tool gpu1", "tool: NAME is missing; see: leadline tool --help"),
        ("hosts show", "hosts show: NAME is missing; see: leadline hosts show --help"),
        ("ask gpu1 decode is slow", "ask: no further words are taken: is slow; put a text of several words"),
        ("tool local grpe", "no tool grpe; nearest: grep"),
        ("playbooks show cuda-graph", "no playbook cuda-graph; nearest: cuda-graphs-off"),
    ],
)
def test_commands_options_and_values(words: str, line: str) -> None:
    assert said(*words.split()).startswith(line)


@pytest.mark.parametrize(
    ("host", "line"),
    [
        (
            "gpu",
            "no host gpu ({file}); nearest: gpu1; for another machine write its whole address, or USER@gpu",
        ),
        ("@pol", "no host is in a group @pol ({file}); nearest: @pool"),
        ("role:decod", "there is no role 'decod'; nearest: role:decode"),
        ("lcoal", "no host lcoal ({file}); nearest: local"),
    ],
)
def test_hosts(folder: SettingsFolder, host: str, line: str) -> None:
    folder.person.write_text('[hosts.gpu1]\nrole = "decode"\ngroups = ["pool"]\n')
    assert said("ask", host, "slow").startswith(line.format(file=folder.person))
    assert said("facts", host).startswith(line.format(file=folder.person))


def test_local_is_near_without_an_inventory_and_an_alias_is_no_typo(folder: SettingsFolder) -> None:
    folder.ssh_config.write_text("Host lcaol\n")
    inventory = Inventory.of(folder.load())
    assert inventory.select(["lcaol", "focal", "lab"]) == ["lcaol", "focal", "lab"]
    with pytest.raises(UsageError, match="nearest: local"):
        inventory.select("locall")


def test_simulated_hosts(folder: SettingsFolder) -> None:
    folder.load()
    line = said("ask", "lab:kimi-k26", "slow")
    assert line.startswith("no scenario 'kimi-k26'; did you mean kimi-k26-tp8, kimi-k26-pp8")
    assert said("tool", "lap:kimi-k26-pp8", "facts").endswith("nearest: lab:kimi-k26-pp8")
    assert "kimi-k26-pp8" in scenario.names()


def test_models_by_name_and_settings(folder: SettingsFolder) -> None:
    folder.person.write_text("[models.large]\nbase_url = 'http://127.0.0.1:9/v1'\n")
    assert "the settings name large" in said("ask", "local", "slow", "-m", "lagre")
    folder.person.write_text("[hots.gpu1]\n")
    assert said("ask", "local", "slow").endswith("nearest: hosts, notes, known_hosts")


def test_it_is_one_line_on_stderr_and_a_group_alone_still_shows_its_help() -> None:
    leadline = str(Path(sys.executable).with_name("leadline"))
    done = subprocess.run([leadline, "aks\x1b[2J"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "leadline: there is no command 'aks\\x1b[2J'; see: leadline --help\n"
    done = subprocess.run([leadline, "sessions"], capture_output=True, text=True)
    assert done.returncode == 2 and "Investigations on this machine." in done.stdout + done.stderr
