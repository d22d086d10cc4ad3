"""The entry point: answer ``--version`` at once, and turn errors into one line and an exit code."""

from __future__ import annotations

import errno
import gc
import os
import sys

import agent

_DISK = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EIO,
    errno.EFBIG,
}
_PLACES = {errno.ENOENT, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""What a place that was named on the command line can cause; at any other place it is a fault of ours."""


def main() -> None:
    """Run the command line; exit with a code of ``docs/cli.md``."""
    _fill_closed_streams()
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"leadline {agent.__version__}\n")
        return
    if sys.argv[1:2] in (["-p"], ["--print"]):
        sys.argv[1] = "ask"
    collect_less()
    from agent.errors import ExitCode, LeadlineError
    from agent.surfaces.cli import app

    try:
        app()
    except SystemExit:  # how every command ends; what follows loads more to look at an error
        raise
    except LeadlineError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; what was gathered is kept: `leadline sessions list`", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(ExitCode.ERROR) from None
    except _disk_errors() as error:
        _fail(_disk_line(error), ExitCode.ERROR)


def _fill_closed_streams() -> None:
    """Put nothing in place of a standard stream that was closed before the start, as by ``<&-``."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def collect_less() -> None:
    """Look for garbage less often: what is only just loaded is none, and to look takes a tenth of a start."""
    gc.set_threshold(20_000, 20, 20)


def _disk_errors() -> tuple[type[Exception], ...]:
    """Return what a full or forbidden disk raises; sqlite3 is loaded only when something failed."""
    import sqlite3

    return (OSError, sqlite3.OperationalError)


def _disk_line(error: Exception) -> str:
    """Return the line for a disk that cannot be used; raise any other error again."""
    name = getattr(error, "filename", None)
    if isinstance(error, OSError) and error.errno in _PLACES and _was_named(name):
        return f"cannot use {name}: {error.strerror}; name another place"
    if isinstance(error, OSError) and error.errno not in _DISK:
        raise error
    said = getattr(error, "strerror", None) or str(error)
    where = f"cannot use {name}: {said}" if name else f"cannot write: {said}"
    return f"{where}; make room or give rights there, or set LEADLINE_STATE_DIR and XDG_CACHE_HOME"


def _was_named(name: object) -> bool:
    """Tell whether a path, or the folder that it lies in, was given on the command line."""
    if not isinstance(name, str):
        return False
    given = [word.partition("=")[2] if word.startswith("--") else word for word in sys.argv[1:]]
    from pathlib import Path

    path = Path(name).absolute()
    return any(path.is_relative_to(Path(word).absolute()) for word in given if word)


def _fail(line: str, code: int) -> None:
    from agent.own_secrets import masked_as_given
    from agent.surfaces.console import write_fitted
    from tools.display import printable

    write_fitted(f"leadline: {printable(masked_as_given(line))}\n", sys.stderr)
    raise SystemExit(int(code))
