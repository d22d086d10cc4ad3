"""Run every command that the documents show, and check the links and files they name."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agent.surfaces.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:]+)\)")
COMMANDS = sorted(
    {
        line
        for page in PAGES
        for block in _BLOCK.findall(page.read_text())
        for line in block.splitlines()
        if line
    }
)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("leadline ")])
def test_a_command_in_the_documents_runs(line: str, tmp_path: Path) -> None:
    words = shlex.split(line)
    words[0] = str(Path(sys.executable).with_name("leadline"))
    environment = {**os.environ, "LEADLINE_STATE_DIR": str(tmp_path)}  # noqa: TID251
    done = subprocess.run(
        words,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, (line, done.stdout[-500:], done.stderr[-500:])
    assert done.stdout


@pytest.mark.parametrize("line", [line for line in COMMANDS if not line.startswith("leadline ")])
def test_any_other_command_is_a_make_target(line: str) -> None:
    words = shlex.split(line)
    assert words[0] == "make", line
    planned = subprocess.run(
        ["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert planned.returncode == 0, planned.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), (page.name, target)


def test_the_page_of_the_command_line_names_every_command() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    names = [
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    ]
    names += [group.name or "" for group in app.registered_groups]
    assert names
    for name in names:
        assert f"`leadline {name}" in page, f"docs/cli.md does not tell of leadline {name}"


def test_every_command_has_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    for command in app.registered_commands:
        assert command.callback is not None and (command.callback.__doc__ or "").strip()
    with pytest.raises(SystemExit) as left:
        app(["--help"])
    assert left.value.code == 0
    assert "Reads only" in " ".join(capsys.readouterr().out.split())
