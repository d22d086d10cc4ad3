"""``leadline hosts``: what the settings name, and whether all of it can be worked on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.surfaces.hosts_check import check_hosts, checked
from agent.surfaces.hosts_view import list_hosts, show_host
from evals.loopback_sshd import free_port
from tests.settings_folder import SettingsFolder, folder
from tests.sshd_fixtures import asyncssh_server

__all__ = ["folder"]

FLEET = """
[hosts.gpu1]
ssh = "ops@10.0.0.1"
unit = "sglang.service"
groups = ["a", "b"]
role = "decode"
production = true
notes = "The \\u001b[31mflag was set because of a bug."
[hosts.gpu2]
"""


def test_the_list_names_every_host(folder: SettingsFolder, capsys: pytest.CaptureFixture[str]) -> None:
    folder.load(FLEET)
    list_hosts([], as_json=False)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "ADDRESS", "ROLE", "GROUPS", "UNIT", "KEY"]
    assert " ".join(first.split()) == "gpu1 ops@10.0.0.1 decode a, b sglang.service known_hosts production"
    assert second.split() == ["gpu2", "gpu2", "-", "-", "-", "known_hosts"]
    list_hosts(["@b"], as_json=True)
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["gpu1"]
    with pytest.raises(UsageError, match=r"'gpu3\.example' in the inventory"):
        list_hosts(["gpu3.example"], as_json=False)


def test_without_hosts_the_list_says_how_to_name_one(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.load()
    folder.ssh_config.write_text("Host alpha beta\n")
    list_hosts([], as_json=False)
    said = capsys.readouterr().out
    assert "write [hosts.NAME]" in said and "alpha, beta" in said


def test_one_host_is_shown_with_all_that_is_said_of_it(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.load(FLEET)
    show_host("gpu1", as_json=False)
    said = capsys.readouterr().out
    assert said.startswith(f"gpu1 ({folder.person})\n")
    assert "  groups: a, b\n" in said and "  production: yes\n" in said
    assert "\x1b" not in said
    show_host("role:decode", as_json=True)
    assert json.loads(capsys.readouterr().out)["ssh"] == "ops@10.0.0.1"


async def test_one_that_is_down_is_a_row_among_the_others(
    folder: SettingsFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "server"
    root.mkdir()
    async with asyncssh_server(root) as server:
        key = (root / "host_key.pub").read_text().strip()
        up = f'key = "{root / "client_key"}"\nhost_key = "{key}"\nssh = "127.0.0.1:{server.port}"\n'
        names = [f"gpu{number}" for number in range(1, 11)]
        text = "".join(f"[hosts.{name}]\n{up}" for name in names if name != "gpu4")
        text += f'[hosts.gpu4]\nhost_key = "{key}"\nssh = "127.0.0.1:{free_port()}"\n'
        settings = folder.load(text)
        rows = await checked(names, settings)
        assert [row.host for row in rows] == names
        down = next(row for row in rows if row.host == "gpu4")
        assert down.state == "down" and "nothing listens on 127.0.0.1" in down.says[0] and down.do
        reached = [row for row in rows if row.state != "down"]
        assert len(reached) == 9 and all(row.user and row.account for row in reached)
        assert len(server.logins) == 9, "one login a host"
        with pytest.raises(SystemExit) as left:
            await asyncio.to_thread(check_hosts, ["gpu4,gpu5"], as_json=True)
        assert left.value.code == 6
        shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(row["host"], row["state"] == "down") for row in shown] == [("gpu4", True), ("gpu5", False)]


def test_nothing_to_check_says_how_to_name_a_host(folder: SettingsFolder) -> None:
    folder.load()
    with pytest.raises(UsageError, match="the settings name no hosts"):
        check_hosts([], as_json=False)


def test_one_host_is_counted_as_one(folder: SettingsFolder, capsys: pytest.CaptureFixture[str]) -> None:
    folder.load(f'[hosts.gpu1]\nssh = "127.0.0.1:{free_port()}"\n')
    with pytest.raises(SystemExit):
        check_hosts([], as_json=False)
    assert capsys.readouterr().out.splitlines()[-1] == "1 host: 1 down"
