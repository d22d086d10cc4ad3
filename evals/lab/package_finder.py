"""Print where pip would download a wheel from: ``python package_finder.py NAME VERSION OPTIONS``.

Run as a program of its own. Before 23.3 pip has no supported way to ask: its dry run downloads the wheel.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> int:
    """Print one JSON object with ``url`` and ``sha256``; pip's settings of index, proxy and keys hold."""
    from pip._internal.cli.cmdoptions import make_target_python
    from pip._internal.commands import create_command
    from pip._vendor.packaging.specifiers import SpecifierSet

    name, version, *options = sys.argv[1:]
    command: Any = create_command("download")
    with command.main_context():
        chosen, _ = command.parse_args([*options, f"{name}=={version}"])
        session = command.get_default_session(chosen)
        finder = command._build_package_finder(chosen, session, make_target_python(chosen))
        best = finder.find_best_candidate(name, SpecifierSet(f"=={version}")).best_candidate
    if best is None:
        return 1
    digest = best.link.hash if best.link.hash_name == "sha256" else ""
    sys.stdout.write(json.dumps({"url": best.link.url_without_fragment, "sha256": digest}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
