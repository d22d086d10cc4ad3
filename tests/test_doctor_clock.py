"""Clocks that differ are told from answers that come anyway: of a host, the model's endpoint, Slack."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from aiohttp import web

from agent.surfaces.doctor import DoctorOptions, examined
from agent.surfaces.doctor_clock import differs, of_answer
from agent.surfaces.doctor_types import Check
from agent.surfaces.hosts_check import checked
from tests.settings_folder import SettingsFolder, folder
from tests.sshd_fixtures import asyncssh_server
from tools.facts_parse import Gathered, clock_offset

__all__ = ["folder"]

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0.0, ""),
        (60.0, ""),
        (-59.0, ""),
        (300.0, "its clock is 5 min ahead of this machine's"),
        (-61.0, "its clock is 1 min behind this machine's"),
        (7300.0, "its clock is 2 h ahead of this machine's"),
        (-86400.0 * 400, "its clock is 400 days behind this machine's"),
    ],
)
def test_how_far_is_said_from_a_minute_on(seconds: float, says: str) -> None:
    assert differs(seconds) == says


def test_a_time_between_question_and_answer_is_no_difference() -> None:
    assert [clock_offset(said, 100.0, 120.0) for said in (100.0, 110.0, 120.0, 90.0, 150.0)] == [
        0.0,
        0.0,
        0.0,
        -10.0,
        30.0,
    ]
    assert Gathered(times={"os": (83_000, 84_000)}).first_ms() is None, "time since the boot is no date"
    assert Gathered(times={"os": (NOW_MS, NOW_MS), "gpus": (NOW_MS - 5, NOW_MS)}).first_ms() == NOW_MS - 5
    assert Gathered().first_ms() is None


NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Date": "not a date"},
        {"Date": "Mon, 99 Foo 2026 00:00:00 GMT"},
        {"date": "now"},
        {"Date": "Thu, 01 Jan 1970 00:00:00 GMT", "Age": "3600"},
    ],
)
def test_a_head_without_a_date_of_its_own_tells_nothing(headers: dict[str, str]) -> None:
    now = datetime.now(UTC)
    dated = {name: format_datetime(now) if value == "now" else value for name, value in headers.items()}
    assert of_answer("x", dated, now) == []


def test_a_name_from_outside_is_inert() -> None:
    [found] = of_answer("x\x1b[2J", {"Date": "Thu, 01 Jan 1970 00:00:00 GMT"}, datetime.now(UTC))
    assert "\x1b" not in found.says and found.verdict == "warning"


@contextlib.asynccontextmanager
async def answering(apart: timedelta, requests: list[str]) -> AsyncIterator[str]:
    """Serve a list of models and Slack's two questions, with a clock of its own."""

    async def answer(request: web.Request) -> web.Response:
        requests.append(request.path)
        told = {
            "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "created": 0}]},
            "/api/auth.test": {"ok": True, "team_id": "T0FAKE01", "team": "t", "user": "u"},
        }.get(request.path, {"ok": True, "url": "ws://x"})
        date = format_datetime(datetime.now(UTC) + apart, usegmt=True)
        return web.json_response(told, headers={"Date": date, "X-OAuth-Scopes": "chat:write"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def clocks(folder: SettingsFolder, apart: timedelta, requests: list[str]) -> list[Check]:
    """Return what is said of clocks when endpoint and Slack have one that is apart from ours."""
    async with answering(apart, requests) as at:
        folder.load(
            f'[models.m]\nbase_url = "{at}/v1"\n[slack]\napi_url = "{at}/api/"\nteams = ["T0FAKE01"]\n'
            'bot_token = "xoxb-fake"\napp_token = "xapp-fake"\n'
        )
        folder.person.chmod(0o600)
        options = DoctorOptions(hosts=[], model=None, base_url=None, fresh=False, as_json=True)
        checks = await examined(options)
    return [check for check in checks if check.about == "clock" and "its clock" in check.says]


async def test_endpoint_and_slack_tell_the_time_in_what_is_asked_anyway(folder: SettingsFolder) -> None:
    requests: list[str] = []
    assert await clocks(folder, timedelta(), requests) == []
    before = sorted(requests)
    assert before == ["/api/apps.connections.open", "/api/auth.test", "/v1/models"]
    requests.clear()
    of_model, of_slack = await clocks(folder, timedelta(minutes=-10), requests)
    assert sorted(requests) == before, "no request more"
    assert of_model.says.startswith("http://127.0.0.1:") and "10 min behind this machine's" in of_model.says
    assert of_slack.says.endswith("/api/: its clock is 10 min behind this machine's")
    assert of_model.verdict == "warning" and "timedatectl" in of_model.do


async def test_a_host_whose_clock_is_off_is_a_warning_in_the_same_commands(
    folder: SettingsFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    date = shutil.which("date")
    root = tmp_path / "server"
    root.mkdir()
    shim = tmp_path / "bin" / "date"
    shim.parent.mkdir()
    async with asyncssh_server(root) as server:
        key = (root / "host_key.pub").read_text().strip()
        settings = folder.load(
            f'[hosts.gpu1]\nssh = "127.0.0.1:{server.port}"\nkey = "{root / "client_key"}"\n'
            f'host_key = "{key}"\n'
        )
        [right] = await checked(["gpu1"], settings)
        assert not any("its clock" in said for said in right.says), right
        shim.write_text(f'#!/bin/sh\nexec {date} -d "+3 hours" "$@"\n')
        shim.chmod(0o755)
        monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")  # noqa: TID251
        [wrong] = await checked(["gpu1"], settings)
    assert "its clock is 3 h ahead of this machine's" in wrong.says and wrong.state != "ok" and wrong.do
