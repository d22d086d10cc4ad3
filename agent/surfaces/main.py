"""The entry point: answer ``--version`` at once, and turn errors into one line and an exit code."""

from __future__ import annotations

import sys

import agent


def main() -> None:
    """Run the command line; exit with a code of ``docs/cli.md``."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"leadline {agent.__version__}\n")
        return
    from agent.errors import ExitCode, LeadlineError
    from agent.surfaces.cli import app

    try:
        app()
    except LeadlineError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; what was gathered is kept: `leadline sessions list`", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(ExitCode.ERROR) from None


def _fail(line: str, code: int) -> None:
    sys.stderr.write(f"leadline: {line}\n")
    raise SystemExit(int(code))
