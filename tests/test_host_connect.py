"""Connecting: keys always verified, aliases and jumps, and one clear line for each way it can fail."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from evals.loopback_sshd import free_port
from tests.sshd_fixtures import KINDS, FileSettings, SshServer, asyncssh_server, openssh_server, ssh_server
from tools import ssh_connect
from tools.host import ConnectError, HostSettings, HostTarget, connect


@pytest.fixture(params=KINDS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SshServer]:
    async with ssh_server(request.param, tmp_path) as running:
        yield running


async def failure(target: HostTarget, settings: HostSettings) -> ConnectError:
    with pytest.raises(ConnectError) as caught:
        await connect(target, settings)
    error = caught.value
    assert error.host == target.name
    assert error.do
    assert "\n" not in str(error)
    return error


async def no_login_was_tried(server: SshServer) -> None:
    """Ask the server itself, which would have noted a login by the time it notes the next one."""
    assert server.logins == []
    before = server.log()
    assert not re.search(r"publickey|Accepted|Failed|userauth", before), before
    (server.root / "known_hosts").write_text(
        f"[127.0.0.1]:{server.port} {(server.root / 'host_key.pub').read_text()}"
    )
    host = await connect(server.target(), server.settings)
    await host.close()
    if server.kind == "asyncssh":
        assert server.logins == [getpass.getuser()]
    else:
        assert server.log().count("Accepted publickey") == 1
    server.logins.clear()


def other_key() -> str:
    return asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()


async def test_the_key_is_verified_and_kept(server: SshServer) -> None:
    host = await connect(server.target(), server.settings)
    key = asyncssh.read_public_key(str(server.root / "host_key.pub"))
    assert host.key_fingerprint == key.get_fingerprint()
    await host.close()


@pytest.mark.threat(9)
async def test_a_changed_key_is_refused_before_any_credential(server: SshServer) -> None:
    (server.root / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {other_key()}")
    error = await failure(server.target(), server.settings)
    assert error.reason == "host_key_changed"
    assert "nothing was sent" in str(error)
    assert f"ssh-keygen -f {server.root}/known_hosts -R '[127.0.0.1]:{server.port}'" in error.do
    assert "ask who runs it" in error.do
    await no_login_was_tried(server)


@pytest.mark.threat(9)
async def test_a_key_of_another_type_on_record_counts_as_changed(server: SshServer) -> None:
    line = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode()
    (server.root / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {line}")
    error = await failure(server.target(), server.settings)
    assert error.reason == "host_key_changed"
    key = asyncssh.read_public_key(str(server.root / "host_key.pub"))
    assert key.get_fingerprint() in str(error)
    await no_login_was_tried(server)


@pytest.mark.threat(9)
async def test_a_revoked_key_counts_as_changed(server: SshServer) -> None:
    known = (server.root / "known_hosts").read_text()
    (server.root / "known_hosts").write_text(f"@revoked {known}")
    assert (await failure(server.target(), server.settings)).reason == "host_key_changed"
    await no_login_was_tried(server)


@pytest.mark.threat(9)
async def test_an_unknown_key_is_refused_before_any_credential(server: SshServer) -> None:
    (server.root / "known_hosts").write_text("")
    error = await failure(server.target(), server.settings)
    assert error.reason == "host_key_unknown"
    key = asyncssh.read_public_key(str(server.root / "host_key.pub"))
    assert key.get_fingerprint() in str(error)
    assert f"ssh-keyscan -p {server.port} 127.0.0.1" in error.do
    await no_login_was_tried(server)


async def test_a_refused_key_names_the_user(server: SshServer) -> None:
    (server.root / "authorized_keys").write_text(other_key())
    error = await failure(server.target(), server.settings)
    assert error.reason == "auth"
    assert getpass.getuser() in str(error)
    assert "authorized_keys" in error.do


async def test_a_key_file_that_is_not_there(server: SshServer) -> None:
    target = dataclasses.replace(server.target(), key_path=server.root / "none")
    assert (await failure(target, server.settings)).reason == "auth"


async def test_a_key_file_with_a_passphrase(server: SshServer) -> None:
    key = asyncssh.read_private_key(str(server.root / "client_key"))
    key.write_private_key(str(server.root / "locked"), "pkcs8-pem", passphrase="secret")
    target = dataclasses.replace(server.target(), key_path=server.root / "locked")
    assert (await failure(target, server.settings)).reason == "auth"


async def test_a_name_nobody_knows(tmp_path: Path) -> None:
    target = HostTarget("gone", "no-such-host.invalid", known_hosts=tmp_path / "k")
    (tmp_path / "k").write_text("")
    error = await failure(target, FileSettings(None, tmp_path / "k"))
    assert error.reason == "unknown_host"
    assert "no-such-host.invalid" in str(error)


async def test_a_port_where_nothing_listens(tmp_path: Path) -> None:
    settings = FileSettings(None, tmp_path / "none")
    for address in ("127.0.0.1", "localhost"):
        error = await failure(HostTarget("quiet", address, port=free_port()), settings)
        assert error.reason == "refused"


async def test_a_network_that_swallows_packets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connect, "CONNECT_S", 0.3)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(4):  # A full backlog drops what comes next, as a firewall does.
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(full.getsockname())
        target = HostTarget("lost", "127.0.0.1", port=full.getsockname()[1])
        error = await failure(target, FileSettings(None, tmp_path / "none"))
        for one in waiting:
            one.close()
    assert (error.reason, "did not answer within 0.3 s" in str(error)) == ("timeout", True)


async def test_a_server_that_never_lets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connect, "LOGIN_S", 0.3)
    done = asyncio.Event()

    async def mute(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    listening = await asyncio.start_server(mute, "127.0.0.1", 0)
    target = HostTarget("mute", "127.0.0.1", port=listening.sockets[0].getsockname()[1])
    error = await failure(target, FileSettings(None, tmp_path / "none"))
    assert (error.reason, "gave no login" in str(error)) == ("timeout", True)
    done.set()
    listening.close()
    await listening.wait_closed()


async def test_a_server_that_does_not_speak_ssh(tmp_path: Path) -> None:
    async def web(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(web, "127.0.0.1", 0)
    target = HostTarget("web", "127.0.0.1", port=listening.sockets[0].getsockname()[1])
    error = await failure(target, FileSettings(None, tmp_path / "none"))
    assert (error.reason, "SSH server" in error.do) == ("unreachable", True)
    listening.close()
    await listening.wait_closed()


def alias(server: SshServer, name: str, more: str = "") -> str:
    return (
        f"Host {name}\n  HostName 127.0.0.1\n  Port {server.port}\n  User {getpass.getuser()}\n"
        f"  IdentityFile {server.root}/client_key\n  IdentitiesOnly yes\n{more}"
    )


async def test_an_alias_of_the_ssh_config(server: SshServer) -> None:
    config = server.root / "config"
    config.write_text(alias(server, "gpu-box", "  ForwardAgent yes\n  RequestTTY force\n  SendEnv *\n"))
    settings = FileSettings(config, server.root / "known_hosts")
    host = await connect(HostTarget.parse("gpu-box"), settings)
    result = await host.exec(["sh", "-c", "echo ${SSH_AUTH_SOCK:-none}; test -t 0 || echo plain"])
    assert result.stdout.data == b"none\nplain\n"
    await host.close()


@pytest.mark.threat(9)
async def test_no_configuration_turns_the_key_check_off(server: SshServer) -> None:
    config = server.root / "config"
    config.write_text(alias(server, "box", "  UserKnownHostsFile none\n  StrictHostKeyChecking no\n"))
    settings = FileSettings(config, server.root / "empty")
    assert (await failure(HostTarget.parse("box"), settings)).reason == "host_key_unknown"
    await no_login_was_tried(server)


async def test_a_pinned_target_reads_no_configuration(server: SshServer) -> None:
    config = server.root / "config"
    config.write_text(f"Host *\n  ProxyCommand touch {server.root}/ran\n  Port 1\n")
    settings = FileSettings(config, server.root / "none")
    host = await connect(server.target(), settings)
    assert (await host.exec(["true"])).ok
    assert not (server.root / "ran").exists()
    await host.close()


RELAY = """
import os, socket, sys, threading
port, note = sys.argv[1:]
open(note, "w").write(str(os.getpid()))
there = socket.create_connection(("127.0.0.1", int(port)))
def back():
    while data := there.recv(65536):
        os.write(1, data)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536):
    there.sendall(data)
"""


async def test_ctrl_c_at_the_terminal_does_not_end_a_proxy_command(server: SshServer) -> None:
    relay, note, config = (server.root / name for name in ("relay.py", "pid", "config"))
    relay.write_text(RELAY)
    config.write_text(alias(server, "box", f"  ProxyCommand {sys.executable} {relay} %p {note}\n"))
    host = await connect(HostTarget.parse("box"), FileSettings(config, server.root / "known_hosts"))
    running = asyncio.create_task(host.exec(["sh", "-c", "sleep 1; echo through"]))
    await asyncio.sleep(0.2)
    relayed_by = int(note.read_text())
    os.kill(relayed_by, signal.SIGINT)
    assert (await running).stdout.data == b"through\n"
    await host.close()
    while Path(f"/proc/{relayed_by}").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.threat(9)
async def test_a_jump_host_is_passed_and_its_key_verified(tmp_path: Path) -> None:
    (tmp_path / "jump").mkdir()
    (tmp_path / "end").mkdir()
    async with asyncssh_server(tmp_path / "jump") as jump, openssh_server(tmp_path / "end") as end:
        config, known = tmp_path / "config", tmp_path / "known"
        weak = "  UserKnownHostsFile none\n"
        config.write_text(alias(jump, "door", weak) + alias(end, "inner", "  ProxyJump door\n"))
        known.write_text((end.root / "known_hosts").read_text())
        settings = FileSettings(config, known)
        error = await failure(HostTarget.parse("inner"), settings)
        assert (error.reason, jump.logins) == ("host_key_unknown", [])

        known.write_text(known.read_text() + (jump.root / "known_hosts").read_text())
        host = await connect(HostTarget.parse("inner"), settings)
        assert (await host.exec(["echo", "inside"])).stdout.data == b"inside\n"
        assert jump.logins == [getpass.getuser()]
        assert jump.forwarded == [end.port]
        await host.close()


async def test_a_jump_host_that_does_not_reach_the_end(tmp_path: Path) -> None:
    async with asyncssh_server(tmp_path) as jump:
        config = tmp_path / "config"
        config.write_text(alias(jump, "door") + f"Host inner\n  HostName 127.0.0.1\n  Port {free_port()}\n")
        config.write_text(config.read_text() + "  ProxyJump door\n")
        error = await failure(HostTarget.parse("inner"), FileSettings(config, tmp_path / "known_hosts"))
        assert (error.reason, "jump host" in str(error)) == ("unreachable", True)


@pytest.mark.parametrize(
    ("text", "address", "port", "user"),
    [
        ("box", "box", None, None),
        ("me@box:2222", "box", 2222, "me"),
        ("[::1]:22", "::1", 22, None),
        ("fe80::1", "fe80::1", None, None),
        ("local", "local", None, None),
    ],
)
def test_what_a_person_types(text: str, address: str, port: int | None, user: str | None) -> None:
    target = HostTarget.parse(text)
    assert (target.address, target.port, target.user, target.name) == (address, port, user, text)


@pytest.mark.parametrize("text", ["", "box:x", "-oProxyCommand=id", "me@", "me@-v", "[::1"])
def test_what_is_not_a_host(text: str) -> None:
    with pytest.raises(ValueError, match="not a host"):
        HostTarget.parse(text)
