"""docs/slack.md: its settings load, its unit is one, its commands run, its picture is of a real thread."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config import Settings
from agent.slack.approvals import APPROVE
from agent.slack.run import serving
from tests.fake_slack import FakeSlack
from tests.fake_slack_scopes import EVENT_SCOPES
from tests.fake_slack_world import TEAM
from tests.in_process import leadline
from tests.picture import beyond_the_edge, need_chromium, png, screenshot
from tests.slack_bot_parts import EVENTS, ME, make_slack, said_settings

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "slack.md").read_text(encoding="utf-8")
UNIT = ROOT / "deploy" / "leadline-slack.service"
PICTURES = ROOT / "docs" / "pictures"
THREAD, APPROVAL = PICTURES / "slack-thread.png", PICTURES / "slack-approval.png"
SYMPTOM = "PP8 decode is slow on gpu1: 24 tok/s, GPUs at 85 W of 600 W"


def console() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [
        line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")
    ]


def test_the_settings_of_the_page_load() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    settings = Settings(**tomllib.loads(block))
    assert settings.slack.usable_hosts("C0123456789") == ("gpu1",)
    assert settings.slack.channel("C0123456789").mode == "apply"
    assert settings.slack.channel("C0ELSE").members_may_start is False
    assert settings.approvals.roles.approver and settings.approvals.roles.admin


def test_every_scope_of_the_manifest_is_explained() -> None:
    for scope in yaml.safe_load(leadline("slack", "manifest").stdout)["oauth_config"]["scopes"]["bot"]:
        assert f"`{scope}`" in PAGE, scope
    assert set(EVENTS) == set(EVENT_SCOPES)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("leadline")
    text = UNIT.read_text().replace("/opt/leadline/.venv/bin/leadline", str(program))
    unit = tmp_path / UNIT.name
    unit.write_text(text)
    argv = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        "DynamicUser=yes",
        "StateDirectory=leadline",
        "LoadCredential=SLACK_BOT_TOKEN:",
        "UMask=0077",
        "RestartPreventExitStatus=2",
    ):
        assert line in text
    assert f"{UNIT.name}" in PAGE and "Restart=on-failure" in text


@pytest.mark.parametrize("line", [line for line in console() if line.startswith("leadline ")])
def test_the_commands_of_the_page_are_understood(line: str) -> None:
    done = leadline(*line.removeprefix("leadline ").split(), "--help")
    assert done.returncode == 0 and done.stdout


def test_symptoms_of_the_page_are_what_the_program_says() -> None:
    said = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "agent").rglob("*.py"))
    for symptom in ("not among those who may start", "No host is set up for this channel", "On which host?"):
        assert symptom in PAGE and symptom in said, symptom


@pytest.mark.parametrize("picture", [THREAD, APPROVAL], ids=lambda path: path.stem)
def test_the_committed_pictures_are_whole(picture: Path) -> None:
    width, height, colours = png(picture)
    assert width >= 1000 and height > 700 and colours > 32
    assert f"pictures/{picture.name}" in PAGE


@need_chromium
@pytest.mark.picture
@pytest.mark.lab
@pytest.mark.slow
async def test_the_pictures_are_renewed_on_purpose(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not request.config.getoption("--renew-pictures"):
        pytest.skip("the committed pictures stay as they are; --renew-pictures makes them anew from a run")
    up = json.loads(lab_command(tmp_path, "up", "kimi-k26-pp8", "--json"))
    lab = f"lab:kimi-k26-pp8#{up['id']}"
    try:
        async with make_slack() as slack:
            thread, question = await investigated(slack, settings_with(slack, tmp_path, lab))
            pages = {THREAD: (slack.thread_html("C0OPS", thread), 2500), APPROVAL: (question, 1130)}
    finally:
        lab_command(tmp_path, "down", up["id"])
    for picture, (html, height) in pages.items():
        assert beyond_the_edge(html, 760, tmp_path) == []
        (tmp_path / "page.html").write_text(html, encoding="utf-8")
        screenshot(tmp_path / "page.html", picture, (800, height), scale=1.25)


def lab_command(state: Path, *words: str) -> str:
    """Run `leadline lab`, with labs that are known in this state folder."""
    environment = {**os.environ, "LEADLINE_STATE_DIR": str(state)}  # noqa: TID251
    program = Path(sys.executable).with_name("leadline")
    argv = [str(program), "lab", *words]
    return subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def settings_with(slack: FakeSlack, root: Path, lab: str) -> Settings:
    """Return settings in which gpu1 is a host of the lab."""
    roles = {"roles": {"approver": [f"slack:{TEAM}:U0BEN", f"slack:{TEAM}:U0CLEO"]}}
    said: dict[str, Any] = said_settings(root, slack, hosts=["gpu1"], approvals=roles)
    for channel in said["slack"]["channels"].values():
        channel["hosts"] = ["gpu1"]
    return Settings(**said | {"hosts": {"gpu1": {"ssh": lab}}})


async def investigated(slack: FakeSlack, settings: Settings) -> tuple[str, str]:
    """Let people bring an investigation to its fix; return its thread, and its first question as a page."""
    question = ""
    async with serving(settings):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} {SYMPTOM}")
        pressed: set[str] = set()
        for _ in range(6000):
            posts = [(post, json.dumps(post["blocks"])) for post in slack.posts("C0OPS", said.ts)]
            if any('"hypotheses"' in blocks for _, blocks in posts):
                break
            for post in [
                one for one, blocks in posts if f'"{APPROVE}"' in blocks and one["ts"] not in pressed
            ]:
                pressed.add(post["ts"])
                question = question or slack.thread_html("C0OPS", said.ts, post["ts"])
                await slack.user("U0BEN").clicks(post, APPROVE)
            await asyncio.sleep(0.1)
    assert "fixed" in slack.thread_text("C0OPS", said.ts)
    return said.ts, question
