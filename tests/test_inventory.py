"""The inventory: hosts by name, group and role; typos told with file and nearest names; services pinned."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from agent.config import Settings
from agent.errors import HostUnreachable, UsageError
from agent.inventory import Inventory
from agent.ssh_aliases import ssh_aliases
from agent.surfaces.targets import open_host, resolve, resolve_for_service, say
from tests.settings_folder import SettingsFolder, folder
from tests.sshd_fixtures import KINDS, SshServer, ssh_server

__all__ = ["folder"]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ0bXJzdHV2d3h5ejAxMjM0NTY3ODkwYWJjZGVm"
FLEET = f"""
[hosts.gpu1]
ssh = "ops@10.0.0.1:2222"
host_key = "{KEY}"
unit = "sglang.service"
groups = ["pool-a"]
role = "prefill"
production = true

[hosts.gpu2]
groups = ["pool-a", "pool-b"]
role = "decode"

[hosts.gpu3]
role = "decode"
"""


def loaded(folder: SettingsFolder, text: str = FLEET, ssh_config: str = "") -> Settings:
    folder.ssh_config.write_text(ssh_config)
    return folder.load(text)


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ("gpu1", ["gpu1"]),
        ("gpu2, gpu1,gpu2", ["gpu2", "gpu1"]),
        (["gpu3", "gpu1,gpu2"], ["gpu3", "gpu1", "gpu2"]),
        ("@pool-a", ["gpu1", "gpu2"]),
        ("role:decode", ["gpu2", "gpu3"]),
        ("@pool-b,role:decode", ["gpu2", "gpu3"]),
        ("all", ["gpu1", "gpu2", "gpu3"]),
        ("local", ["local"]),
        ("lab:kimi-k26-pp8", ["lab:kimi-k26-pp8"]),
        ("ops@gpu4", ["ops@gpu4"]),
        ("gpu1.example.net,10.1.2.3:22", ["gpu1.example.net", "10.1.2.3:22"]),
        ("somewhere-else", ["somewhere-else"]),
    ],
)
def test_words_name_hosts(folder: SettingsFolder, words: str | list[str], hosts: list[str]) -> None:
    assert Inventory.of(loaded(folder)).select(words) == hosts


@pytest.mark.parametrize(
    ("word", "says", "near"),
    [
        ("gpu11", "no host gpu11", "gpu1"),
        ("@pool", "no host is in a group @pool", "@pool-"),
        ("role:decoder", "there is no role 'decoder'", "role:decode"),
        ("role:router", "no host has role router", "give one that role"),
        (" , ", "no host is named", "name one"),
    ],
)
def test_a_typo_is_one_line_with_what_is_near_and_the_file(
    folder: SettingsFolder, word: str, says: str, near: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Inventory.of(loaded(folder)).select(word)
    assert says in str(caught.value) and near in str(caught.value)
    assert "\n" not in str(caught.value)
    if word.strip(" ,") and not word.endswith("decoder"):
        assert str(folder.person) in str(caught.value)


def test_an_ssh_alias_is_no_typo(folder: SettingsFolder) -> None:
    settings = loaded(folder, ssh_config="Host gpu11 gpu12 *.lan !no\n  HostName 10.0.0.11\n")
    assert Inventory.of(settings).select("gpu11") == ["gpu11"]


def test_without_an_inventory_every_word_stays_what_it_was(folder: SettingsFolder) -> None:
    inventory = Inventory.of(loaded(folder, ""))
    assert inventory.select("gpu1") == ["gpu1"]
    with pytest.raises(UsageError, match="the settings, and they name none"):
        inventory.select("all")


def test_aliases_are_read_through_includes(tmp_path: Path) -> None:
    (tmp_path / "more").write_text('Host=inner "quoted name"\nHost *\n')
    (tmp_path / "config").write_text(f"# Host no\nHost a b\nInclude {tmp_path}/mo*\nMatch host z\nhost c\n")
    assert ssh_aliases(tmp_path / "config") == ["a", "b", "inner", "quoted name", "c"]
    assert ssh_aliases(tmp_path / "absent") == []
    (tmp_path / "loop").write_text(f"Host l\nInclude {tmp_path}/loop\n")
    assert ssh_aliases(tmp_path / "loop") == ["l"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[hosts.gpu1]\ngruops = ["a"]',
            "setting hosts.gpu1.gruops in {file} line 2: there is no such setting; ",
        ),
        ('[hosts.gpu1]\ngruops = ["a"]', "nearest: groups"),
        ("[hosts.gpu1]\n[hosts.gpu1]", "{file} is not TOML: Cannot declare hosts.gpu1 twice (at line 2"),
        ('[hosts.gpu1]\nunit = "a"\nunit = "b"', "{file} is not TOML: "),
        ('[hosts.gpu1]\nrole = "decod"', "setting hosts.gpu1.role in {file} line 2"),
        ('[hosts."gpu 1"]', "no name: letters, digits"),
        ("[hosts.all]", "that word has another meaning"),
        ('[hosts.gpu1]\nssh = "-x"', "not a host: '-x'"),
        (
            '[hosts.gpu1]\nhost_key = "SHA256:abc"',
            "setting hosts.gpu1.host_key.0 in {file} line 2: not a public",
        ),
        ("[hots.gpu1]", "setting hots in {file} line 1: there is no such setting; nearest: hosts"),
        ("[tools]\nallow_laod = true", "setting tools.allow_laod in {file} line 2"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_field(folder: SettingsFolder, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(folder, text)
    assert says.format(file=folder.person) in str(caught.value)


def test_half_a_host_here_and_half_there_is_refused(folder: SettingsFolder) -> None:
    with pytest.raises(UsageError, match=r"\[hosts.gpu1\] stands in .*etc/config.toml and in .*config.toml"):
        folder.load(FLEET, site='[hosts.gpu1]\nssh = "elsewhere"\n')


@pytest.mark.threat(9)
def test_a_service_goes_by_the_inventory_alone(folder: SettingsFolder) -> None:
    settings = loaded(folder, ssh_config="Host gpu1 gpu2\n  ProxyCommand touch /tmp/never\n")
    inventory = Inventory.of(settings)
    target = inventory.for_service("gpu1")
    assert (target.address, target.port, target.user) == ("10.0.0.1", 2222, "ops")
    assert target.host_keys == (KEY,) and not target.own_config
    with pytest.raises(UsageError, match=r"host gpu2 has no host_key under \[hosts.gpu2\]"):
        inventory.for_service("gpu2")
    for stranger in ("gpu4", "local", "root@gpu1", "10.0.0.1", "lab:kimi-k26-pp8", "-oProxyCommand=x"):
        with pytest.raises(UsageError, match="in the inventory"):
            inventory.for_service(stranger)


@contextlib.asynccontextmanager
async def in_the_inventory(
    server: SshServer, folder: SettingsFolder, key: str, more: str = ""
) -> AsyncIterator[Settings]:
    text = (
        f'[hosts.box]\nssh = "127.0.0.1:{server.port}"\nkey = "{server.root / "client_key"}"\n'
        f'host_key = "{key.strip()}"\n{more}'
    )
    yield loaded(folder, text)


@pytest.mark.threat(9)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_pinned_key_alone_opens_the_way(kind: str, folder: SettingsFolder, tmp_path: Path) -> None:
    root = tmp_path / "server"
    root.mkdir()
    async with ssh_server("asyncssh" if kind == "asyncssh" else "openssh", root) as server:
        key = (root / "host_key.pub").read_text()
        async with in_the_inventory(server, folder, key) as settings:
            for service in (False, True):
                async with open_host("box", settings, service=service) as host:
                    assert host.name == "box"
                    assert (await host.exec(["echo", "here"])).stdout.data == b"here\n"
        other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
        async with in_the_inventory(server, folder, other) as settings:
            with pytest.raises(HostUnreachable, match=r"change host_key under \[hosts.box\]"):
                async with open_host("box", settings):
                    raise AssertionError("it was let in")


@pytest.mark.threat(9)
async def test_a_service_reads_no_configuration_of_a_person(folder: SettingsFolder, tmp_path: Path) -> None:
    root = tmp_path / "server"
    root.mkdir()
    async with ssh_server("asyncssh", root) as server:
        touched = tmp_path / "touched"
        wrong = f"Host *\n  ProxyCommand sh -c 'touch {touched}; exit 1'\n"
        key = (root / "host_key.pub").read_text()
        async with in_the_inventory(server, folder, key) as settings:
            folder.ssh_config.write_text(wrong)
            async with open_host("box", settings, service=True) as host:
                assert (await host.exec(["true"])).ok
            assert not touched.exists()
            with pytest.raises(HostUnreachable):
                async with open_host("box", settings):
                    raise AssertionError("the person's own way does not work")
            assert touched.exists()


async def test_a_host_of_the_inventory_goes_by_its_name(folder: SettingsFolder) -> None:
    settings = loaded(folder)
    assert (await resolve("gpu1", settings, say)).address == "10.0.0.1"
    assert (await resolve("gpu9.example.net", settings, say)).address == "gpu9.example.net"
    with pytest.raises(UsageError, match="in the inventory"):
        await resolve_for_service("gpu9.example.net", settings, say)
