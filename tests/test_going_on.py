"""What is meant where an investigation is gone on with: its own hosts decide, and no word is lost."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.session import Session
from agent.surfaces.going_on import Meant, meant
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.opening import settings_of, with_load_of
from tests.scripted_parts import STORY, TOOLS, LocalHost, ScriptedModel, make_settings, plain, run
from tests.terminal_fixtures import environment
from tests.test_sessions import LEADLINE, leadline

LAB = "lab:tiny#a1"
HOSTS = """
[hosts.gpu1]
ssh = "local"
groups = ["decode"]
[hosts.big2]
ssh = "local"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder, with settings that know one host."""
    (tmp_path / "leadline").mkdir()
    (tmp_path / "leadline" / "config.toml").write_text(HOSTS)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def begun(root: Path, host: str, thread: str = "one", *, ends: bool = False) -> None:
    session = Session.start(
        make_settings(root),
        ScriptedModel(STORY),
        {host: LocalHost(host)} if host else {},
        "slow",
        thread=thread,
        tools=TOOLS,
        redact=plain,
    )
    await (run(session) if ends else session.close())


def of(host: str, text: str | None = "", thread: str | None = None) -> Meant:
    return meant(host, text, thread, last=thread is None, example="x")


async def test_a_word_that_is_no_host_is_said_and_takes_no_right_away(root: Path) -> None:
    await begun(root, LAB)
    for found in (of("more"), of("", "more"), of("lab:tiny", "more", "one"), of(LAB, "more")):
        assert found == Meant(LAB, "more", "one")
        assert settings_of(OpenOptions(host=found.host, resume=found.thread)).tools.allow_load
    told = leadline(root, "ask", "-c", "more").stderr
    assert b"the built-in playbooks hear nothing beyond the symptom" in told


async def test_a_lab_that_is_named_allows_no_load_on_the_hosts_of_a_thread(root: Path) -> None:
    await begun(root, "gpu1")
    for word in ("lab:tiny", "lab:tiny#a1", "local", "gpu1.example", "me@gpu1", "-"):
        for text in ("", None, "more"):
            with pytest.raises(
                UsageError, match=f"one is about gpu1, not about '{word}'; leave the host out"
            ):
                of(word, text)
    for word in ("gpu1", "all", "@decode", "gpu1,elsewhere", ""):
        assert of(word, "more", "one") == Meant("gpu1", "more", "one")
    assert not settings_of(OpenOptions(host=of("gpu1").host, resume="one")).tools.allow_load


async def test_a_chat_that_is_gone_on_with_takes_no_words_for_its_host(root: Path) -> None:
    await begun(root, "gpu1")
    told = leadline(root, "chat", "--last", "and why?")
    assert told.returncode == 2 and b"one is about gpu1, not about 'and why?'" in told.stderr


async def test_a_thread_without_a_host_has_none(root: Path) -> None:
    await begun(root, "")
    assert of("-", "more") == of("", "more") == of("more") == Meant("-", "more", "one")
    with pytest.raises(UsageError, match="one is about no host, not about 'gpu1'"):
        of("gpu1")


def test_a_chat_that_moved_to_another_thread_names_the_hosts_of_that(root: Path) -> None:
    asyncio.run(begun(root, "gpu1", ends=True))
    asyncio.run(begun(root, "big2", "two", ends=True))
    lines = b"/resume two\n/fork 1\n"
    done = subprocess.run(
        [LEADLINE, "chat", "--resume", "one"],
        input=lines,
        env=environment(str(root), XDG_CONFIG_HOME=str(root)),
        capture_output=True,
        timeout=60,
    )
    fork = max(path.name for path in (root / "threads").iterdir() if path.name not in ("one", "two"))
    assert f"left unfinished; go on with: leadline chat big2 --resume {fork}".encode() in done.stderr, done


def test_a_chat_that_began_on_a_lab_allows_no_load_elsewhere(root: Path) -> None:
    options = OpenOptions(host=LAB)
    settings = settings_of(options)
    assert settings.tools.allow_load and with_load_of([LAB], options, settings) == settings
    assert not with_load_of(["gpu1"], options, settings).tools.allow_load
    assert not with_load_of([], options, settings).tools.allow_load
    asked = OpenOptions(host="gpu1", allow_load=True)
    assert with_load_of(["big2"], asked, settings_of(asked)).tools.allow_load
