"""Simulated hosts that are started for a list of hosts: all are there, or nothing of them is left."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from agent.config import Settings
from agent.errors import LeadlineError, UsageError
from agent.surfaces.side_by_side import Opened, open_all
from evals.lab.hosts import list_labs
from tests.lab_fixtures import TINY, lab_settings, need_sandbox
from tools.contract import Host
from tools.host import HostTarget, connect

pytestmark = pytest.mark.lab


@pytest.fixture
def name(tmp_path: Path) -> str:
    """The name of a small simulated host that is to be started."""
    need_sandbox()
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return f"lab:{tmp_path / 'tiny.yaml'}"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings with a state folder of their own."""
    return lab_settings(tmp_path)


def left(settings: Settings) -> list[str]:
    """Return what is left of labs: those that run, and folders of them."""
    folder = settings.state_dir / "labs"
    folders = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [*(lab.name for lab in list_labs(settings) if lab.alive), *folders]


async def opened(names: list[str], settings: Settings) -> tuple[Opened, list[str]]:
    said: list[str] = []
    async with AsyncExitStack() as stack:
        return await open_all(names, settings, stack, said.append), said


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("lab:tiny#nope", "no simulated host 'nope'"),
        ("lab:nope", "no scenario 'nope'"),
        ("lab:", "names no scenario"),
        ("labb:x", "nearest: lab:x"),
    ],
)
async def test_a_wrong_name_is_told_before_anything_is_started(
    name: str, settings: Settings, wrong: str, told: str
) -> None:
    for names in ([wrong, name], [name, wrong]):
        with pytest.raises(LeadlineError, match=told):
            await opened(names, settings)
        assert left(settings) == []


async def test_what_was_started_is_given_back_when_another_one_fails(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asyncio.Event()

    async def fails_later(target: HostTarget, settings: Settings) -> Host:
        if first.is_set():
            raise UsageError("this one cannot be used")
        first.set()
        return await connect(target, settings)

    monkeypatch.setattr("agent.surfaces.targets.connect", fails_later)
    with pytest.raises(UsageError, match="this one cannot be used"):
        await opened([name, name.replace("tiny.yaml", "./tiny.yaml")], settings)
    assert left(settings) == []


async def test_what_comes_up_after_the_person_left_is_given_back(name: str, settings: Settings) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def progress(text: str) -> None:
        if text.startswith("sandbox "):
            loop.call_soon_threadsafe(begun.set)

    async with AsyncExitStack() as stack:
        opening = asyncio.create_task(open_all([name], settings, stack, progress))
        await asyncio.wait_for(begun.wait(), 60)
        opening.cancel()
        await asyncio.wait({opening})
        assert opening.cancelled()
    await loop.shutdown_default_executor()
    assert left(settings) == []
