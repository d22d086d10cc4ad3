"""Leave no half of a secret where output was cut: what stands right beside a gap has lost its other half.

Half a token has no shape, and a value whose name was left out has no name. So the word before a gap goes, the
line after it goes, and so does a lone word on the line after that, whose name may have stood on the line
before. What was cut is said to be: a gap is told anyway.
"""

from __future__ import annotations

import re
from typing import Final

from tools.redact_marks import MASKED_OPEN, placeholder
from tools.redact_names import harmless

_GAP: Final = re.compile(rb"\n\[\.\.\. (?:[0-9]+ bytes|lines) left out \.\.\.\]\n")
SIGN: Final = b" left out ...]\n"
"""What a text with a gap holds."""

_CUT: Final = b"[cut]"
_REACH: Final = 4096
"""How far from a gap half a secret may reach."""

_BLANK: Final = re.compile(rb"[\s\"'\x00]")
_LONE: Final = re.compile(
    rb"([ \t]*(?:[+ -]?[ \t]*- )?(?:\"?value\"?[ \t]*:[ \t]*)?[\"']?)([^\s\"'\x00]{4,})([\"',\s\])}\\]*)"
)
_ENCODED: Final = re.compile(rb"([ \t]+[\w.-]+:[ \t]+)((?=[^\n]*[0-9])[A-Za-z0-9+/]{16,}={0,2})([ \t\r]*)")
"""A value of a Kubernetes secret, the head of which was left out."""


def mask_cuts(data: bytes) -> bytes:
    """Return ``data``, masked already, without what stands right beside a gap; the lines stay as many."""
    out: list[bytes] = []
    position = 0
    for gap in [*_GAP.finditer(data), None]:
        part = data[position : gap.start() if gap else len(data)]
        if position:
            part = _after(part)
        out += (_before(part), gap.group()) if gap else (part,)
        position = gap.end() if gap else len(data)
    return b"".join(out)


def mask_alone(line: bytes) -> bytes:
    """Return a line, masked already, that was read without those around it: a lone word in it goes."""
    return _line(line, lone=True)


def _before(part: bytes) -> bytes:
    """Drop the last word before a gap, as far as half a secret may reach."""
    tail = part[-_REACH:]
    blanks = [match.end() for match in _BLANK.finditer(tail)]
    word = tail[blanks[-1] if blanks else 0 :]
    if not word or word.endswith(_CUT) or (MASKED_OPEN in word and word.endswith(b">")):
        return part
    return part[: len(part) - len(word)] + _CUT


def _after(part: bytes) -> bytes:
    """Drop the line after a gap, and mask what may have lost the name that makes it a secret."""
    line_end = part.find(b"\n", 0, _REACH)
    if line_end < 0:
        blank = _BLANK.search(part, min(_REACH, len(part)))
        return _CUT + (part[blank.start() :] if blank else b"")
    lines = part[line_end + 1 : line_end + 1 + _REACH].split(b"\n")
    clean = b"\n".join([_line(lines[0], lone=True), *(_line(line, lone=False) for line in lines[1:])])
    return _CUT + b"\n" + clean + part[line_end + 1 + _REACH :]


def _line(line: bytes, *, lone: bool) -> bytes:
    """Mask a value that looks encoded, as in a Kubernetes secret, and a ``lone`` word."""
    parts = _ENCODED.fullmatch(line) or (_LONE.fullmatch(line) if lone else None)
    if parts is None or MASKED_OPEN in parts[2] or parts[2].endswith(b":"):
        return line
    if harmless("password", "strong", parts[2].decode("latin-1"), assigned=False):
        return line
    return parts[1] + placeholder("secret", parts[2]) + parts[3]
