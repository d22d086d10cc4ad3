"""What a model of ours refuses is told in one way: field, what is wrong with it, which name is near."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent.errors import UsageError
from agent.models.demonstration import read_script
from agent.surfaces.by_hand import parse_arguments
from agent.surfaces.side_by_side import Down
from tests.settings_folder import SettingsFolder, folder
from tools.host import ConnectError
from tools.registry import load
from tools.wrong_fields import first_wrong

__all__ = ["folder"]

ROOT = Path(__file__).parents[1]


class Inner(BaseModel):
    """A table in a table."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["router", "decode"] = "router"
    ports: list[int] = Field(default_factory=list, max_length=2)


class Outer(BaseModel):
    """What is read from a file."""

    model_config = ConfigDict(extra="forbid")

    hostname: str
    weight: float = 1.0
    on: bool = True
    inner: Inner = Inner()
    by_name: dict[str, Inner] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _no_weight_of_nothing(self) -> Self:
        if self.weight == 0:
            raise ValueError("a weight of 0 does nothing")
        return self


@pytest.mark.parametrize(
    ("data", "says", "do"),
    [
        ({}, "hostname: is missing", ""),
        ({"hostnam": "a"}, "hostnam: there is no such field (and 1 more)", "nearest: hostname"),
        ({"hostname": "a", "zzz": 1}, "zzz: there is no such field", "there are: hostname, weight, on,"),
        ({"hostname": "a", "inner": {"rol": "x"}}, "inner.rol: there is no such field", "nearest: role"),
        ({"hostname": "a", "by_name": {"x": {"port": 1}}}, "by_name.x.port: there is no", "nearest: ports"),
        (
            {"hostname": "a", "inner": {"role": "decod"}},
            "inner.role: should be 'router' or 'decode'",
            "nearest: decode",
        ),
        ({"hostname": "a", "weight": "much"}, "weight: should be a number", ""),
        ({"hostname": "a", "on": "perhaps"}, "on: should be true or false", ""),
        ({"hostname": 3}, "hostname: should be text", ""),
        ({"hostname": "a", "inner": 3}, "inner: should be fields with values", ""),
        ({"hostname": "a", "inner": {"ports": [1, "x"]}}, "inner.ports.1: should be a whole number", ""),
        ({"hostname": "a", "inner": {"ports": [1, 2, 3]}}, "inner.ports: should have at most 2 items", ""),
        ({"hostname": "a", "weight": 0}, "whole: a weight of 0 does nothing", ""),
        ([], "whole: should be fields with values", ""),
    ],
)
def test_each_refusal_is_told_in_plain_words(data: Any, says: str, do: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Outer.model_validate(data)
    found = first_wrong(raised.value, "whole", Outer)
    assert found.text.startswith(says) and found.do.startswith(do), (found.text, found.do)
    assert "Value error" not in found.text and "Input" not in found.text


def test_text_that_is_no_json_is_told() -> None:
    with pytest.raises(ValidationError) as raised:
        Outer.model_validate_json("{")
    assert first_wrong(raised.value, "line").text.startswith("line: is not JSON: EOF")


def test_no_other_place_turns_a_refusal_into_text() -> None:
    quoting = re.compile(r"""\[["']msg["']\]|ctx["']\]""")
    found = {
        str(path.relative_to(ROOT))
        for part in ("agent", "tools", "evals", "prompts")
        for path in (ROOT / part).rglob("*.py")
        if quoting.search(path.read_text()) and "interpreter" not in path.parts
    }
    # What a model is told of its arguments stays as it is in recordings.
    assert found == {"tools/wrong_fields.py", "agent/calls.py"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[hosts.gpu1]\nrole = "decod"\n', r"hosts\.gpu1\.role in .* line 2: should be 'router'.*: decode$"),
        ('[hosts.gpu1]\nssh = "a b"\n', r"line 2: not a host: 'a b'; write \[user@\]host\[:port\]$"),
        ('[hosts."x y"]\n', r"hosts\.x y.*: 'x y' is no name"),
        ("[hosts]\ngpu1 = 3\n", r"hosts\.gpu1 in .* line 2: should be fields with values$"),
        ('max_turns = "many"\n', r"max_turns in .* line 1: should be a whole number$"),
        ("max_turns = -1\n", r"max_turns in .* line 1: should be greater than or equal to 1$"),
        ("max_tokens = 0\n", r"max_tokens in .* line 1: should be greater than or equal to 1$"),
        ("max_cost_usd = -0.1\n", r"max_cost_usd in .* line 1: should be greater than or equal to 0$"),
        ("max_wall_s = 0\n", r"max_wall_s in .* line 1: should be greater than 0$"),
        ("context_tokens = 1\n", r"line 1: should be greater than or equal to 1000$"),
        ("[tools]\nallow_lod = true\n", r"line 2: there is no such setting; nearest: allow_load"),
        ('[approvals.roles]\napprover = "x"\n', r"approvals\.roles"),
    ],
)
def test_settings_and_inventory_name_file_line_and_what_is_near(
    folder: SettingsFolder, text: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        folder.load(text)
    assert "Value error" not in str(raised.value) and "Input" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("base_url = 3\n", r"^setting base_url in .* line 1: should be text$"),
        ("\nmodel = 3\n", r"^setting model in .* line 2: should be text$"),
        ('api_key = ["x"]\n', r"^setting api_key in .* line 1: should be text$"),
    ],
)
def test_a_setting_with_other_names_is_told_by_its_own(folder: SettingsFolder, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        folder.load(text)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "LEADLINE_MAX_TURNS",
            "many",
            "setting max_turns in the variable LEADLINE_MAX_TURNS: should",
        ),
        (
            "LEADLINE_SLACK",
            '{"teams": ["x"]}',
            r"slack\.teams\.0 in the variable LEADLINE_SLACK: 'x' is not",
        ),
        (
            "LEADLINE_TOOLS__ALLOW_LOAD",
            "maybe",
            r"the variable LEADLINE_TOOLS__ALLOW_LOAD: should be true",
        ),
        (
            "LEADLINE_HOSTS",
            '{"gpu9": {"rol": 1}}',
            r"hosts\.gpu9\.rol in the variable LEADLINE_HOSTS.*: role",
        ),
        ("LEADLINE_HOSTS", "{", "^LEADLINE_HOSTS does not hold JSON; write a list, or a table, as JSON$"),
    ],
)
def test_a_variable_that_does_not_hold_is_named(
    folder: SettingsFolder, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=says):
        folder.load("max_turns = 3\n")


def test_arguments_and_scripts_by_hand_name_the_field(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^grep: patern: there is no such field \(and 1 more\); nearest: pat"
    ):
        parse_arguments(load("grep"), '{"patern": "x"}')
    script = tmp_path / "script.jsonl"
    script.write_text('{"say": 3}\n')
    with pytest.raises(UsageError, match=r"script\.jsonl:1: say: should be text$"):
        read_script(script)


@pytest.mark.parametrize(
    ("host", "what", "told"),
    [
        ("gpu1", "no address is known for gpu1", "no address is known for gpu1"),
        ("gpu1", "no address is known for gpu11", "gpu1: no address is known for gpu11"),
        ("gpu1", "nothing listens on 10.0.0.1 port 22", "gpu1: nothing listens on 10.0.0.1 port 22"),
        ("10.0.0.1", "10.0.0.1 port 22 did not answer", "10.0.0.1 port 22 did not answer"),
    ],
)
def test_a_host_is_named_once(host: str, what: str, told: str) -> None:
    assert ConnectError(host, "unreachable", what, do="mend it").told == told
    assert Down(host, told, "mend it").reason == what
