"""What is doubtful about settings is said in a line, once, and stops nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config import Settings, doubts
from agent.config_doubts import unknown_variables
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
