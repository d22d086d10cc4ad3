"""The one command that asks an engine's own argument class, and the rule that lets just this one run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tools.policy import Decision

START: Final = (
    'exec env -i "LEADLINE_RUN=${LEADLINE_RUN-}" LC_ALL=C.UTF-8 CUDA_VISIBLE_DEVICES='
    ' PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"'
)
"""Nothing of the account's environment goes in, and CUDA sees no device; the mark stays, to end it by."""
CONSENT: Final = (
    "trying a launch line in the engine's own interpreter runs the engine's code and needs the site's "
    "consent: LEADLINE_TOOLS__ASK_ENGINE=true, or `ask_engine = true` under [tools]"
)
_PART = r"[A-Za-z0-9_+@][A-Za-z0-9_.+@-]*"
_DOTTED_PART = r"\.?" + _PART
_INTERPRETER = re.compile(rf"/(?:{_DOTTED_PART}/)*(?:python|pypy)[0-9.]*")
_LIBRARIES = re.compile(rf"LD_LIBRARY_PATH=(?:(?:/{_DOTTED_PART})+/?:*)+")


@cache
def program() -> str:
    """Return the text that the interpreter on the host runs."""
    return (Path(__file__).parent / "settings" / "ask_program.py").read_text(encoding="utf-8")


def question_argv(interpreter: str, library_path: str | None = None) -> list[str]:
    """Return the argv that asks; the launch line itself goes in by standard input."""
    libraries = [f"LD_LIBRARY_PATH={library_path}"] if library_path else []
    return ["sh", "-c", START, "ask", *libraries, interpreter, "-I", "-B", "-c", program()]


def judge_question(argv: Sequence[str], *, consent: bool) -> Decision:
    """Return whether a command that asks an engine may run: only this one, only with the site's consent."""
    words = tuple(argv)
    rest = words[4:]
    if words[:4] != ("sh", "-c", START, "ask") or rest[-4:] != ("-I", "-B", "-c", program()):
        return Decision("refuse", "this is not the command that asks an engine", (words,))
    before = rest[:-4]
    if len(before) == 2 and _LIBRARIES.fullmatch(before[0]):
        before = before[1:]
    if len(before) != 1 or not _INTERPRETER.fullmatch(before[0]):
        return Decision(
            "refuse", f"{' '.join(before)[:200] or 'nothing'} is not a plain path of a Python", (words,)
        )
    if not consent:
        return Decision("ask", CONSENT, (words,))
    return Decision("allow", "asks the engine's own argument class", (words,), direct=True)
