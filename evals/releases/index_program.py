"""Print where pip would download every release of one package from: ``python index_program.py NAME OPTIONS``.

Run as a program of its own: pip alone knows the index and its settings, and has no supported way to ask.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> int:
    """Print one JSON object: version to ``[url, sha256]`` of its best wheel."""
    from pip._internal.cli.cmdoptions import make_target_python
    from pip._internal.commands import create_command

    name, *options = sys.argv[1:]
    command: Any = create_command("download")
    with command.main_context():
        chosen, _ = command.parse_args([*options, name])
        session = command.get_default_session(chosen)
        finder = command._build_package_finder(chosen, session, make_target_python(chosen))
        finder._ignore_requires_python = True
        found: dict[str, list[str]] = {}
        for candidate in finder.find_all_candidates(name):
            digest = candidate.link.hash if candidate.link.hash_name == "sha256" else ""
            found.setdefault(str(candidate.version), [candidate.link.url_without_fragment, digest])
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
