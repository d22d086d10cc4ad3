"""Write the counts of releases as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evals.releases.compare import Counted

_HEAD = """# Settings found in every release

`make releases` wrote this file. For each release the modules that define its settings were run with stand-ins
for every other module, and what `dataclasses`, `msgspec` and `argparse` then show was counted: fields of the
settings class, option strings of the parser, fields of the sections of `VllmConfig`, declared environment
variables. Against that stands what `tools/settings/define.py` finds in the source without running any of it.

*missing*: shown by the release and not found. *wrong*: a default or choices said to be known, and not those
of the release. *open*: a default that the release shows and that is left open. *beyond*: an option string
found that the parser does not take. *all*: definitions found, with the variables that are read anywhere in
the package.
"""


_PART = re.compile(r"^## (\S+): (.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Row:
    """Hold the counts of one release, or why it could not be counted."""

    engine: str
    version: str
    counted: Counted | None = None
    cpu_ms: int = 0
    found: int = 0
    failed: str = ""

    @property
    def good(self) -> bool:
        """Tell whether nothing is missing or wrong."""
        counted = self.counted
        return counted is not None and not (counted.missing or counted.wrong or counted.beyond)

    @property
    def says(self) -> str:
        """Return the counts in one line."""
        if self.counted is None:
            return self.failed
        c = self.counted
        listed = "; ".join([*c.missing, *c.wrong, *c.beyond][:6])
        counts = f"{c.shown} shown, {len(c.missing)} missing, {len(c.wrong)} wrong, {len(c.beyond)} beyond"
        return f"{counts}: {listed}" if listed else counts


def render(rows: Sequence[Row], before: str = "") -> str:
    """Return the table; parts of ``before`` stay for engines that were not counted."""
    parts = {name: f"## {name}: {text.rstrip()}\n" for name, text in _PART.findall(before)}
    for engine in dict.fromkeys(row.engine for row in rows):
        parts[engine] = _part(engine, [row for row in rows if row.engine == engine])
    return "\n".join([_HEAD, *parts.values()])


def _part(engine: str, rows: Sequence[Row]) -> str:
    counted = [row.counted for row in rows if row.counted is not None]
    total = sum(each.shown for each in counted)
    lines = [
        f"## {engine}: {len(rows)} releases",
        "",
        f"{total} shown in all: {_sum(counted, 'missing')} missing, {_sum(counted, 'wrong')} wrong, "
        f"{_sum(counted, 'unknown')} left open, {_sum(counted, 'beyond')} beyond; "
        f"{len(rows) - len(counted)} releases could not be counted.",
        "",
        "| release | fields | options | sections | variables | missing | wrong | open | beyond | all |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*lines, *(_line(row) for row in rows), ""])


def _sum(counted: Sequence[Counted], name: str) -> int:
    return sum(len(getattr(each, name)) for each in counted)


def _line(row: Row) -> str:
    c = row.counted
    if c is None:
        return f"| {row.version} | {row.failed} |"
    numbers = [c.fields, c.options, c.sections, c.variables, len(c.missing), len(c.wrong), len(c.unknown)]
    return f"| {row.version} | " + " | ".join(map(str, [*numbers, len(c.beyond), row.found])) + " |"
