"""Find the files to compare and their packages; show, write and pack what came of it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from agent.config import Settings
from agent.errors import LeadlineError, UsageError
from evals.truth import compare, read, table, wheels
from evals.truth.compare import Outcome
from evals.truth.read import RecordFile

_BEGIN: Final = "<!-- written by `make truth` -->"
_END: Final = "<!-- end -->"


def compared(files: Sequence[Path], jobs: int | None, every: int, stream: IO[str]) -> list[Outcome]:
    """Compare these files, or every file of the cache; raise `UsageError` when there is none."""
    cache_dir = Settings().cache_dir
    found = list(files) or sorted((cache_dir / "truth").glob("*.jsonl.gz"))
    if not found:
        raise UsageError(
            "there are no records to compare with",
            do="make some: python -m evals.truth make sglang 0.5.11 --seed WORD",
        )
    pairs = []
    for path in found:
        held = read.read(path)
        site = wheels.source(held.engine, held.version, cache_dir, lambda text: _say(stream, text))
        pairs.append((held, site))

    def progress(done: int, total: int) -> None:
        _say(stream, f"compared {done} of {total} launch lines")

    return compare.compare(
        pairs,
        cache_dir / "truth" / "models",
        jobs=jobs or os.cpu_count() or 1,
        every=every,
        progress=progress,
    )


def _say(stream: IO[str], text: str) -> None:
    end = "" if stream.isatty() else "\n"
    stream.write(f"\r{text}\x1b[K{end}" if stream.isatty() else f"{text}{end}")
    stream.flush()


def shown(found: Sequence[Outcome], *, as_json: bool) -> str:
    """Return the answer: JSON, or the table with what a person looks at next."""
    if as_json:
        return json.dumps(table.as_json(found), indent=1, default=str) + "\n"
    return table.markdown(found) + table.details(found)


def write(found: Sequence[Outcome], path: Path) -> None:
    """Put the table between the marks of a Markdown file; what stands around them stays."""
    text = path.read_text("utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise LeadlineError(f"{path} has no place for the table", do=f"add the lines {_BEGIN} and {_END}")
    path.write_text(f"{before}{begin}\n\n{table.markdown(found)}\n{end}{after}", encoding="utf-8")


def pack(file: Path, out: Path, count: int) -> None:
    """Write some lines of a file, spread over it, as one compact object; at least one must be accepted."""
    held = read.read(file)
    step = max(1, len(held.records) // count)
    part = replace(held, records=_spread(held, step, count))
    data = json.dumps(read.compact(part), separators=(",", ":"), sort_keys=True).encode()
    out.write_bytes(gzip.compress(data, 9, mtime=0))


def _spread(held: RecordFile, step: int, count: int) -> tuple[read.Recorded, ...]:
    part = held.records[::step][:count]
    if not any(record.accepted for record in part):
        raise LeadlineError(f"{held.path}: none of these lines was accepted", do="take more with --lines")
    return part
