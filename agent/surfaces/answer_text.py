"""Say a conclusion, a change and a comparison as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from agent.state import Change, Conclusion, LevelComparison
from tools.display import printable


def seconds(spent: float) -> str:
    """Return a time as a person reads it."""
    if spent < 10:
        return f"{spent:.1f} s"
    return f"{spent:.0f} s" if spent < 120 else f"{spent // 60:.0f} min {spent % 60:.0f} s"


def level_line(level: LevelComparison) -> str:
    """Return one row of a comparison as a person reads it."""
    head = f"concurrency {level.concurrency}: "
    if level.ratio is None or level.before is None or level.after is None:
        return f"{head}{level.verdict.replace('_', ' ')} ({level.why})"
    text = f"{head}{level.before:.1f} -> {level.after:.1f} tok/s, x{level.ratio:.2f}"
    if level.low is not None and level.high is not None:
        text += f" [{level.low:.2f}, {level.high:.2f}]"
    return f"{text}: {level.verdict.replace('_', ' ')}"


def edit(change: Change) -> str:
    """Return a change as a person would say it."""
    before, after = change.from_value, change.to_value
    if after is None:
        return f"take {change.setting}{_value(before)} out of {change.unit}"
    instead = f" instead of {before}" if before not in (None, "true") else ""
    return f"set {change.setting}{_value(after)}{instead} in {change.unit}"


def _value(value: str | None) -> str:
    return "" if value in (None, "true") else f" {value}"


def answer(
    conclusion: Conclusion,
    case_files: list[str],
    changes: Sequence[Change] = (),
    width: int | None = None,
) -> str:
    """Return the answer as a person reads it on stdout; ``width`` is that of a terminal, for its table."""
    parts = [f"{conclusion.outcome}: {conclusion.summary}"]
    if conclusion.table is not None:
        parts.append(indent(conclusion.table.text(width - 4 if width is not None else None).rstrip(), "    "))
    named = [change for change in changes if change.id in conclusion.changes]
    if named:
        rows = [
            f"- {change.id}: {edit(change)}\n  {change.reason}\n  Expected: {change.predicted_effect}"
            for change in named
        ]
        parts.append("Changes, in this order:\n" + "\n".join(rows))
    if conclusion.inherent:
        parts.append("Limits no setting changes:\n" + "\n".join(f"- {text}" for text in conclusion.inherent))
    if conclusion.next_step:
        parts.append(f"Next: {conclusion.next_step}")
    beside = [name.rpartition("/")[2] for name in case_files[1:]]
    more = f" (beside it: {', '.join(beside)})" if beside else ""
    if case_files:
        parts.append(f"Case file: {case_files[0]}{more}")
    return printable("\n\n".join(parts)) + "\n"
