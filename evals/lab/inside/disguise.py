"""Run a described service, or a child of one, under the command line and program name of the real thing.

A Python program cannot be started with another program's arguments, so it is started with as many bytes of
arguments and writes the real ones over them: ``/proc/PID/cmdline``, ``exe`` and ``comm`` are then right.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

_BASE = ("/run/lab/p", "-IS", "/run/lab/d")
"""The shortest command line that runs `main`: see ``layout.py`` for the three paths."""
_FD = 3
_PR_SET_PDEATHSIG = 1
_PROGRAMS = Path("/run/lab/exe")


def _bytes(argv: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in argv)


def _prepared(argv: Sequence[str], serve: bool) -> tuple[list[str], int]:
    """Return a command line as long as ``argv`` (or a little longer) and the descriptor that holds it."""
    left = len(_bytes(argv)) - len(_bytes(_BASE))
    words = [*_BASE, *(["x" * (left - 1)] if left > 0 else [])]
    descriptor = os.memfd_create("lab-argv", 0)
    os.write(descriptor, json.dumps({"argv": list(argv), "serve": serve}).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return words, descriptor


def become(argv: Sequence[str]) -> None:
    """Turn this process into the service that ``argv`` names; return only when it cannot be."""
    words, descriptor = _prepared(argv, True)
    os.dup2(descriptor, _FD, inheritable=True)
    os.execv(_PROGRAMS / Path(argv[0]).name, words)


def start(argv: Sequence[str], exe: str = "") -> int:
    """Start a child that only sleeps under a command line, and ends with its parent; return its id."""
    words, descriptor = _prepared(argv, False)
    program = str(_PROGRAMS / (exe or Path(argv[0]).name))
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.dup2(descriptor, _FD, inheritable=True)
            os.execv(program, words)
        finally:
            os._exit(127)
    os.close(descriptor)
    return child


def _write_over(argv: Sequence[str]) -> None:
    """Write another command line over this process's own."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # arg_start and arg_end
    ctypes.memmove(begin, _bytes(argv)[: end - begin].ljust(end - begin, b"\0"), end - begin)


def main() -> int:
    """Take the real command line from descriptor 3, put it on, and serve or sleep."""
    with os.fdopen(_FD) as stream:
        told = json.load(stream)
    _write_over(told["argv"])
    if told["serve"]:
        from evals.lab.inside import engine

        return engine.serve(told["argv"])
    signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
