"""Any argv reaches the command on the host exactly as it was given, printable or not."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sshd_fixtures import HostKind, any_host
from tools.contract import Host

WORD = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    st.binary(max_size=20).map(lambda raw: os.fsdecode(raw.replace(b"\0", b""))),
    st.text("\\'\"`$!#&;|<>(){}[]*?~=%\n\t\r -+@:,./", max_size=12),
)
"""Unicode, arbitrary bytes as file names carry them, and what shells care about."""


def _utf8(words: list[str]) -> bool:
    return not any("\udc80" <= char <= "\udcff" for word in words for char in word)


@pytest.fixture(params=["local", "asyncssh", "openssh"])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[asyncio.Runner, Host]]:
    """One loop for all examples: hypothesis calls synchronous tests."""
    with asyncio.Runner() as runner:
        context = any_host(cast("HostKind", request.param), tmp_path)
        yield runner, runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(words=st.lists(WORD, max_size=6))
def test_argv_round_trips(
    request: pytest.FixtureRequest, door: tuple[asyncio.Runner, Host], words: list[str]
) -> None:
    runner, host = door
    printf = shutil.which("printf") or "printf"
    result = runner.run(host.exec([printf, "%s\\0", *words, "end"]))
    expected = b"".join(os.fsencode(word) + b"\0" for word in [*words, "end"])
    if not _utf8(words) and "asyncssh" in str(request.node.name):
        assert result.outcome == "refused"  # Its server takes text commands only, and the host says so.
        return
    assert result.ok, result
    assert result.stdout.data == expected


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=4096))
def test_stdin_round_trips(door: tuple[asyncio.Runner, Host], data: bytes) -> None:
    runner, host = door
    assert runner.run(host.exec(["cat"], stdin=data)).stdout.data == data
