"""Count every release of the engines and write the table: ``python -m evals.releases`` (nightly; an hour)."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from agent.config import Settings
from agent.errors import LeadlineError
from evals.releases import counting, fetch, table
from evals.releases.pins import SAMPLE

FIRST = {"sglang": (0, 4), "vllm": (0, 6)}
"""The first release of each engine that is counted."""
AHEAD = 3
"""Releases that are fetched while one is counted."""
KEEP = 240
"""Packages that stay in the cache, some 30 MB each; what is fetched beyond goes when it is counted."""
TABLE = Path(__file__).parents[2] / "docs" / "settings-releases.md"


def main() -> int:
    """Count, write the table, and return 1 when something of a release is missing or wrong."""
    asked = argparse.ArgumentParser(prog="python -m evals.releases", description=__doc__)
    asked.add_argument(
        "--engine", choices=sorted(FIRST), action="append", help="only this engine; the others' counts stay"
    )
    asked.add_argument("--output", type=Path, default=TABLE, help="the table; by default the committed one")
    given = asked.parse_args()
    cache = Settings().cache_dir
    try:
        interpreter = counting.interpreter(cache)
        rows = [row for engine in given.engine or FIRST for row in _rows(engine, cache, interpreter)]
    except LeadlineError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(error.exit_code)
    before = given.output.read_text() if given.output.is_file() else ""
    given.output.write_text(table.render(rows, before))
    bad = [row for row in rows if not row.good]
    sys.stdout.write(f"{len(rows)} releases, {len(bad)} with something missing or wrong: {given.output}\n")
    return 1 if bad else 0


def _rows(engine: str, cache: Path, interpreter: Path) -> Iterator[table.Row]:
    """Yield the counts of every release, oldest first, the next ones being fetched meanwhile."""
    found = fetch.releases(engine)
    wanted = sorted((fetch.order(v) for v in found if fetch.order(v)[0][:2] >= FIRST[engine]), reverse=True)
    waiting: list[tuple[fetch.Release, Future[Path]]] = []
    with ThreadPoolExecutor(AHEAD) as pool:
        while wanted or waiting:
            while wanted and len(waiting) < AHEAD:
                release = found[wanted.pop()[1]]
                waiting.append((release, pool.submit(fetch.fetch, release, cache, lambda text: None)))
            release, coming = waiting.pop(0)
            yield _row(release, coming, interpreter)
            _clear(cache, release)


def _row(release: fetch.Release, coming: Future[Path], interpreter: Path) -> table.Row:
    try:
        row = counting.count(release.engine, release.version, coming.result(), interpreter)
    except LeadlineError as error:
        row = table.Row(release.engine, release.version, failed=error.what)
    sys.stderr.write(f"{row.engine} {row.version}: {row.says}\n")
    return row


def _clear(cache: Path, release: fetch.Release) -> None:
    """Remove a package that is counted, where there are more than may stay."""
    kept = sum(1 for _ in (cache / "packages").iterdir())
    if kept > KEEP and (release.engine, release.version) not in SAMPLE:
        shutil.rmtree(fetch.folder_of(release, cache), ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
