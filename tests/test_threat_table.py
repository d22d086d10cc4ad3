"""The table of threats counts what a run really showed, keeps what it could not run, and has no empty row."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.threat_table import BEGIN, END, THREATS, Counted, counted, fill, main, read

ROOT = Path(__file__).parent.parent
SAMPLE = """
import pytest

@pytest.mark.threat(1)
@pytest.mark.parametrize("case", range(3))
def test_each(case):
    assert case < {limit}

@pytest.mark.threat(1, 7)
def test_many(record_property):
    record_property("cases", 40)

@pytest.mark.threat(13)
@pytest.mark.skipif(True, reason="needs root")
def test_skipped():
    pass

def test_unmarked():
    pass
"""
EMPTY = f"before\n{BEGIN}\n{END}\nafter\n"


def run(folder: Path, sample: str, *options: str) -> tuple[int, str]:
    """Run a file of tests in a process of its own, as `make test` does, and return how it ended."""
    tests = folder / "tests"
    tests.mkdir(exist_ok=True)
    (tests / "test_sample.py").write_text(sample)
    (tests / "conftest.py").write_text('pytest_plugins = ["threat_table"]\n')
    (tests / "threat_table.py").write_text((ROOT / "tests/threat_table.py").read_text())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    threat(number): x\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "xdist",
        *options,
        "tests",
    ]
    quick = {"PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=quick, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), ("-n", "1", "--dist", "loadgroup")])
def test_a_run_counts_its_cases_by_row(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, said = run(tmp_path, SAMPLE.format(limit=3), "--threat-results", "out/t.json", *options)
    assert code == 0, said
    figures = counted(json.loads((tmp_path / "out/t.json").read_text()), {})
    assert figures == {
        (1, "tests/test_sample.py"): Counted(4, 43, 43),
        (7, "tests/test_sample.py"): Counted(1, 40, 40),
        (13, "tests/test_sample.py"): Counted(0, 0, 0, "1 skipped: needs root"),
    }


def test_a_failure_is_counted_and_a_second_try_replaces_it(tmp_path: Path) -> None:
    results = tmp_path / "t.json"
    code, _ = run(tmp_path, SAMPLE.format(limit=2), "--threat-results", "t.json")
    assert code == 1
    row = (1, "tests/test_sample.py")
    assert counted(json.loads(results.read_text()), {})[row] == Counted(4, 43, 42)
    run(tmp_path, SAMPLE.format(limit=3), "--threat-results", "t.json", "-k", "test_each")
    assert counted(json.loads(results.read_text()), {})[row] == Counted(4, 43, 43)


def test_a_row_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    code, said = run(tmp_path, "import pytest\n@pytest.mark.threat(99)\ndef test_x():\n    pass\n")
    assert code == 4 and "there is no threat 99" in said


def one(outcome: str, *, file: str = "tests/test_a.py", row: int = 15, cases: int = 5) -> dict[str, object]:
    return {"file": file, "threats": [row], "cases": cases, "outcome": outcome, "why": "Skipped: needs root"}


def test_what_a_machine_cannot_run_keeps_its_figures() -> None:
    first = fill(EMPTY, {"a": one("passed"), "b": one("passed")})
    assert read(first) == {(15, "tests/test_a.py"): Counted(2, 10, 10)}
    again = fill(first, {"a": one("passed"), "b": one("skipped")})
    assert again == first
    assert fill(first, {"a": one("passed"), "b": one("passed")}) == first
    assert read(fill(first, {"a": one("failed")})) == {(15, "tests/test_a.py"): Counted(1, 5, 0)}
    assert first.startswith("before\n") and first.endswith("after\n")


def test_a_table_with_a_missing_row_or_a_failure_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, results = tmp_path / "security.md", tmp_path / "t.json"
    document.write_text(EMPTY)
    rows = {str(row): one("passed", row=row) for row in THREATS}
    results.write_text(json.dumps(rows))
    assert main([str(results), str(document)]) == 0
    results.write_text(json.dumps({key: value for key, value in rows.items() if key != "9"}))
    assert main([str(results), str(document)]) == 1
    assert "no test shows threat 9" in capsys.readouterr().err
    results.write_text(json.dumps(rows | {"4": one("failed", row=4)}))
    assert main([str(results), str(document)]) == 1
    assert "not every case passed of threat 4 in tests/test_a.py" in capsys.readouterr().err


def marked() -> dict[int, set[str]]:
    """Return the files that have a test of each row, as the sources say."""
    found: dict[int, set[str]] = {}
    for file in sorted((ROOT / "tests").glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.threat":
                for argument in node.args:
                    found.setdefault(ast.literal_eval(argument), set()).add(f"tests/{file.name}")
    return found


def test_every_row_has_a_test_and_stands_in_the_document() -> None:
    """Slack is not built yet, so its rows are shown at the record of approvals that it will use."""
    sources, figures = marked(), read((ROOT / "docs/security.md").read_text())
    assert sorted(THREATS.keys() - sources.keys()) == [], "rows without a test"
    stale = {(row, file) for row, files in sources.items() for file in files} ^ figures.keys()
    assert not stale, f"run `make threats` and commit docs/security.md: {sorted(stale)}"
    assert [key for key, value in figures.items() if value.passed != value.cases] == []
