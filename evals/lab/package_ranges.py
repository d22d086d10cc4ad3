"""Read only the needed files of a wheel over HTTP, by ranges, each file proven by the wheel's RECORD."""

from __future__ import annotations

import hashlib
import http.client
import io
import re
import ssl
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evals.lab.package_unpack import Listed, PackageError, listed, proven, put

TAIL = 1 << 20
"""Bytes of the end that are asked for first: the list of files, mostly also RECORD."""
GAP = 256 << 10
"""Files this close to each other come in one request: a round trip costs more than the bytes between."""
PART = 8 << 20
"""What one request brings at most (but for one file that is larger), so what is in memory at a time."""
TIMEOUT_S = 30.0
_TOTAL = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class Refused(Exception):
    """Report that a server gives no ranges, or gave none that can be used: the whole wheel must come."""


@dataclass(slots=True)
class Ranged(io.RawIOBase):
    """Present a remote file to `zipfile`; one part of it and its end are held at a time."""

    url: str
    context: ssl.SSLContext | None = None
    size: int = 0
    requests: int = 0
    received: int = 0
    _at: int = 0
    _tail: tuple[int, bytes] = (0, b"")
    _part: tuple[int, bytes] = (0, b"")
    _open: urllib.request.OpenerDirector = field(init=False)

    def __post_init__(self) -> None:
        handler = urllib.request.HTTPSHandler(context=self.context)
        self._open = urllib.request.build_opener(handler)
        self._tail = self._get(f"bytes=-{TAIL}")

    def _get(self, wanted: str) -> tuple[int, bytes]:
        """Return the start of a range and its bytes; raise `Refused`."""
        request = urllib.request.Request(self.url, headers={"Range": wanted, "Accept-Encoding": "identity"})
        try:
            with self._open.open(request, timeout=TIMEOUT_S) as answer:
                found = _TOTAL.fullmatch(answer.headers.get("Content-Range") or "")
                if answer.status != 206 or found is None:
                    raise Refused(f"the server answers {answer.status} to a request for a range")
                start, end, total = (int(number) for number in found.groups())
                data = answer.read(end - start + 1)
        except (OSError, http.client.HTTPException, urllib.error.URLError) as error:
            raise Refused(f"{type(error).__name__}: {error}") from None
        if len(data) != end - start + 1 or total != (self.size or total):
            raise Refused("the server sent less than the range it announced, or of another file")
        self.size = total
        self.requests += 1
        self.received += len(data)
        return start, data

    def hold(self, start: int, end: int) -> None:
        """Have the bytes from ``start`` to before ``end`` at hand."""
        if not self._within(self._tail, start, end):
            self._part = self._get(f"bytes={start}-{end - 1}")

    @staticmethod
    def _within(held: tuple[int, bytes], start: int, end: int) -> bool:
        return held[0] <= start and end <= held[0] + len(held[1])

    def seekable(self) -> bool:
        """Say that any place can be read."""
        return True

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def tell(self) -> int:
        """Return the place of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return bytes of the part at hand; fetch them when they are not."""
        end = self.size if size < 0 else min(self.size, self._at + size)
        if end - self._at > 4 * PART:
            raise Refused("the list of files cannot be read")  # a directory of that size is none
        if end <= self._at:
            return b""
        for held in (self._part, self._tail):
            if self._within(held, self._at, end):
                break
        else:
            self.hold(self._at, end)
            held = self._part
        data = held[1][self._at - held[0] : end - held[0]]
        self._at = end
        return data


@dataclass(frozen=True, slots=True)
class Span:
    """Hold files that lie together: from ``start`` to before ``end``."""

    start: int
    end: int
    rows: tuple[Listed, ...]


def spans(rows: Iterable[Listed], places: dict[str, tuple[int, int]]) -> Iterator[Span]:
    """Group files into few requests: neighbours together, no group larger than a part."""
    held: list[Listed] = []
    start = end = 0
    for row in sorted(rows, key=lambda row: places[row.path]):
        first, last = places[row.path]
        if held and (first - end > GAP or last - start > PART):
            yield Span(start, end, tuple(held))
            held = []
        if not held:
            start = first
        held.append(row)
        end = max(last, first)
    if held:
        yield Span(start, end, tuple(held))


def _places(archive: zipfile.ZipFile, size: int) -> dict[str, tuple[int, int]]:
    """Return where each file's header begins and, at most, where its data ends: where the next one begins."""
    entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    begins = [entry.header_offset for entry in entries]
    return {
        entry.filename: (entry.header_offset, end)
        for entry, end in zip(entries, [*begins[1:], min(size, archive.start_dir)], strict=True)
    }


def unpack(
    url: str,
    record_sha256: str,
    folder: Path,
    *,
    certificates: Callable[[], str | None],
    progress: Callable[[str], None],
) -> None:
    """Unpack what is needed of a wheel at an address; raise `Refused` when ranges do not work there.

    Whatever the server says, nothing is kept that the pinned RECORD does not prove, and nothing is left out.
    """
    name = url.rpartition("/")[2]
    remote = Ranged(url, trust(url, certificates))
    try:
        with zipfile.ZipFile(remote) as archive:
            places = _places(archive, remote.size)
            rows = _rows(archive, places, record_sha256, remote, name)
            for part in spans(rows, places):
                remote.hold(part.start, part.end)
                for row in part.rows:
                    _keep(archive, row, folder, name)
                progress(f"reading {name}: {remote.received / 1e6:.1f} MB in {remote.requests} requests")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise PackageError(
            f"{name} is damaged: {error}", do="check where your package index gets it from"
        ) from None


def trust(url: str, certificates: Callable[[], str | None]) -> ssl.SSLContext | None:
    """Return the certificates to trust: OpenSSL's own settings, and what pip is told of beside them."""
    if not url.startswith("https:"):
        return None
    context = ssl.create_default_context()
    bundle = certificates()
    if bundle is not None:
        try:
            context.load_verify_locations(cafile=bundle)
        except (OSError, ssl.SSLError) as error:
            raise Refused(f"{bundle}: {error}") from None
    return context


def _rows(
    archive: zipfile.ZipFile,
    places: dict[str, tuple[int, int]],
    record_sha256: str,
    remote: Ranged,
    name: str,
) -> Sequence[Listed]:
    """Return what RECORD lists and is needed; raise `PackageError` when it is not the pinned one."""
    found = [path for path in places if path.count("/") == 1 and path.endswith(".dist-info/RECORD")]
    data = b""
    if len(found) == 1:
        remote.hold(*places[found[0]])
        data = archive.read(found[0])
    digest = hashlib.sha256(data).hexdigest()
    if digest != record_sha256:
        raise PackageError(
            f"the RECORD in {name} has the digest {digest}, pinned is {record_sha256}",
            do="do not use it; check where your package index gets it from",
        )
    rows = list(listed(data, name))
    missing = [row.path for row in rows if row.path not in places]
    if missing:
        raise PackageError(f"{name} lacks {missing[0]}, which its RECORD lists", do="do not use it")
    return [*rows, Listed(found[0], "", len(data))]


def _keep(archive: zipfile.ZipFile, row: Listed, folder: Path, name: str) -> None:
    entry = archive.getinfo(row.path)
    if row.digest and entry.file_size != row.size:
        raise PackageError(f"{row.path} in {name} is not what RECORD lists", do="do not use it")
    data = archive.read(entry)
    if row.digest and not proven(data, row):
        raise PackageError(f"{row.path} in {name} is not what RECORD lists", do="do not use it")
    put(folder, row.path, data, name)
