"""Rate the answer to a question: its table, its words, its claims, and how many turns it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from evals.case_question import Wanted
from evals.findings import Findings
from evals.patterns import found_in

LONGEST: Final = 1_000
"""Characters of a summary that still answers one question; the longest of our runs has 449."""


def wrong(wanted: Wanted, found: Findings, hosts: int) -> Iterator[str]:
    """Yield what is not as the case wants it, a phrase each; a table of everything is no answer either."""
    conclusion = found.conclusion
    if conclusion is None:
        yield "there is no answer"
        return
    table = conclusion.table
    rows = [" | ".join(row) for row in table.rows] if table else []
    yield from _of_rows(wanted, rows)
    if len(rows) > (most := len(wanted.rows) + 2 * hosts):
        yield f"the table has {len(rows)} rows, and {most} are plenty"
    if len(conclusion.summary) > LONGEST:
        yield f"the summary has {len(conclusion.summary):,} characters, and {LONGEST:,} are plenty"
    told = "\n".join([conclusion.summary, conclusion.next_step, *rows])
    yield from (
        f"the summary does not say {one!r}" for one in wanted.says if not found_in(one, conclusion.summary)
    )
    yield from (f"it says {one!r}" for one in wanted.not_says if found_in(one, told))
    unverified = [check for check in found.checks if check.status == "unverified"]
    if unverified:
        yield f"{len(unverified)} claims are not verified: {unverified[0].why}"
    if found.totals.turns > wanted.turns:
        yield f"it took {found.totals.turns} turns, not {wanted.turns}"


def _of_rows(wanted: Wanted, rows: Sequence[str]) -> Iterator[str]:
    for pattern in wanted.rows:
        if not any(found_in(pattern, row) for row in rows):
            yield f"no row has {pattern!r}"
    for pattern in wanted.no_rows:
        yield from (f"a row has {pattern!r}: {row[:120]}" for row in rows if found_in(pattern, row))
