"""Write the table of configuration classes that the interpreter asks: ``python -m evals.model_classes``."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from evals.model_classes_read import Release
from tools.interpreter.library.model_classes import FILE, sorted_versions


def table(releases: Iterable[Release]) -> dict[str, Any]:
    """Return the table: what releases have in common is held once, with the positions of its releases."""
    known = {release.version: release for release in releases}
    versions = sorted_versions(known)
    parts: dict[str, dict[str, dict[str, list[int]]]] = {"types": {}, "classes": {}, "functions": {}, "traits": {}}
    for position, version in enumerate(versions):
        release = known[version]
        classes, functions = release.records()
        told_of = {"types": release.types(), "classes": classes, "functions": functions, "traits": release.traits()}
        for part, held in told_of.items():
            for name, record in held.items():
                told = json.dumps(record, sort_keys=False, separators=(",", ":"))
                parts[part].setdefault(name, {}).setdefault(told, []).append(position)
        sys.stderr.write(f"{version}: {len(classes)} classes\n")
    return {
        "versions": versions,
        **{
            part: {name: [[at, json.loads(told)] for told, at in variants.items()] for name, variants in sorted(held.items())}
            for part, held in parts.items()
        },
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Read releases and write the table."""
    parser = argparse.ArgumentParser(prog="python -m evals.model_classes", description=__doc__)
    parser.add_argument("--transformers", type=Path, action="append", required=True, metavar="DIR",
                        help="a folder that holds transformers/ and its *.dist-info; may be repeated")  # fmt: skip
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}; else only say its size")
    options = parser.parse_args(argv)
    data = gzip.compress(
        json.dumps(table(map(Release, options.transformers)), separators=(",", ":")).encode(), 9, mtime=0
    )
    if options.write:
        FILE.write_bytes(data)
    sys.stdout.write(f"{FILE.name}: {len(data)} bytes{'' if options.write else ' (not written)'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
