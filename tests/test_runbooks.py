"""Runbooks: found in their folders, offered to the model by name, read by a tool; else nothing changes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.events import Started, ToolFinished
from agent.models import ToolSchema
from agent.models.replay import Recording
from agent.notes import notes_for
from agent.replay import replay
from agent.runbooks import find, listed, load, read
from agent.shown import default_tools
from agent.state import AssistantTurn, Message, ToolCall
from agent.surfaces.doctor import DoctorOptions, examined
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.opening import open_hosts, settings_of, start
from agent.surfaces.runbooks_view import list_runbooks, show_runbook
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]

BODY = "# Slow decode\n\nFirst look at the clocks.\n"


def skill(folder: Path, name: str = "slow-decode", head: str = "", body: str = BODY) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = head or f"name: {name}\ndescription: When decode is slow on\n  one host.\nlicense: MIT\n"
    path.write_text(f"---\n{head}---\n{body}")
    return path


def runbooks(folder: SettingsFolder) -> Path:
    return folder.person.with_name("runbooks")


def test_a_runbook_that_was_written_on_windows_is_one(tmp_path: Path) -> None:
    path = skill(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    book = load(path)
    assert book.name == "slow-decode" and book.body == BODY.strip()


def test_they_are_found_beside_the_settings_of_site_and_person(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    skill(runbooks(folder))
    (runbooks(folder) / "slow-decode" / "references").mkdir()
    (runbooks(folder) / "slow-decode" / "references" / "clocks.md").write_text("85 W is idle.\x1b[2J")
    skill(folder.site.with_name("runbooks"), "from-the-site")
    settings = folder.load()
    assert list(find(settings).books) == ["from-the-site", "slow-decode"]
    list_runbooks(as_json=False)
    assert "slow-decode: When decode is slow on one host.\n" in capsys.readouterr().out
    show_runbook("slow-decode", None)
    assert capsys.readouterr().out.strip() == BODY.strip()
    show_runbook("slow-decode", "references/clocks.md")
    assert "\x1b" not in capsys.readouterr().out
    with pytest.raises(UsageError, match="no runbook slow-decod; nearest: slow-decode"):
        show_runbook("slow-decod", None)
    list_runbooks(as_json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[1]["files"] == ["references/clocks.md"]


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("name: other\ndescription: x\n", "its name is other, that of its folder slow-decode"),
        ("name: slow-decode\n", "description: is missing"),
        ("name: Slow Decode\ndescription: x\n", "name: "),
        ("name: a\nname: b\n", "stands twice"),
        ("- a\n", "head: "),
        ("name: [\n", "not YAML"),
        ("name: 2026-13-45\n", "not YAML"),
        (f"name: {'1' * 5_000}\n", "not YAML"),
    ],
)
async def test_what_is_wrong_is_told_and_left_out(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str], head: str, says: str
) -> None:
    skill(runbooks(folder), head=head)
    skill(runbooks(folder), "good")
    settings = folder.load()
    assert list(find(settings).books) == ["good"]
    list_runbooks(as_json=False)
    said = capsys.readouterr()
    assert says in said.err and "SKILL.md" in said.err and said.out.startswith("good: ")
    checks = await examined(DoctorOptions(hosts=[], model=None, base_url=None, fresh=False, as_json=True))
    assert [check.verdict for check in checks if check.about == "runbooks"] == ["ok", "warning"]


def test_no_file_outside_its_folder_is_read(folder: SettingsFolder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = skill(runbooks(folder))
    (path.parent / "link").symlink_to(tmp_path / "secret")
    (path.parent / "huge").write_text("x" * 70_000)
    os.mkfifo(path.parent / "pipe")
    book = load(path)
    for file in ("../../../secret", str(tmp_path / "secret"), "link", "pipe", "huge", "absent"):
        with pytest.raises(UsageError):
            read(book, file)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UsageError, match="no regular file"):
        load(path)


def test_without_runbooks_the_model_is_shown_what_it_always_was(folder: SettingsFolder) -> None:
    settings = folder.load()
    assert "runbook" not in default_tools(settings, question=False) and notes_for(settings, []) == []
    assert listed({}) == []


class Reading:
    """Read a runbook, then conclude; keep what it was told."""

    name = "reading"

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self.offered: list[str] = []

    async def next_turn(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], on_text: object = None
    ) -> AssistantTurn:
        self.heard = list(messages)
        self.offered = self.offered or [tool["function"]["name"] for tool in tools]
        asked = [{"name": "slow-decode"}, {"name": "slow-decode", "file": "../x"}, {"name": "none"}]
        if not any("runbook" in str(message.get("tool_calls")) for message in messages):
            calls = [
                ToolCall(id=f"r{n}", name="runbook", arguments=json.dumps(one)) for n, one in enumerate(asked)
            ]
            return AssistantTurn(text="I read the runbook.", tool_calls=calls)
        arguments = '{"outcome": "inconclusive", "summary": "looked", "claims": []}'
        return AssistantTurn(text="", tool_calls=[ToolCall(id="c1", name="conclude", arguments=arguments)])


async def test_the_model_reads_one_and_a_replay_finds_it_again(folder: SettingsFolder) -> None:
    skill(runbooks(folder))
    folder.load('[hosts.here]\nssh = "local"\n')
    options, model = OpenOptions(host="here", max_turns=2), Reading()
    async with AsyncExitStack() as stack:
        settings = settings_of(options)
        hosts = await open_hosts(options, settings, stack, lambda text: None)
        session = start(options, settings, hosts, "decode is slow", model)
        stack.push_async_callback(session.close)
        async for _ in session.ask(None):
            pass
    assert "runbook" in model.offered
    note = str(model.heard[2]["content"])
    assert note.startswith("[leadline] The people who run") and "- slow-decode: When decode" in note
    done = [one for one in session.events if isinstance(one, ToolFinished) and one.tool == "runbook"]
    by_id = {one.tool_call_id: one for one in done}
    assert "First look at the clocks." in by_id["r0"].view and by_id["r0"].status == "ok"
    assert "has no file ../x" in by_id["r1"].view and "no runbook none" in by_id["r2"].view
    started = session.events[0]
    assert isinstance(started, Started) and "tool:runbook" in started.prompts
    assert all(one.artifacts == [] for one in done), "a runbook is no evidence"
    report = await replay(Recording.load(session.folder / "transcript.jsonl"), settings)
    assert report.same, report.differences
