"""What is doubtful about settings is said in a line, once, and stops nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel, SecretStr

from agent.config import Settings, doubts
from agent.config_doubts import SECRETS, unknown_variables
from agent.model_settings import ModelEntry
from agent.slack_settings import SlackSettings
from agent.surfaces.doctor import DoctorOptions, examined
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]

OPTIONS = DoctorOptions(hosts=[], model=None, base_url=None, fresh=False, as_json=False)
LEADLINE = str(Path(sys.executable).with_name("leadline"))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("LEADLINE_MODLE", "nearest: LEADLINE_MODEL"),
        ("leadline_max_turn", "nearest: LEADLINE_MAX_TURNS"),
        ("LEADLINE_TOOL__ALLOW_LOAD", "nearest: LEADLINE_TOOLS__ALLOW_LOAD"),
        ("LEADLINE_XQZ", "see: leadline config show"),
    ],
)
def test_a_variable_that_sets_nothing_is_named_with_what_is_near(name: str, nearest: str) -> None:
    (doubt,) = unknown_variables([name], Settings.model_fields, ())
    assert doubt.what == f"the variable {name} sets nothing: there is no such setting" and doubt.do == nearest


def test_names_that_mean_something_are_no_doubt() -> None:
    ours = [f"LEADLINE_{name.upper()}" for name in Settings.model_fields]
    nested = ["LEADLINE_TOOLS__ALLOW_LOAD", "leadline_audit__copy_to", "LEADLINE_HOSTS__GPU1__UNIT"]
    others = ["LEADLINE_RUN", "LEADLINE_PORT_80_TCP_ADDR", "LEADLINE_SERVICE_HOST", "PATH", "LEADLINE_MY_KEY"]
    assert unknown_variables([*ours, *nested, *others], Settings.model_fields, {"LEADLINE_MY_KEY"}) == []


def test_a_key_that_a_model_names_is_no_doubt(
    folder: SettingsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_MY_KEY", "x")
    assert doubts(folder.load('[models.a]\napi_key_env = "LEADLINE_MY_KEY"\n')) == []
    assert len(doubts(folder.load())) == 1


def test_it_is_said_once_in_one_line(folder: SettingsFolder) -> None:
    env = {**os.environ, "LEADLINE_NOPE": "1"}  # noqa: TID251
    argv = [LEADLINE, "sessions", "list", "--json"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "warning: the variable LEADLINE_NOPE sets nothing" in done.stderr


async def test_the_doctor_says_it_as_well(folder: SettingsFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_MODLE", "x")
    (check,) = [one for one in await examined(OPTIONS) if "LEADLINE_MODLE" in one.says]
    assert check.verdict == "warning" and check.do == "nearest: LEADLINE_MODEL"


def test_every_key_among_the_settings_is_known_as_one() -> None:
    def keys(model: type[BaseModel]) -> Iterator[str]:
        for name, field in model.model_fields.items():
            if SecretStr in (field.annotation, *get_args(field.annotation)):
                yield name

    assert {*keys(Settings), *keys(ModelEntry), *keys(SlackSettings)} == set(SECRETS)


@pytest.mark.parametrize(
    ("rank", "mode", "says"),
    [
        ("person", 0o600, ""),
        ("person", 0o640, "can be read by others; chmod 600 "),
        ("person", 0o604, "can be read by others; chmod 600 "),
        ("site", 0o640, ""),
        ("site", 0o644, "can be read by everybody; chmod 640 "),
    ],
)
def test_a_key_that_others_can_read_is_said(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str], rank: str, mode: int, says: str
) -> None:
    path = folder.site if rank == "site" else folder.person
    folder.load()
    path.chmod(mode)
    key = '[models.a]\napi_key = "sk-canary"\n'
    found = doubts(folder.load(site=key) if rank == "site" else folder.load(key))
    told = capsys.readouterr().err
    assert "canary" not in told
    if not says:
        assert not found and not told
        return
    (doubt,) = found
    assert f"{path} holds models.a.api_key and {says}{path}" in f"{doubt.what}; {doubt.do}"
    assert told.count("\n") == 1 and says in told


def test_a_file_without_a_key_may_be_read_by_all(folder: SettingsFolder) -> None:
    folder.load()
    folder.person.chmod(0o644)
    assert doubts(folder.load("max_turns = 5\n")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_key_in_somebody_elses_file_is_said(
    folder: SettingsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = folder.load('api_key = "sk-canary"\n')
    folder.person.chmod(0o600)
    os.chown(folder.person, 4242, 4242)
    (doubt,) = doubts(settings)
    assert "holds api_key and belongs to another user (4242)" in doubt.what and "chown 0 " in doubt.do
    os.chown(folder.person, 0, 0)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert doubts(settings) == [], "root's own is fine"


async def test_the_doctor_says_how_to_mend_a_key_that_others_can_read(folder: SettingsFolder) -> None:
    folder.load('slack.bot_token = "xoxb-canary"\n')
    folder.person.chmod(0o644)
    (check,) = [one for one in await examined(OPTIONS) if "slack.bot_token" in one.says]
    assert check.verdict == "warning" and check.do == f"chmod 600 {folder.person}"
