"""A simulated host that was started for a chat: kept while a thread needs it, given back after the last."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from agent.forking import fork
from agent.session import Session
from agent.surfaces import opening
from agent.surfaces.opening import OWNED, give_back, unfinished
from agent.transcript import peek_events
from tests.lab_fixtures import need_sandbox
from tests.scripted_parts import STORY, TOOLS, LocalHost, ScriptedModel, make_settings, plain, run
from tests.terminal_fixtures import environment
from tests.test_chat import LEADLINE

LAB = "lab:tiny#1"
ASKED = "which version of SGLang runs?"


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts that were ended."""
    gone: list[str] = []
    monkeypatch.setattr(opening, "release", lambda name, settings: gone.append(name))
    return gone


def begin(root: Path, thread: str) -> Session:
    model, hosts = ScriptedModel(STORY), {LAB: LocalHost(LAB)}
    settings = make_settings(root)
    if (root / "threads" / thread).exists():
        return Session.resume(settings, thread, model, hosts, tools=TOOLS, redact=plain)
    return Session.start(settings, model, hosts, "slow", thread=thread, tools=TOOLS, redact=plain)


async def test_a_thread_at_work_inherits_the_host_and_gives_it_back(
    tmp_path: Path, released: list[str]
) -> None:
    settings = make_settings(tmp_path)
    one = begin(tmp_path, "one")
    (one.folder / OWNED).write_text(LAB)
    assert unfinished(one.folder)
    await run(one)
    other = fork(settings, "one", peek_events(one.folder / "transcript.jsonl"), 2)
    folder = tmp_path / "threads" / other
    assert not unfinished(one.folder) and unfinished(folder)
    assert give_back(one.folder, settings) == {LAB: other} and released == []
    assert not (one.folder / OWNED).exists() and (folder / OWNED).read_text().split() == [LAB]
    await run(begin(tmp_path, other))
    assert not unfinished(folder)
    assert give_back(folder, settings) == {LAB: ""} and released == [LAB]
    assert give_back(folder, settings) == {} and released == [LAB], "not twice"


async def test_a_host_that_somebody_ended_meanwhile_is_given_back(tmp_path: Path) -> None:
    one = begin(tmp_path, "one")
    (one.folder / OWNED).write_text("lab:tiny#abc123")
    await run(one)
    assert give_back(one.folder, make_settings(tmp_path)) == {"lab:tiny#abc123": ""}


async def test_what_was_said_and_not_heard_is_left_to_do(tmp_path: Path) -> None:
    one = begin(tmp_path, "one")
    async for _ in one.ask(None):
        pass
    assert not unfinished(one.folder)
    one.steer("and the driver?")
    assert unfinished(one.folder)
    await one.close()


@pytest.mark.lab
@pytest.mark.slow
def test_a_fork_of_a_chat_on_a_lab_gives_the_lab_back_when_it_has_ended(tmp_path: Path) -> None:
    need_sandbox()

    def talked(*lines: str, argv: tuple[str, ...] = ()) -> str:
        done = subprocess.run(
            [LEADLINE, "chat", *argv],
            input="".join(f"{line}\n" for line in lines),
            env=environment(str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    told = talked(ASKED, "/fork 0", argv=("lab:kimi-k26-pp8",))
    stays = re.search(r"the simulated host stays for (\S+), which is unfinished", told)
    left = re.search(r"left unfinished; go on with: leadline chat \S+ --resume (\S+)", told)
    assert left is not None and stays is None, told
    assert len(list((tmp_path / "labs").iterdir())) == 1
    told = talked(argv=("lab:kimi-k26-pp8", "--resume", left[1]))
    assert "the simulated host is given back" in told
    assert list((tmp_path / "labs").iterdir()) == []
