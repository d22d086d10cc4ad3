"""Write the table of configuration classes that the interpreter asks: ``python -m evals.model_classes``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.model_classes_read import Release
from tools.interpreter.library.model_classes import FILE, PARTS, positions, sorted_versions
from tools.interpreter.library.model_classes_file import pack


def table(releases: Iterable[Release]) -> str:
    """Return the table: what releases have in common is held once, with the positions of its releases."""
    known = {release.version: release for release in releases}
    versions = sorted_versions(known)
    parts: dict[str, dict[tuple[str, str], list[int]]] = {part: {} for part in PARTS}
    for position, version in enumerate(versions):
        for part, held in told_of(known[version]).items():
            for name, record in held.items():
                parts[part].setdefault((name, json.dumps(record, separators=(",", ":"))), []).append(position)
        sys.stderr.write(f"{version}\n")
    lines = [
        "\t".join((part, name, positions(at), told))
        for part, held in parts.items()
        for (name, told), at in sorted(held.items(), key=lambda row: (row[0][0], row[1]))
    ]
    return "\n".join((" ".join(versions), *lines)) + "\n"


def told_of(release: Release) -> dict[str, Mapping[str, Any]]:
    """Return the parts of the table for one release."""
    classes, functions = release.records()
    return {"types": release.types(), "classes": classes, "functions": functions, "traits": release.traits()}


def main(argv: Sequence[str] | None = None) -> int:
    """Read releases and write the table."""
    parser = argparse.ArgumentParser(prog="python -m evals.model_classes", description=__doc__)
    parser.add_argument(
        "--transformers",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="a folder that holds transformers/ and its *.dist-info; may be repeated",
    )
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}; else only say its size")
    options = parser.parse_args(argv)
    data = pack(table(map(Release, options.transformers)))
    if options.write:
        FILE.write_bytes(data)
    sys.stdout.write(f"{FILE.name}: {len(data)} bytes{'' if options.write else ' (not written)'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
