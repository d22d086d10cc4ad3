"""Bring files of a package from a host in one command: the script's words, and what it sends back."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Literal

MAX_SENT: Final = 12 << 20
"""Bytes of files that one command sends, before compression."""
MAX_UNPACKED: Final = 48 << 20
"""More than this out of one answer is not a package's files."""
MAX_KNOWN: Final = 3000
"""Digests that one command names as known here."""
Sent = Literal["sent", "known", "big", "over"]
_SENT: Final[dict[str, Sent]] = {"1": "sent", "0": "known", "big": "big", "over": "over"}


@dataclass(frozen=True, slots=True)
class FileRow:
    """Hold what a host says of one file that was asked for."""

    path: str
    sha256: str
    """Empty where the host has no ``sha256sum``."""
    size: int
    sent: Sent


@dataclass(slots=True)
class Frames:
    """Hold what one command brought."""

    rows: list[FileRow] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    paths: list[str] | None = None
    """Every Python file of the package, when that was asked."""
    problem: str = ""
    """Why nothing came."""


@cache
def script() -> str:
    """Return the part of the script that sends files."""
    return Path(__file__).with_name("fetch.sh").read_text()


@cache
def opening() -> str:
    """Return the first lines of every script that sends files: its mark, its limit, what is asked for."""
    return "MARK=@@$3 LIMIT=$4\nasked=$(cat)\n"


def argv(mark: str, package: str, root: str = "", limit: int = MAX_SENT) -> list[str]:
    """Return the command that sends files of one folder."""
    text = f"{opening()}ROOT=$2 PACKAGE=$2$1\nLC_ALL=C\nexport LC_ALL\n{script()}"
    return ["sh", "-c", text, "fetch", package, root, mark, str(limit)]


def asking(
    wanted: Iterable[str] = (),
    words: Iterable[str] = (),
    known: Iterable[str] = (),
    *,
    listing: bool = False,
) -> bytes:
    """Return standard input of the command: globs, words, sha256 of files that are here already."""
    lines = [f"W {glob}" for glob in wanted]
    lines += [f"G {word}" for word in words if word.strip() and "\n" not in word]
    lines += [f"H {digest[:16]}" for digest in list(dict.fromkeys(known))[:MAX_KNOWN]]
    lines += ["A"] if listing else []
    return ("\n".join(lines) + "\n").encode()


def decode(output: bytes, mark: str) -> Frames:
    """Take the last part of a script's output apart; files that came damaged are left out."""
    start = f"@@{mark} ".encode()
    _, found, rest = (b"\n" + output).partition(b"\n" + start)
    head, _, body = rest.partition(b"\n")
    words = head.decode("utf-8", "replace").split(" ", 1)
    if not found:
        return Frames(problem="the host sent no files")
    if words[0] == "link":
        return Frames(problem=f"{words[1]} is a link out of the process's root")
    if words[0] == "closed":
        return Frames(problem=f"{words[1]} may not be read by this account")
    data = _unpacked(body) if words[-1] == "gzip" else body
    return _frames(data)


def _unpacked(body: bytes) -> bytes:
    unpacking = zlib.decompressobj(wbits=31)
    try:
        return unpacking.decompress(body, MAX_UNPACKED)
    except zlib.error:
        return b""


def _frames(data: bytes) -> Frames:
    head, _, content = data.partition(b"\n\n")
    if data.startswith(b"\n"):
        head, content = b"", data[1:]
    frames = Frames()
    for line in head.decode("utf-8", "backslashreplace").splitlines():
        if line.startswith("L "):
            frames.paths = frames.paths or []
            frames.paths.append(line[2:])
        elif line.startswith("F ") and (row := _row(line)) is not None:
            frames.rows.append(row)
    place = 0
    for row in frames.rows:
        if row.sent != "sent":
            continue
        part = content[place : place + row.size]
        place += row.size
        # A file may have changed between its digest and its content; then all that follows is shifted.
        if len(part) == row.size and row.sha256 in ("", hashlib.sha256(part).hexdigest()):
            frames.contents[row.path] = part
    return frames


def _row(line: str) -> FileRow | None:
    parts = line.split(" ", 4)
    if len(parts) != 5 or not parts[2].isdigit() or parts[3] not in _SENT:
        return None
    _, digest, size, sent, path = parts
    return FileRow(path, digest if len(digest) == 64 else "", int(size), _SENT[sent])
