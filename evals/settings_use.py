"""Measure what the tool `settings` saves the built-in model: turns and text with it, and with `grep` alone.

``python -m evals.settings_use --rows FILE CASE ...`` works on each case twice from scratch, one after the
other, every run on a lab of its own, and adds a row a case to FILE; cases that FILE has are passed over.
``--write`` puts the table of FILE into ``docs/settings.md``. Text is what a model was shown and wrote: the
UTF-8 bytes of all messages, over 4.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from agent.config import Settings, load_settings, pin_libraries
from agent.events import Event, Started, ToolFinished, TurnTaken, UserMessage
from agent.models.playbook import PlaybookModel
from agent.session import Session
from agent.state import Record
from evals import case
from evals.cpu import Meter
from evals.score import score
from evals.solve import lab_host, work
from tools.artifacts import ArtifactStore
from tools.contract import Tool

Way = Literal["settings", "grep"]
WAYS: Final[tuple[Way, ...]] = ("grep", "settings")
CASES: Final = (
    "founding",
    "founding-twin",
    "founding-fixed",
    "dropin-hides-flag",
    "capture-fails",
    "log-injection",
    "native-attention-eager",
    "stale-graph-flag-tp8",
    "admission-above-graphs",
    "hybrid-overlap-off",
    "launcher-eager-glm",
    "speculative-admission",
    "eager-needed-sm120",
    "depth-outputs",
    "prefill-server",
    "radix-off-on-purpose",
)
"""Cases in which the built-in model reads source."""
DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "settings.md"
BEGIN, END = "<!-- python -m evals.settings_use -->\n", "<!-- end -->\n"
_BYTES: Final = 4
"""Bytes that count as one token of text."""


class Spent(Record):
    """Hold what one run took."""

    turns: int
    tokens: int
    source_turns: int
    """Turns that read source, by a search or by `settings`."""
    source_tokens: int
    """What was written to read it, and shown of it."""
    wall_s: float
    success: float


class Row(Record):
    """Hold one case, worked on in both ways."""

    case: str
    grep: Spent
    settings: Spent


def spent(events: Sequence[Event], wall_s: float, success: float) -> Spent:
    """Count turns and text of a transcript."""
    text = turns = reading_text = 0
    reading: set[int] = set()
    for event in events:
        match event:
            case Started(symptom=said) | UserMessage(text=said) if said:
                text += _size(said)
            case TurnTaken():
                turns += 1 if event.turn else 0  # turn 0 is the orientation, which no model asks for
                text += _size(event.text) + sum(_size(call.arguments) for call in event.tool_calls)
                for call in event.tool_calls:
                    if call.name in ("grep", "settings"):
                        reading.add(event.turn)
                        reading_text += _size(call.arguments)
            case ToolFinished():
                text += _size(event.view)
                reading_text += _size(event.view) if event.tool in ("grep", "settings") else 0
            case _:
                pass
    return Spent(
        turns=turns,
        tokens=text // _BYTES,
        source_turns=len(reading),
        source_tokens=reading_text // _BYTES,
        wall_s=round(wall_s, 1),
        success=success,
    )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


async def measured(name: str, way: Way, settings: Settings) -> Spent:
    """Work on a case from scratch with the tools of one way."""
    wanted = case.load(name)
    async with lab_host(wanted.scenario, settings, Meter()) as host:
        began = time.monotonic()
        session = Session.start(
            settings,
            PlaybookModel(),
            {host.name: host},
            wanted.symptom,
            wanted.mode,
            scenario=wanted.scenario,
            tools=_tools(settings, way),
        )
        await work(session)
        took = time.monotonic() - began
    rating = score(wanted, session.events, ArtifactStore(session.folder / "artifacts"))
    return spent(session.events, took, float(rating.success))


def _tools(settings: Settings, way: Way) -> Mapping[str, Tool[Any]]:
    from tools.registry import load_all

    every = load_all(settings.tools)
    return every if way == "settings" else {name: one for name, one in every.items() if name != "settings"}


def rows_of(path: Path) -> list[Row]:
    """Return the rows that were measured so far."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return [Row.model_validate_json(line) for line in lines if line.strip()]


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table with their sums."""
    listed = list(rows)
    lines = [
        "| case | turns: grep alone | with `settings` | text: grep alone | with `settings` |"
        " of it, reading source: grep alone | with `settings` |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [_line(row.case, [row]) for row in listed]
    lines.append(_line(f"all {len(listed)}", listed))
    return "\n".join(lines) + "\n"


def _line(title: str, rows: Sequence[Row]) -> str:
    cells = []
    for key in ("turns", "tokens", "source_tokens"):
        for way in WAYS:
            cells.append(f"{sum(getattr(getattr(row, way), key) for row in rows):,}")
    return f"| {title} | {' | '.join(cells)} |"


def write(rows: Sequence[Row], document: Path = DOCUMENT) -> None:
    """Put the table into the document, in place of the one there."""
    text = document.read_text()
    part = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    document.write_text(part.sub(lambda found: BEGIN + table(rows) + END, text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the cases named, or all; return 1 when `settings` took more turns or text in all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rows", type=Path, required=True, help="file to add the rows to")
    parser.add_argument("--write", action="store_true", help="put the table into docs/settings.md")
    asked = parser.parse_args(arguments)
    pin_libraries()
    done = {row.case for row in rows_of(asked.rows)}
    with tempfile.TemporaryDirectory(prefix="leadline-settings-use-") as folder:
        settings = load_settings().model_copy(update={"state_dir": Path(folder)})
        tools = settings.tools.model_copy(update={"allow_load": True})
        settings = settings.model_copy(update={"tools": tools})
        for name in (name for name in asked.cases if name not in done):
            found = {way: asyncio.run(measured(name, way, settings)) for way in WAYS}
            row = Row(case=name, grep=found["grep"], settings=found["settings"])
            with asked.rows.open("a") as file:
                file.write(row.model_dump_json() + "\n")
            sys.stdout.write(json.dumps(row.model_dump()) + "\n")
            sys.stdout.flush()
    rows = rows_of(asked.rows)
    if asked.write:
        write(rows)
    sums = {
        way: [sum(getattr(getattr(row, way), key) for row in rows) for key in ("turns", "tokens")]
        for way in WAYS
    }
    return 0 if all(a < b for a, b in zip(sums["settings"], sums["grep"], strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
