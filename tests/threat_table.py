"""Count, from a run of the tests itself, how each row of the threat table was shown, and write that table.

``pytest --threat-results FILE`` adds what a run showed to FILE, test by test; ``python tests/threat_table.py
FILE docs/security.md`` fills the table between its marks. A file of which a run skipped something for want of
something (root, a feature of the kernel) keeps the figures that stand there.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

THREATS: Final[Mapping[int, tuple[str, str]]] = {
    1: (
        "Text from a log, source, a benchmark or the chat gives the model orders",
        "0 unapproved writes, 0 secrets out",
    ),
    2: ("A secret reaches the model, Slack or a disk", "0 planted canaries in any sink"),
    3: ("A link preview carries data out", "no previews, foreign hosts defanged"),
    4: ("The wrong person approves", "refused, and on the record"),
    5: ("A click comes twice, or again", "exactly 1 execution"),
    6: ("A is approved and B is run", "one byte changed anywhere: refused"),
    7: ("What is shown is not what runs", "shown as it is, or refused"),
    8: ("A link, a special file or a race on a path", "refused under 1 s"),
    9: ("Another host answers", "refused, no credential sent"),
    10: ("A pattern that never ends", "each call under 2 s"),
    11: ("A flood, binary data, escape sequences", "memory bounded, connection usable"),
    12: ("A loop that runs away, or its cost", "ends within the budget"),
    13: ("A storm of restarts, two sessions on a host", "changes strictly one after the other"),
    14: ("The link drops at a step of a change", "old, or new and verified; never called success"),
    15: ("We are killed at a step of a change", "0 or 1 effects, reconciled, no intent lost"),
    16: ("Records of the audit are edited", "every edit found; with the sink down no write runs"),
    17: ("A hostile checkpoint", "refused, or without effect"),
    18: ("A known way around a command filter", "0 run without a person; 95% of real reads do"),
    19: ("Our parser and bash disagree", "what bash executes is what was judged"),
}
"""Each row of the table: the threat, and what must hold."""

BEGIN: Final = "<!-- threats: begin, written by `make threats` -->"
END: Final = "<!-- threats: end -->"
_LINE: Final = re.compile(r"\| (\d+) \| `(tests/[a-z0-9_]+\.py)` \| (\d+) \| (\d+) \| (\d+) \| (.*) \|")
_RESULTS: Final = pytest.StashKey["Results"]()


class Counted(NamedTuple):
    """Say how one file of tests showed one row; ``note``: what this table could not be filled anew from."""

    tests: int
    cases: int
    passed: int
    note: str = ""


class Results:
    """Gather, in the process that leads a run, what became of each marked test."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a test: a failure anywhere stays, whatever comes after it."""
        properties = dict(report.user_properties)
        if "threats" not in properties:
            return
        name = re.sub(r"@[\w.-]+$", "", report.nodeid)
        known = self.tests.get(name, {"outcome": "passed"})
        outcome = report.outcome if known["outcome"] == "passed" else known["outcome"]
        why = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
        self.tests[name] = {
            "file": f"tests/{Path(report.location[0]).name}",
            "threats": properties["threats"],
            "cases": int(str(properties.get("cases", 1))),
            "outcome": outcome,
            "why": why or known.get("why", ""),
        }

    def pytest_sessionfinish(self) -> None:
        """Add this run to the results of those before it; a test that ran again counts as it ended last."""
        before = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(before | self.tests, indent=1, sort_keys=True) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run say where its results go."""
    parser.addoption(
        "--threat-results", metavar="FILE", help="Add what this run showed of each threat to FILE."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Gather in the leading process alone."""
    file = config.getoption("--threat-results")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(Path(file)), "threat-results")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Send the rows a test shows along with its reports, which is all that leaves a worker."""
    rows = sorted({int(number) for mark in item.iter_markers("threat") for number in mark.args})
    unknown = [row for row in rows if row not in THREATS]
    if unknown:
        raise pytest.UsageError(
            f"{item.nodeid}: there is no threat {unknown[0]}; the rows are 1 to {len(THREATS)}"
        )
    if rows:
        item.user_properties.append(("threats", rows))


def counted(
    results: Mapping[str, Mapping[str, Any]], committed: Mapping[tuple[int, str], Counted]
) -> dict[tuple[int, str], Counted]:
    """Return the figures by row and file: of this run, or of the table where this run skipped some."""
    by_file: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for one in results.values():
        for row in one["threats"]:
            by_file.setdefault((row, one["file"]), []).append(one)
    figures: dict[tuple[int, str], Counted] = {}
    for key, tests in by_file.items():
        ran = [test for test in tests if test["outcome"] != "skipped"]
        if len(ran) == len(tests):
            figures[key] = _of(ran)
        elif key in committed:
            figures[key] = committed[key]
        else:
            why = next(test["why"] for test in tests if test["outcome"] == "skipped")
            reason = why.removeprefix("Skipped: ").replace("|", "/")
            figures[key] = _of(ran)._replace(note=f"{len(tests) - len(ran)} skipped: {reason}")
    return figures


def _of(tests: Iterable[Mapping[str, Any]]) -> Counted:
    ran = list(tests)
    return Counted(
        len(ran),
        sum(test["cases"] for test in ran),
        sum(test["cases"] for test in ran if test["outcome"] == "passed"),
    )


def read(document: str) -> dict[tuple[int, str], Counted]:
    """Return the figures that stand in a document."""
    found = _LINE.finditer(document[document.find(BEGIN) : document.find(END)])
    return {
        (int(one[1]), one[2]): Counted(int(one[3]), int(one[4]), int(one[5]), one[6].strip()) for one in found
    }


def render(figures: Mapping[tuple[int, str], Counted]) -> str:
    """Return the two tables: by row, then by row and file."""
    lines = ["| # | threat | what must hold | tests | cases | passed |", "|---|---|---|---|---|---|"]
    for number, (threat, holds) in THREATS.items():
        parts = [one for (row, _), one in figures.items() if row == number]
        sums = [sum(values) for values in zip(*(one[:3] for one in parts), strict=True)]
        figure = " | ".join(f"{one:,}" for one in sums) if parts else "**none** | 0 | 0"
        lines.append(f"| {number} | {threat} | {holds} | {figure} |")
    lines += ["", "| # | shown by | tests | cases | passed | |", "|---|---|---|---|---|---|"]
    for (row, file), one in sorted(figures.items()):
        lines.append(f"| {row} | `{file}` | {one.tests} | {one.cases} | {one.passed} | {one.note} |")
    return "\n".join(lines)


def fill(document: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the document with its tables made anew."""
    if BEGIN not in document or END not in document:
        raise ValueError(f"no place for the table: it goes between the lines {BEGIN} and {END}")
    head, rest = document.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    return f"{head}{BEGIN}\n\n{render(counted(results, read(document)))}\n\n{END}{tail}"


def main(arguments: list[str]) -> int:
    """Fill the table of a document from the results of runs; return 1 when a row has no test or fails."""
    results, document = map(Path, arguments)
    text = fill(document.read_text(), json.loads(results.read_text()))
    document.write_text(text)
    figures = read(text)
    missing = sorted(THREATS.keys() - {row for row, _ in figures})
    failed = [f"{row} in {file}" for (row, file), one in figures.items() if one.passed != one.cases]
    for problem, rows in (("no test shows", missing), ("not every case passed of", failed)):
        if rows:
            sys.stderr.write(f"{document}: {problem} threat {', '.join(map(str, rows))}\n")
    return 1 if missing or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
