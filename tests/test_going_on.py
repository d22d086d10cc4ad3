"""What is meant where an investigation is gone on with: its own hosts decide, and no word is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.session import Session
from agent.surfaces.going_on import Meant, meant
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.opening import settings_of
from tests.scripted_parts import STORY, TOOLS, LocalHost, ScriptedModel, make_settings, plain
from tests.test_sessions import leadline

LAB = "lab:tiny#a1"
HOSTS = """
[hosts.gpu1]
groups = ["decode"]
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


async def begun(root: Path, host: str) -> None:
    session = Session.start(
        make_settings(root),
        ScriptedModel(STORY),
        {host: LocalHost(host)} if host else {},
        "slow",
        thread="one",
        tools=TOOLS,
        redact=plain,
    )
    await session.close()


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
