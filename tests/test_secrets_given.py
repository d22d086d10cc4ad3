"""Our own secrets in the line of an error that comes before, or because of, the settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config import Settings
from agent.config_secrets import given

LEADLINE = str(Path(sys.executable).with_name("leadline"))
KEY = "plain-words-that-no-rule-of-ours-knows"


def test_what_stands_in_files_and_variables_under_the_name_of_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        "api_key = \"of-the-file\"\nmodels = {big = {api_key = 'of-big'}}\n"
        '[models.other]\napi_key_env = "THEIRS"\n'
        'broken = [\n[slack]\nbot_token = "xoxb-of-the-file"\nhost = "no-secret"\n'
    )
    variables = {
        "LEADLINE_API_KEY": "of-ours",
        "OPENAI_API_KEY": "of-openai",
        "LEADLINE_SLACK__SIGNING_SECRET": "of-slack",
        "THEIRS": "of-theirs",
    }
    others = {
        "LEADLINE_MODELS": '{"x": {"api_key": "of-json", "base_url": "http://no-secret"}}',
        "HOME": "no-secret",
    }
    found = set(given(Settings, variables | others, [file, tmp_path / "absent"]))
    assert found == {"of-the-file", "of-big", "xoxb-of-the-file", "of-json", *variables.values()}


@pytest.mark.parametrize("where", ["file", "variable", "broken file"])
def test_an_error_of_the_settings_shows_no_key(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "leadline"
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")}  # noqa: TID251
    env = {**kept, "XDG_CONFIG_HOME": str(tmp_path), "LEADLINE_STATE_DIR": str(tmp_path / "state")}
    if where == "variable":
        env["LEADLINE_API_KEY"] = KEY
    else:
        broken = "\n= broken\n" if "broken" in where else ""
        (folder / "config.toml").write_text(f'api_key = "{KEY}"\n{broken}')
        (folder / "config.toml").chmod(0o600)
    argv = [LEADLINE, "ask", f"no host {KEY}", "slow", "--model", f"m-{KEY}"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr.startswith("leadline: ") and KEY not in done.stderr + done.stdout
    assert done.returncode == 2 if where == "broken file" else "<masked:own_secret:" in done.stderr
