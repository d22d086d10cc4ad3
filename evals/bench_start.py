"""Measure how fast the command line starts: help against an empty Typer program, version against ``pass``."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HELP_LIMIT = 1.3
VERSION_LIMIT_S = 0.1
_ROUNDS = 9
_EMPTY = """
import typer
app = typer.Typer()
@app.callback()
def root() -> None: "An empty program."
@app.command()
def one() -> None: "Do nothing."
app()
"""
_HEAVY = (
    *("langgraph", "openai", "asyncssh", "tree_sitter", "re2", "rich.live", "yaml", "httpx2"),
    *("pydantic", "asyncio", "sqlite3", "agent.config"),
)


def main() -> int:
    """Print the ratios and what was imported for the help text; return 1 when a limit is passed."""
    leadline = str(Path(sys.executable).with_name("leadline"))
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.py"
        empty.write_text(_EMPTY)
        base, ours = _paired([sys.executable, str(empty), "--help"], [leadline, "--help"])
        bare, version = _paired([sys.executable, "-c", "pass"], [leadline, "--version"])
    heavy = _imported_by_help()
    print(
        f"start: --help {ours / base:.2f} x an empty Typer program ({ours * 1000:.0f} ms), limit {HELP_LIMIT}"
    )
    print(f"start: --version {version - bare:+.3f} s over `python -c pass`, limit {VERSION_LIMIT_S}")
    print(f"start: heavy modules imported by --help: {', '.join(heavy) or 'none'}")
    return int(ours / base > HELP_LIMIT or version - bare > VERSION_LIMIT_S or bool(heavy))


def _paired(first: list[str], second: list[str]) -> tuple[float, float]:
    """Return the median seconds of two commands run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for command, spent in zip((first, second), times, strict=True):
            began = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            spent.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def _imported_by_help() -> list[str]:
    code = "import sys; sys.argv=['leadline', '--help']\nfrom agent.surfaces.main import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += "print('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    return [name for name in _HEAVY if name in loaded]


if __name__ == "__main__":
    sys.exit(main())
