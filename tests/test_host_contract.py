"""The run contract, against the local machine, asyncssh's server and OpenSSH's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sshd_fixtures import HOST_KINDS, any_host, left, odd_seconds, started
from tools.execution import CommandHost
from tools.marker import started_with

STUBBORN = """
trap '' TERM
setsid sh -c "trap '' TERM; sleep $0; sleep $0" &
sh -c "sleep $0; true" &
while :; do sleep $0; done
"""


@pytest.fixture(params=HOST_KINDS)
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CommandHost]:
    async with any_host(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def seconds() -> str:
    return odd_seconds()


async def test_success_is_a_zero_that_was_seen(host: CommandHost) -> None:
    result = await host.exec(["printf", "%s|", "a b", "$HOME", "", "'\""])
    assert result.ok
    assert result.stdout.data == b"a b|$HOME||'\"|"
    assert result.stdout.complete
    assert not result.truncated
    assert result.argv == ("printf", "%s|", "a b", "$HOME", "", "'\"")
    assert result.host == host.name


async def test_exit_code_and_both_streams(host: CommandHost) -> None:
    result = await host.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.outcome, result.exit_code, result.ok) == ("exited", 3, False)
    assert (result.stdout.data, result.stderr.data) == (b"out\n", b"err\n")


async def test_a_signal_is_not_an_exit(host: CommandHost) -> None:
    result = await host.exec(["sh", "-c", "kill -USR1 $$"])
    assert (result.outcome, result.signal, result.exit_code) == ("signaled", "USR1", None)


async def test_what_is_not_there_does_not_run(host: CommandHost) -> None:
    result = await host.exec(["/no/such/command"])
    assert (result.outcome, result.exit_code) == ("exited", 127)


async def test_an_exit_of_124_stays_the_commands_own(host: CommandHost) -> None:
    result = await host.exec(["sh", "-c", "exit 124"], timeout_s=5)
    assert (result.outcome, result.exit_code) == ("exited", 124)


async def test_bytes_in_bytes_out(host: CommandHost) -> None:
    data = bytes(range(256)) * 1000 + b"\xff\xfe\x00tail"
    result = await host.exec(["cat"], stdin=data)
    assert result.stdout.data == data


async def test_stdin_is_empty_unless_given(host: CommandHost) -> None:
    assert (await host.exec(["cat"], timeout_s=5)).stdout.total == 0


async def test_stdin_that_nobody_reads_is_no_error(host: CommandHost) -> None:
    assert (await host.exec(["true"], stdin=b"x" * 3_000_000)).outcome == "exited"


async def test_the_marker_reaches_children(host: CommandHost) -> None:
    result = await host.exec(["sh", "-c", "env | grep ^LEADLINE_RUN="])
    assert len(result.stdout.data.strip()) == len("LEADLINE_RUN=") + 32


async def test_timeout_kills_the_whole_tree(host: CommandHost, seconds: str) -> None:
    result = await host.exec(["sh", "-c", STUBBORN, seconds], timeout_s=1)
    assert (result.outcome, result.exit_code, result.signal) == ("timed_out_killed", None, None)
    assert left(seconds) == []
    assert (await host.exec(["true"])).ok


async def test_what_a_command_leaves_behind_is_ended(host: CommandHost, seconds: str) -> None:
    result = await host.exec(["sh", "-c", "sleep $0 & echo done", seconds], timeout_s=4)
    # asyncssh's server holds the exit status back until the pipes are closed.
    assert result.outcome in ("exited", "timed_out_killed")
    assert result.stdout.data == b"done\n"
    assert left(seconds) == []


@pytest.mark.parametrize("timeout_s", [0.01, 0.05, 0.15])
async def test_a_timeout_during_the_start_leaves_nothing(
    host: CommandHost, seconds: str, timeout_s: float
) -> None:
    result = await host.exec(["sleep", seconds], timeout_s=timeout_s)
    assert result.outcome in ("timed_out_killed", "refused")
    await asyncio.sleep(0.3)
    assert left(seconds) == []
    assert (await host.exec(["true"])).ok


async def test_cancel_leaves_nothing_running(host: CommandHost, seconds: str) -> None:
    task = asyncio.create_task(host.exec(["sh", "-c", STUBBORN, seconds]))
    await started(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(seconds) == []
    assert (await host.exec(["true"])).ok


async def test_close_leaves_nothing_running(host: CommandHost, seconds: str) -> None:
    task = asyncio.create_task(host.exec(["sleep", seconds]))
    await started(seconds)
    await host.close()
    assert left(seconds) == []
    assert not (await task).ok
    assert (await host.exec(["true"])).outcome == "refused"


async def test_an_argument_that_cannot_be_sent_is_refused(host: CommandHost) -> None:
    assert (await host.exec(["echo", "a\0b"])).outcome == "refused"
    assert (await host.exec(["echo", "x" * 4_000_000])).outcome == "refused"
    with pytest.raises(ValueError, match="empty argv"):
        await host.exec([])


async def test_a_timeout_of_the_host_itself_backs_ours(host: CommandHost) -> None:
    result = await host.exec(["sh", "-c", 'tr "\\0" " " </proc/$PPID/cmdline'], timeout_s=7)
    assert result.stdout.data.startswith(b"timeout -k 5 12 sh -c")


async def test_without_timeout_on_the_host_the_command_still_runs(host: CommandHost, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "timeout").write_text("#!/bin/sh\nexit 1\n")
    (tools / "timeout").chmod(0o755)
    inner = started_with("0" * 32, ["sh", "-c", "echo $LEADLINE_RUN; exit 4"], 5)
    result = await host.exec(["env", f"PATH={tools}:/usr/bin:/bin", *inner])
    assert (result.exit_code, result.stdout.data) == (4, b"0" * 32 + b"\n")
