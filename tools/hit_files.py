"""Mask the lines that a search found as they are masked in their whole files.

A line may hold a secret that only another line gives away: the value of a list item after ``- --api-key``,
the body of a private key. So the files of the hits are read, and a hit is shown as its line there, masked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from tools.contract import Host, Redactor
from tools.redact_cuts import mask_alone
from tools.search import Found, Hit

_FILES: Final = 200
_ALL_BYTES: Final = 16 << 20
_FILE_BYTES: Final = 1 << 20
_LIMIT_S: Final = 15.0
_SCRIPT: Final = """M=$1 B=$2; shift 2
for f; do printf '@@%s %s\\n' "$M" "$f"; [ ! -f "$f" ] || head -c "$B" -- "$f"; printf '\\n'; done"""


async def contents_around(host: Host, hits: Sequence[Hit], found: Found, root: str) -> dict[str, bytes]:
    """Return the contents of the files of hits that the search itself did not bring, as far as they fit."""
    paths = [path for path in dict.fromkeys(hit.path for hit in hits) if not path.endswith(".py")]
    wanted = [path for path in paths if path not in found.contents][:_FILES]
    if not wanted:
        return {}
    nonce = uuid.uuid4().hex
    result = await host.exec(
        ["sh", "-c", _SCRIPT, "around", nonce, str(_FILE_BYTES), *(root + path for path in wanted)],
        timeout_s=_LIMIT_S,
        max_bytes=2 * min((_FILE_BYTES + 4096) * len(wanted), _ALL_BYTES),
        retry=True,
    )
    contents: dict[str, bytes] = {}
    for part in (b"\n" + result.stdout.head).split(f"\n@@{nonce} ".encode())[1:]:
        name, _, body = part.partition(b"\n")
        contents[name.decode("utf-8", "surrogateescape").removeprefix(root)] = body
    return contents


class Masked:
    """Give each hit its text as it may be shown."""

    def __init__(self, redact: Redactor, clean: Redactor, contents: Mapping[str, bytes]) -> None:
        """Take the contents by path; ``clean`` masks a whole file, and keeps that for the next search."""
        self._redact = redact
        self._clean = clean
        self._contents = contents
        self._lines: dict[str, tuple[list[bytes], list[bytes]]] = {}

    def text(self, hit: Hit) -> bytes:
        """Return the line of a hit, masked by what its whole file says of it."""
        if hit.path not in self._contents:
            return self._alone(hit)
        if hit.path not in self._lines:
            raw = self._contents[hit.path]
            lines = raw.split(b"\n")
            clean = self._clean(raw)
            self._lines[hit.path] = lines, lines if clean is raw else clean.split(b"\n")
        raw_lines, clean_lines = self._lines[hit.path]
        number = hit.line - 1
        if number < len(raw_lines) and raw_lines[number].rstrip(b"\r") == hit.text:
            return clean_lines[number].rstrip(b"\r")
        return self._alone(hit)

    def _alone(self, hit: Hit) -> bytes:
        """Mask a line whose file could not be read around it: more than one that stands among its own."""
        clean = self._redact(hit.text)
        return clean if hit.path.endswith(".py") else mask_alone(clean)
