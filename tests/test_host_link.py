"""What happens when the link dies, and what is built on a kept connection."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.sshd_fixtures import (
    KINDS,
    SshServer,
    Wire,
    end_all,
    left,
    odd_seconds,
    openssh_server,
    ssh_server,
    started,
)
from tools import execution
from tools.host import ConnectError, connect
from tools.ssh import SshHost


@pytest.fixture(params=KINDS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SshServer]:
    async with ssh_server(request.param, tmp_path) as running:
        yield running


@pytest.fixture
async def host(server: SshServer) -> AsyncIterator[SshHost]:
    opened = await connect(server.target(), server.settings)
    assert isinstance(opened, SshHost)
    yield opened
    await opened.close()


@pytest.fixture
def seconds() -> Iterator[str]:
    token = odd_seconds()
    yield token
    end_all(token)


async def test_a_lost_link_is_unknown_never_success(server: SshServer, host: SshHost, seconds: str) -> None:
    task = asyncio.create_task(host.exec(["sh", "-c", "echo early; sleep $0; true", seconds]))
    await started(seconds)
    await asyncio.sleep(0.5)  # what it printed is on its way to us
    server.cut()
    result = await task
    assert (result.outcome, result.exit_code, result.ok) == ("connection_lost_unknown", None, False)
    assert result.stdout.data == b"early\n"
    assert (await host.exec(["echo", "again"])).stdout.data == b"again\n"


async def test_without_retry_a_command_never_runs_twice(
    server: SshServer, host: SshHost, tmp_path: Path, seconds: str
) -> None:
    runs = tmp_path / "runs"
    task = asyncio.create_task(host.exec(["sh", "-c", f"echo run >>{runs}; sleep $0; true", seconds]))
    await started(seconds)
    server.cut()
    assert (await task).outcome == "connection_lost_unknown"
    assert runs.read_text() == "run\n"
    assert host.execs == 1


async def test_a_read_is_tried_once_more_and_the_first_is_ended(
    server: SshServer, host: SshHost, tmp_path: Path, seconds: str
) -> None:
    runs = tmp_path / "runs"
    script = f"echo run >>{runs}; [ $(wc -l <{runs}) -gt 1 ] && echo done && exit; sleep $0; true"
    task = asyncio.create_task(host.exec(["sh", "-c", script, seconds], retry=True))
    await started(seconds)
    server.cut()
    result = await task
    assert result.ok
    assert result.stdout.data == b"done\n"
    assert runs.read_text() == "run\nrun\n"
    assert left(seconds) == []
    assert host.execs == 2


async def test_an_idle_link_that_died_is_opened_again(server: SshServer, host: SshHost) -> None:
    assert (await host.exec(["true"])).ok
    server.cut()
    await asyncio.sleep(0.2)
    assert (await host.exec(["echo", "back"])).stdout.data == b"back\n"


async def test_a_host_that_went_away_refuses(tmp_path: Path) -> None:
    async with ssh_server("asyncssh", tmp_path) as server:
        host = await connect(server.target(), server.settings)
        assert (await host.exec(["true"])).ok
    result = await host.exec(["true"], retry=True)
    assert result.outcome == "refused"
    assert "nothing listens" in result.detail
    await host.close()


async def test_a_port_of_the_host_is_reached(server: SshServer, host: SshHost) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello from inside")
        await writer.drain()
        writer.close()

    inside = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = inside.sockets[0].getsockname()[1]
    mine = await host.forward(port)
    assert mine == await host.forward(port) != port
    reader, writer = await asyncio.open_connection("127.0.0.1", mine)
    assert await reader.read() == b"hello from inside"
    writer.close()
    await writer.wait_closed()
    inside.close()
    await inside.wait_closed()


async def test_a_closed_host_says_so(server: SshServer) -> None:
    host = await connect(server.target(), server.settings)
    await host.close()
    assert (await host.exec(["true"])).outcome == "refused"
    with pytest.raises(ConnectError, match="closed"):
        await host.forward(80)


async def test_where_few_sessions_are_allowed_commands_wait_for_one(tmp_path: Path) -> None:
    async with openssh_server(tmp_path, "MaxSessions 2\n") as server:
        host = await connect(server.target(), server.settings)
        results = await asyncio.gather(*(host.exec(["sh", "-c", "sleep 0.3; echo $$"]) for _ in range(5)))
        assert [result.outcome for result in results] == ["exited"] * 5
        assert len({result.stdout.data for result in results}) == 5
        await host.close()


async def test_a_command_that_finds_no_session_is_refused(tmp_path: Path, seconds: str) -> None:
    async with openssh_server(tmp_path, "MaxSessions 1\n") as server:
        host = await connect(server.target(), server.settings)
        task = asyncio.create_task(host.exec(["sleep", seconds]))
        await started(seconds)
        result = await host.exec(["true"], timeout_s=0.5)
        assert (result.outcome, result.detail) == ("refused", "not started within 0.5 s")
        await host.close()
        assert not (await task).ok
        assert left(seconds) == []


async def test_the_only_session_can_still_be_killed(tmp_path: Path, seconds: str) -> None:
    async with openssh_server(tmp_path, "MaxSessions 1\n") as server:
        host = await connect(server.target(), server.settings)
        result = await host.exec(["sh", "-c", "trap '' TERM; sleep $0; true", seconds], timeout_s=1)
        assert result.outcome == "timed_out_killed"
        assert left(seconds) == []
        await host.close()


async def test_what_runs_behind_a_silent_link_is_killed_by_another_way(
    tmp_path: Path, seconds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "_KILL_LIMIT_S", 3.0)
    async with openssh_server(tmp_path) as server, Wire(server.port) as wire:
        keys = (tmp_path / "known_hosts").read_text().replace(str(server.port), str(wire.port))
        (tmp_path / "known_hosts").write_text(keys)
        host = await connect(dataclasses.replace(server.target(), port=wire.port), server.settings)
        task = asyncio.create_task(host.exec(["sleep", seconds], timeout_s=1))
        await started(seconds)
        wire.silence()
        assert (await task).outcome == "timed_out_killed"
        assert left(seconds) == []
        assert (await host.exec(["echo", "again"])).stdout.data == b"again\n"
        await host.close()
