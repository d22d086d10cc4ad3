"""Run the command line in this process: what it prints and its exit code, without the start of another."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from unittest import mock


def leadline(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``leadline WORDS``, errors turned into lines and codes as its entry point does."""
    from agent.surfaces.main import main

    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        mock.patch.object(sys, "argv", ["leadline", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as left:
            code = left.code
    status = code if isinstance(code, int) else 0 if code is None else 1
    return subprocess.CompletedProcess(list(words), status, out.getvalue(), err.getvalue())
