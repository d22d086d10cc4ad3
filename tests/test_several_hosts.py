"""One question to several hosts: opened side by side, what is down is said and recorded, labs stay apart."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent.errors import HostUnreachable, UsageError
from agent.events import Started, SystemNote, ToolFinished
from agent.models.method import Step
from agent.models.playbook import on_one_host
from agent.models.views import Facts, View
from agent.surfaces.approving import refuse_unattended
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.opening import OWNED, give_back, open_hosts, scenario_of, settings_of, start, started_here
from agent.surfaces.targets import is_fresh, is_lab, open_host
from evals.loopback_sshd import free_port
from tests.settings_folder import SettingsFolder, folder
from tests.sshd_fixtures import SshServer, asyncssh_server

__all__ = ["folder"]


def fleet(server: SshServer, *names: str, down: str = "") -> str:
    key = (server.root / "host_key.pub").read_text().strip()
    rows = [
        f'[hosts.{name}]\nkey = "{server.root / "client_key"}"\nhost_key = "{key}"\ngroups = ["pool"]\n'
        f'ssh = "127.0.0.1:{server.port if name != down else free_port()}"\n'
        for name in names
    ]
    return "".join(rows)


async def test_one_that_is_down_is_said_and_recorded_and_the_rest_goes_on(
    folder: SettingsFolder, tmp_path: Path
) -> None:
    (tmp_path / "server").mkdir()
    said: list[str] = []
    async with asyncssh_server(tmp_path / "server") as server, AsyncExitStack() as stack:
        folder.load(fleet(server, "gpu1", "gpu2", "gpu3", down="gpu2"))
        options = OpenOptions(host="@pool")
        settings = settings_of(options)
        hosts = await open_hosts(options, settings, stack, said.append)
        assert list(hosts) == ["gpu1", "gpu3"]
        assert len(said) == 1 and said[0].startswith("not reached, and left out: gpu2: nothing listens on")
        session = start(options, settings, hosts, "decode is slow")
        stack.push_async_callback(session.close)
        events = [event async for event in session.ask(None)]
    started, note = session.events[:2]
    assert isinstance(started, Started) and started.hosts == ["gpu1", "gpu3"] and started.scenario is None
    assert isinstance(note, SystemNote)
    assert "1 could not be reached" in " ".join(note.text.split()) and "- gpu2: " in note.text
    facts = {event.tool_call_id for event in events if isinstance(event, ToolFinished)}
    assert {"orient-1", "orient-2"} <= facts
    assert session.ended is not None


async def test_with_none_there_or_one_asked_for_it_ends_with_the_reason(
    folder: SettingsFolder, tmp_path: Path
) -> None:
    (tmp_path / "server").mkdir()
    async with asyncssh_server(tmp_path / "server") as server, AsyncExitStack() as stack:
        settings = folder.load(fleet(server, "gpu1", "gpu2", down="gpu2"))
        for words in ("gpu2", "gpu2,gpu2"):
            with pytest.raises(HostUnreachable, match="gpu2: nothing listens on"):
                await open_hosts(OpenOptions(host=words), settings, stack, lambda text: None)
        with pytest.raises(UsageError, match=r"no host gpu22 .*; nearest: gpu2"):
            await open_hosts(OpenOptions(host="gpu1,gpu22"), settings, stack, lambda text: None)
        with pytest.raises(UsageError, match="gpu1,gpu2 are 2 hosts, and this works on one"):
            await stack.enter_async_context(open_host("gpu1,gpu2", settings))


def test_a_real_host_beside_a_simulated_one_gets_none_of_its_rights(folder: SettingsFolder) -> None:
    settings = folder.load('[hosts.shown]\nssh = "lab:kimi-k26-pp8#1234"\n')
    assert is_lab("lab:a,lab:b#1") and not is_lab("lab:a,gpu1") and not is_lab("gpu1,lab:a")
    assert is_fresh("gpu1, lab:a") and not is_fresh("lab:a#1,gpu1")
    assert settings_of(OpenOptions(host="lab:a,lab:b")).tools.allow_load
    assert not settings_of(OpenOptions(host="lab:a,gpu1")).tools.allow_load
    with pytest.raises(UsageError, match="works on `lab:` hosts only"):
        refuse_unattended(["lab:a,gpu1"])
    with pytest.raises(UsageError, match="ask about them apart"):
        scenario_of(["lab:a#1", "gpu1"], settings)
    assert scenario_of(["lab:a#1", "lab:b#2", "lab:a#3", "shown"], settings) == "a, b, kimi-k26-pp8"
    assert scenario_of(["gpu1"], settings) is None


def told_by_playbook(symptom: str, *views: View) -> list[Step]:
    """Return what the built-in method does over these facts, two steps long, with calls of two kinds."""

    def steps() -> Generator[Step, list[View], None]:
        results = yield Step("one", [("run", {"command": "true"}), ("hypothesis", {"add": []})])
        assert results == [{"ok": 1}]
        yield Step("two", [("facts", {"host": "other"}), ("conclude", {"summary": "Found."})])

    going = on_one_host(steps(), [Facts.of(view) for view in views], symptom, {"run", "facts"})
    return [next(going), going.send([{"ok": 1}])]


def test_the_playbooks_look_into_one_of_several_hosts_and_say_which() -> None:
    engine = {"engines": [{"engine": "sglang"}]}
    gpu1, gpu2, log = {"host": "gpu1", **engine}, {"host": "gpu2", **engine}, {"host": "stdin"}
    first, second = told_by_playbook("decode is slow on gpu2", gpu1, gpu2)
    assert first.text == "The playbooks look into one host at a time: gpu2 here, not gpu1.\none"
    assert first.calls == [("run", {"host": "gpu2", "command": "true"}), ("hypothesis", {"add": []})]
    said = "Found. Only gpu2 was looked into, not gpu1."
    assert second == Step("two", [("facts", {"host": "other"}), ("conclude", {"summary": said})])
    assert "gpu1 here, not gpu2" in told_by_playbook("slow on gpu22", gpu1, gpu2)[0].text
    for views in ((gpu1,), (gpu1, log), ({"host": "gpu1"}, {"host": "gpu2"})):
        assert told_by_playbook("slow", *views)[0].calls[0] == ("run", {"command": "true"})


def test_hosts_that_were_started_for_a_session_are_given_back_together(
    folder: SettingsFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = folder.load()
    options = OpenOptions(host="lab:a,lab:b#9,lab:c")
    assert started_here(options, ["lab:a#1", "lab:b#9", "lab:c#3"]) == ["lab:a#1", "lab:c#3"]
    gone: list[str] = []
    monkeypatch.setattr("agent.surfaces.opening.release", lambda name, settings: gone.append(name))
    (tmp_path / OWNED).write_text("lab:a#1\nlab:c#3")
    give_back(tmp_path, settings)
    assert gone == ["lab:a#1", "lab:c#3"]
