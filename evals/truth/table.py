"""Show how comparisons came out: a table of releases, tables of the worst settings, JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from evals.truth.compare import Difference, Outcome

_HEAD = (
    "| engine | version | launch lines | accepted or refused: agree, wrong, unknown "
    "| settings x lines | agree | wrong | unknown |"
)
_RULE = "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
_SHOWN = 15
_NUMBER = re.compile(r"\d+")


def order(outcome: Outcome) -> tuple[str, list[int]]:
    """Return a key that sorts releases as they came."""
    return outcome.engine, [int(part) for part in _NUMBER.findall(outcome.version)]


def merged(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return one outcome a release, oldest first."""
    found: dict[tuple[str, str], Outcome] = {}
    for one in outcomes:
        key = one.engine, one.version
        found.setdefault(key, Outcome(*key)).add(one)
    return sorted(found.values(), key=order)


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the table of releases, with all of each engine at the end."""
    releases = merged(outcomes)
    rows = [_row(one, one.version) for one in releases]
    for engine in dict.fromkeys(one.engine for one in releases):
        total = Outcome(engine, "")
        for one in releases:
            if one.engine == engine:
                total.add(one)
        rows.append(_row(total, "all"))
    return "\n".join([_HEAD, _RULE, *rows]) + "\n"


def _row(one: Outcome, version: str) -> str:
    said = ", ".join(str(one.refusals[mark]) for mark in ("agree", "wrong", "unknown"))
    cells = (
        *(one.engine, version, f"{one.lines} ({one.refused} refused)", said, f"{one.pairs.total():,}"),
        *(f"{one.share('agree'):.2%}", f"{one.pairs['wrong']:,}", f"{one.share('unknown'):.2%}"),
    )
    return f"| {' | '.join(cells)} |"


def worst(outcome: Outcome) -> str:
    """Return the settings of one release that are wrong or unknown most often."""
    wrong = Counter(one.name for one in outcome.wrong)
    names = sorted(set(wrong) | set(outcome.unknown), key=lambda n: (-wrong[n], -outcome.unknown[n], n))
    if not names:
        return ""
    lines = ["| setting | wrong | unknown | for example |", "| --- | ---: | ---: | --- |"]
    for name in names[:_SHOWN]:
        lines.append(
            f"| `{name}` | {wrong[name]} | {outcome.unknown[name]} | {_example(name, outcome.wrong)} |"
        )
    return "\n".join(lines) + "\n"


def _example(name: str, wrong: Sequence[Difference]) -> str:
    for one in wrong:
        if one.name == name:
            text = f"{one.ident}: {_short(one.ours)}, recorded {_short(one.recorded)}"
            return text.replace("|", "\\|")
    return ""


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def details(outcomes: Sequence[Outcome]) -> str:
    """Return what a person looks at next: the worst settings, misjudged lines, what was missing."""
    parts = []
    for one in merged(outcomes):
        parts.append(f"\n{one.engine} {one.version}: {one.seconds / max(one.lines, 1):.2f} s a line")
        parts.append(f"{one.drawn} values drawn at random count as right because they are unknown")
        if one.missed:
            parts.append(f"{one.missed} unknown values whose alternatives lack the recorded one")
        parts += [text for text in (worst(one),) if text]
        parts += [f"misjudged: {text}" for text in one.misjudged[:_SHOWN]]
        parts += [f"missing {count} times: {need}" for need, count in one.needs.most_common(_SHOWN)]
    return "\n".join(parts) + "\n"


def as_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return every figure, each wrong pair included."""
    return [
        {
            "engine": one.engine,
            "version": one.version,
            "lines": one.lines,
            "refused": one.refused,
            "refusals": dict(one.refusals),
            "pairs": dict(one.pairs),
            "drawn": one.drawn,
            "alternatives_missed": one.missed,
            "wrong": [
                {"line": d.ident, "setting": d.name, "recorded": d.recorded, "ours": d.ours}
                for d in one.wrong
            ],
            "unknown_by_setting": dict(one.unknown.most_common()),
            "missing": dict(one.needs.most_common()),
            "misjudged": one.misjudged,
            "seconds": round(one.seconds, 3),
        }
        for one in merged(outcomes)
    ]
