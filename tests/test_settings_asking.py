"""A launch line tried by the engine itself, beside what reading its source gave: both are shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from agent.errors import UsageError
from agent.surfaces.settings_command import SettingsOptions, run
from tests.settings_small import SmallTree, settled
from tests.test_settings_ask import PYTHON, write_small
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.local import LocalHost
from tools.process import ProcessFacts
from tools.settings.asking import asked_view, question_of
from tools.settings.define import definitions
from tools.settings.locate import Location
from tools.settings.subject import Subject
from tools.settings.text import lines_of
from tools.settings.types import Engine, HostFacts

HOST = LocalHost("local")
HEAD = {"engine": "sglang", "version": "1.0", "accepted": True, "partial": ""}


def subject_of(package: Path, *words: str, engine: Engine = "sglang", root: str = "", **read: Any) -> Subject:
    tree = SmallTree({"srt/server_args.py": (package / "srt" / "server_args.py").read_text()}, engine)
    argv = (PYTHON, "-m", "sglang.launch_server", *words)
    facts = ProcessFacts(
        host="local", pid=7, start_time=0, engine=engine, argv=argv, flags={}, interpreter=PYTHON,
        package=engine, version="9.9", package_root=str(package), port=1, cwd="/",
        uid=0, environ={}, effective={},
    )  # fmt: skip
    location = Location(facts, root)
    return Subject(tree, argv, {}, HostFacts(), definitions(tree), settled(**read), location)


def context(tmp_path: Path, *, consent: bool = True) -> ToolContext:
    allowed = ToolSettings(ask_engine=consent)
    return ToolContext("t1", {"local": HOST}, ArtifactStore(tmp_path), lambda data: data, allowed)


async def test_the_value_of_the_engine_stands_beside_that_of_the_source(tmp_path: Path) -> None:
    subject = subject_of(write_small(tmp_path, ""), "--pp-size", "2", pp_size=2)
    view = await asked_view(context(tmp_path), HOST, subject, ["pp_size"])
    assert (view["outcome"], view["disagreements"]) == ("accepted", [])
    assert view["settings"] == {"pp_size": {"engine": 2, "source": 2}}
    text = "\n".join(
        lines_of({"engine": "sglang", "version": "1.0", "accepted": True, "partial": "", "asked": view})
    )
    assert "accepts the launch line (version 9.9)" in text
    assert "pp_size = 2; the source, as it was evaluated: 2" in text


async def test_a_disagreement_is_shown(tmp_path: Path) -> None:
    subject = subject_of(write_small(tmp_path, ""), "--pp-size", "2", pp_size=4)
    view = await asked_view(context(tmp_path), HOST, subject)
    assert view["disagreements"] == [{"what": "pp_size", "engine": 2, "source": 4}]
    text = "\n".join(
        lines_of({"engine": "sglang", "version": "1.0", "accepted": True, "partial": "", "asked": view})
    )
    assert "! disagreement on pp_size: the engine says 2" in text


async def test_a_proposed_line_is_refused_in_the_engine_s_own_words(tmp_path: Path) -> None:
    subject = subject_of(write_small(tmp_path, ""), "--pp-size", "2")
    subject = dataclasses.replace(subject, evaluation=settled())
    question = question_of(subject, [PYTHON, "-m", "sglang.launch_server", "--pp-size", "3"], {})
    assert question.argv[-1] == "3"
    line = dataclasses.replace(subject, argv=question.argv)
    view = await asked_view(context(tmp_path), HOST, line)
    assert (view["outcome"], view["words"]) == ("refused", "layers do not divide by 3")


async def test_without_consent_nothing_is_asked(tmp_path: Path) -> None:
    subject = subject_of(write_small(tmp_path, ""), "--pp-size", "2")
    with pytest.raises(ToolError, match="LEADLINE_TOOLS__ASK_ENGINE=true"):
        await asked_view(context(tmp_path, consent=False), HOST, subject)


def test_what_cannot_be_asked_says_why(tmp_path: Path) -> None:
    package = write_small(tmp_path, "")
    with pytest.raises(ToolError, match="runs in a container"):
        question_of(subject_of(package, root="/proc/7/root"), [], {})
    with pytest.raises(ToolError, match="ollama has no argument class"):
        question_of(subject_of(package, engine="ollama"), [], {})
    with pytest.raises(ToolError, match="installed on the host"):
        question_of(dataclasses.replace(subject_of(package), stand_in="/tmp/wheel"), [], {})


@pytest.mark.parametrize(
    "options",
    [
        SettingsOptions(source=Path("/"), ask=True),
        SettingsOptions(host="gpu1", ask=True, suspects=True),
        SettingsOptions(host="gpu1", ask=True, lint=True),
        SettingsOptions(host="gpu1", name="pp_size", launch_line="--pp-size 2"),
    ],
)
def test_questions_that_do_not_go_together_are_refused(options: SettingsOptions) -> None:
    with pytest.raises(UsageError, match=r"--ask|--launch-line"):
        run(options)
