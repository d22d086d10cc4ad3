"""Floods and crowds, against the local machine, asyncssh's server and OpenSSH's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evals.bench_flood import LIMIT_MB, _peak_mb, _reset_peak_mb, measure
from evals.loopback_sshd import NoServer
from tests.sshd_fixtures import HOST_KINDS, any_host, left, odd_seconds
from tools.display import printable
from tools.execution import CommandHost
from tools.redact import redact


@pytest.fixture(params=HOST_KINDS)
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CommandHost]:
    async with any_host(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def seconds() -> str:
    return odd_seconds()


@pytest.mark.threat(11)
async def test_a_flood_is_stopped_and_told(host: CommandHost) -> None:
    result = await host.exec(["yes", "flood"], max_bytes=100_000)
    assert (result.outcome, result.truncated) == ("signaled", True)
    assert not result.ok
    assert not result.stdout.complete
    assert len(result.stdout.head) == len(result.stdout.tail) == 50_000
    assert b"bytes left out" in result.stdout.data
    assert (await host.exec(["echo", "usable"])).stdout.data == b"usable\n"


@pytest.mark.threat(11)
async def test_a_flood_on_stderr_is_stopped_too(host: CommandHost) -> None:
    result = await host.exec(["sh", "-c", "yes >&2"], max_bytes=100_000)
    assert result.truncated
    assert result.stdout.complete
    assert len(result.stderr.head) + len(result.stderr.tail) == 100_000


@pytest.mark.threat(11)
async def test_one_line_of_a_gigabyte(host: CommandHost) -> None:
    result = await host.exec(["head", "-c", "1000000000", "/dev/zero"], max_bytes=1 << 20)
    assert result.truncated
    assert len(result.stdout.head) + len(result.stdout.tail) == 1 << 20
    assert result.stdout.total < 1_000_000_000
    assert (await host.exec(["true"])).ok


_ESCAPES = r"\033]0;owned\007\033[2J\033[31m\302\233\342\200\256"
FLOODS = {
    "ten gigabytes": "yes flood | head -c 10000000000",
    "ten gigabytes on both streams": "yes flood | head -c 10000000000 | tee /dev/stderr",
    "a line of a gigabyte": "head -c 1000000000 /dev/zero | tr '\\0' x",
    "random bytes": "head -c 200000000 /dev/urandom",
    "escape sequences": f"yes \"$(printf '{_ESCAPES}')\" | head -c 10000000000",
    "NUL bytes": "head -c 1000000000 /dev/zero",
    "half characters": "yes \"$(printf '\\360\\237\\222')\" | head -c 1000000000",
}


@pytest.mark.threat(11)
@pytest.mark.parametrize("what", FLOODS)
async def test_a_flood_costs_little_memory_and_leaves_the_connection(host: CommandHost, what: str) -> None:
    await host.exec(["true"])
    before = _reset_peak_mb()
    result = await host.exec(["sh", "-c", FLOODS[what]], timeout_s=60)
    grown = _peak_mb() - before
    assert result.truncated and not result.ok
    assert grown < LIMIT_MB, f"{what}: {grown:.0f} MB"
    assert max(len(part.head) + len(part.tail) for part in (result.stdout, result.stderr)) <= 4 << 20
    assert (await host.exec(["echo", "usable"])).stdout.data == b"usable\n"


@pytest.mark.threat(11)
@pytest.mark.parametrize("what", ["random bytes", "escape sequences", "half characters"])
async def test_what_a_flood_shows_is_text_that_no_terminal_obeys(host: CommandHost, what: str) -> None:
    result = await host.exec(["sh", "-c", FLOODS[what]], timeout_s=60, max_bytes=1 << 20)
    clean = redact(result.stdout.data)
    shown = printable(clean.decode("utf-8", "replace"))
    assert clean.count(b"\n") == result.stdout.data.count(b"\n")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)


async def test_an_exit_of_zero_on_our_term_is_no_success(host: CommandHost) -> None:
    script = "trap 'exit 0' TERM; while :; do echo flood; done"
    result = await host.exec(["sh", "-c", script], max_bytes=10_000)
    assert (result.outcome, result.truncated, result.ok) == ("signaled", True, False)


async def test_output_of_exactly_the_limit_is_whole(host: CommandHost) -> None:
    result = await host.exec(["head", "-c", "100000", "/dev/zero"], max_bytes=100_000)
    assert result.ok
    assert result.stdout.complete
    assert not result.truncated


async def test_twenty_commands_share_the_channels(host: CommandHost) -> None:
    before = host.execs
    results = await asyncio.gather(
        *(host.exec(["sh", "-c", "sleep 0.1; echo $0", str(number)]) for number in range(20))
    )
    assert [result.stdout.data for result in results] == [f"{number}\n".encode() for number in range(20)]
    assert host.execs - before == 20


async def test_eight_timeouts_at_once(host: CommandHost, seconds: str) -> None:
    results = await asyncio.gather(*(host.exec(["sleep", seconds], timeout_s=1) for _ in range(8)))
    assert {result.outcome for result in results} == {"timed_out_killed"}
    assert left(seconds) == []


@pytest.mark.threat(11)
async def test_a_hundred_megabytes_cost_little_memory() -> None:
    try:
        floods = await measure(whole=False)
    except NoServer as error:
        pytest.skip(str(error))
    assert len(floods) == 3
    for flood in floods:
        assert flood.ok, flood
        assert flood.read_mb > 4
