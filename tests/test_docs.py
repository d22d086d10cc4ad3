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
from agent.surfaces.commands import OpenGroup

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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

SLOW = {
    "leadline eval --case 'founding*'": "test_eval_solve.py::test_a_case_is_solved_from_scratch",
    "leadline eval --resume ID": "test_eval_run.py::test_after_kill_9_only_what_is_missing_is_done",
    "leadline eval --list": "test_eval_run.py::test_two_runs_are_compared_on_what_they_share",
    "leadline eval score --report evals.html": "test_eval_report.py::test_the_page_tells_all_of_a_run",
    "leadline eval solve --model NAME --base-url http://gpu1:30000/v1 --samples 3": (
        "test_eval_solve.py::test_a_case_is_solved_from_scratch"
    ),
    "leadline eval solve --model NAME --base-url http://gpu1:30000/v1 --samples 3 --baseline": (
        "test_baseline.py::test_scripts_through_the_wire_against_a_lab"
    ),
    "leadline eval --compare ID ID": "test_eval_run.py::test_two_runs_are_compared_on_what_they_share",
    "leadline eval score replay --gate": "test_eval_run.py::test_the_gate_has_an_exit_code_of_its_own",
    "leadline eval --save-baseline": "test_eval_run.py::test_a_drop_against_the_baseline_fails",
    "leadline eval solve --case NAME --save-baseline": (
        "test_eval_gate.py::test_storing_a_part_keeps_the_rows_of_the_rest"
    ),
    "leadline sessions list": "test_docs.py::test_a_command_in_the_documents_runs",
    "leadline case new --from ID --name slow-after-upgrade": (
        "test_case_new_labs.py::test_a_real_host_becomes_a_scenario_on_which_the_same_evidence_is_found"
    ),
    "leadline case check cases/slow-after-upgrade.yaml": (
        "test_case_check.py::test_check_tells_what_is_wrong_with_a_case"
    ),
    "leadline eval --cases cases --transcripts transcripts": (
        "test_case_new.py::test_a_new_case_is_rated_by_an_eval_of_its_folder"
    ),
    'leadline ask lab:scenarios/slow-after-upgrade.yaml "decode is slow"': (
        "test_case_new_labs.py::test_a_real_host_becomes_a_scenario_on_which_the_same_evidence_is_found"
    ),
}
"""Commands of docs/evals.md that take long or need what is not there -> the test that does the same."""


def test_a_slow_command_of_the_evals_page_has_a_test_of_its_own() -> None:
    page = (ROOT / "docs" / "evals.md").read_text()
    lines = [line for block in _CONSOLE.findall(page) for line in block.splitlines() if line.startswith("$ ")]
    shown = [re.sub(r"\s+# .*$", "", line.removeprefix("$ ")) for line in lines]
    assert sorted(set(shown)) == sorted(SLOW)
    for place in SLOW.values():
        file, _, name = place.partition("::")
        assert f"def {name}" in (ROOT / "tests" / file).read_text(), place


@pytest.mark.parametrize("line", SLOW)
def test_a_slow_command_of_the_evals_page_is_understood(line: str) -> None:
    words = shlex.split(line)
    words[0] = str(Path(sys.executable).with_name("leadline"))
    # The parser of a command reads all of its line before it shows the help that is asked for at the end.
    done = subprocess.run([*words, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


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
    assert len(OpenGroup.later) > 20
    for name in [name for name, command in OpenGroup.later.items() if not getattr(command, "hidden", False)]:
        assert f"`leadline {name}" in page, f"docs/cli.md does not tell of leadline {name}"


def test_every_command_has_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in OpenGroup.later.items():
        told = command.help or (command.callback.__doc__ if command.callback is not None else "")
        assert (told or "").strip(), name
    with pytest.raises(SystemExit) as left:
        app(["--help"])
    assert left.value.code == 0
    assert "Reads only" in " ".join(capsys.readouterr().out.split())
