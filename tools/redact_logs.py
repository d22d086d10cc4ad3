"""Read a log without what stands before each message, so that a secret over several lines is seen whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_HEAD: Final = re.compile(
    rb"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,+-]{8,24}Z?|[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}(?:\.[0-9]+)?)"
    rb" [A-Za-z0-9_.-]{1,64} [A-Za-z0-9_./@:-]{1,64}(?:\[[0-9]+\])?: "
)
"""Time, host and program, as journalctl and syslog write them; no room in it for a secret."""

_LOOKED_AT: Final = 1 << 16


def mask_messages(data: bytes, mask: Callable[[bytes], bytes]) -> bytes:
    """Return ``data`` with its messages masked together; what stands before them stays."""
    first = _HEAD.search(data, 0, _LOOKED_AT)
    if first is None:
        return mask(data)
    heads: list[bytes] = []
    messages: list[bytes] = []
    for line in data.split(b"\n"):
        head = _HEAD.match(line)
        heads.append(head.group() if head else b"")
        messages.append(line[head.end() :] if head else line)
    clean = mask(b"\n".join(messages)).split(b"\n")
    return b"\n".join([head + message for head, message in zip(heads, clean, strict=True)])
