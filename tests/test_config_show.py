"""``leadline config``: every setting with what gave it; no secret is printed."""

from __future__ import annotations

import json

import pytest

from agent.config import Settings
from agent.config_rules import leaves
from agent.errors import UsageError
from agent.surfaces.config_show import show_config, show_paths
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]


def shown(capsys: pytest.CaptureFixture[str], **flags: str) -> dict[str, dict[str, object]]:
    show_config([], dict(flags), as_json=True)
    found: dict[str, dict[str, object]] = json.loads(capsys.readouterr().out)["settings"]
    return found


def test_every_setting_says_what_gave_it(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.load(
        site="max_turns = 50\nmax_tokens = 7\n",
        person='# mine\nmax_turns = 30\ntools.allow_load = true\n[hosts."gpu1"]\nunit = "a.service"\n',
        project="max_turns = 20\n",
    )
    monkeypatch.setenv("leadline_context_tokens", "5000")
    monkeypatch.setenv("LEADLINE_AUDIT__MAX_BYTES", "5000")
    monkeypatch.setenv("LEADLINE_APPROVALS", '{"expires_s": 60}')
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gpu1:30000/v1")
    found = shown(capsys, model="small")

    def origin(name: str) -> tuple[object, ...]:
        return tuple(found[name][key] for key in ("value", "from", "name", "line"))

    assert origin("model") == ("small", "flag", "--model", None)
    assert origin("max_turns") == (20, "file", ".leadline.toml", 1)
    assert origin("max_tokens") == (7, "file", str(folder.site), 2)
    assert origin("tools.allow_load") == (True, "file", str(folder.person), 3)
    assert origin("hosts.gpu1.unit") == ("a.service", "file", str(folder.person), 5)
    assert origin("hosts.gpu1.role") == (None, "default", None, None)
    assert origin("context_tokens") == (5000, "environment", "LEADLINE_CONTEXT_TOKENS", None)
    assert origin("audit.max_bytes") == (5000, "environment", "LEADLINE_AUDIT__MAX_BYTES", None)
    assert origin("approvals.expires_s") == (60.0, "environment", "LEADLINE_APPROVALS", None)
    assert origin("base_url") == ("http://gpu1:30000/v1", "environment", "OPENAI_BASE_URL", None)
    assert origin("policy.free_form") == (True, "default", None, None)
    names = {".".join(place) for place, _ in leaves(Settings().model_dump(mode="json"))}
    assert names - {"hosts"} <= set(found)


def test_secrets_are_masked(
    folder: SettingsFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_API_KEY", "sk-canary-1234567890abcdef")
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-canary-token")
    folder.load(person='base_url = "http://ana:canary-word-in-it@gpu1:30000/v1"\n')
    for as_json in (False, True):
        show_config([], {}, as_json=as_json)
        said = capsys.readouterr().out
        assert "canary" not in said
        assert "LEADLINE_API_KEY" in said and "SLACK_BOT_TOKEN" in said


def test_the_text_names_files_and_origins(folder: SettingsFolder, capsys: pytest.CaptureFixture[str]) -> None:
    folder.load(person="max_turns = 30\n")
    folder.project.unlink()
    show_config(["max_t", "tools"], {}, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"# site: {folder.site}"
    assert lines[2] == f"# project: {folder.project} (not there)"
    rows = [line.split("#") for line in lines[3:]]
    assert ["max_turns = 30", f" {folder.person} line 1"] in [[row[0].strip(), row[1]] for row in rows]
    assert all(row[0].startswith(("max_t", "tools.")) for row in rows)
    with pytest.raises(UsageError, match="no setting begins with nonsense"):
        show_config(["nonsense"], {}, as_json=False)
    show_paths(as_json=True)
    assert [file["there"] for file in json.loads(capsys.readouterr().out)] == [True, True, False]
