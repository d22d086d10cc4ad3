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
    rb"([ \t]*(?:[+ -]?[ \t]*- )?(?:\"?value\"?[ \t]*:[ \t]*)?[\"']?)([^\s\"'\x00]{4,})([\"',\s]*)"
)


def mask_cuts(data: bytes) -> bytes:
    """Return ``data``, masked already, without what stands right beside a gap; the lines stay as many."""
    out: list[bytes] = []
    position = 0
    for gap in _GAP.finditer(data):
        if gap.start() < position:
            continue
        out += (_before(data[position : gap.start()]), gap.group())
        position = gap.end()
        cut, position = _after(data, position)
        out.append(cut)
    return b"".join((*out, data[position:]))


def _before(head: bytes) -> bytes:
    """Drop the last word before a gap, as far as half a secret may reach."""
    tail = head[-_REACH:]
    blanks = [match.end() for match in _BLANK.finditer(tail)]
    start = blanks[-1] if blanks else 0
    word = tail[start:]
    if not word or word.endswith(_CUT) or (MASKED_OPEN in word and word.endswith(b">")):
        return head
    return head[: len(head) - len(word)] + _CUT


def _after(data: bytes, position: int) -> tuple[bytes, int]:
    """Return what stands for the beginning of a text after a gap, and where the text goes on."""
    line_end = data.find(b"\n", position, position + _REACH)
    if line_end < 0:
        blank = _BLANK.search(data, min(position + _REACH, len(data)))
        return _CUT, blank.start() if blank else len(data)
    next_end = data.find(b"\n", line_end + 1, line_end + 1 + _REACH)
    line = data[line_end + 1 : next_end if next_end >= 0 else len(data)]
    lone = _LONE.fullmatch(line)
    if lone is None or harmless("password", "strong", lone[2].decode("latin-1"), assigned=False):
        return _CUT, line_end
    value = placeholder("secret", lone[2]) if MASKED_OPEN not in lone[2] else lone[2]
    return _CUT + b"\n" + lone[1] + value + lone[3], line_end + 1 + len(line)
