"""Give the files of an engine installed on a host: fetched in few commands, kept here by sha256."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tools.contract import Host, Result, ToolError
from tools.settings import fetch
from tools.settings.fetch import Frames
from tools.settings.kept_sources import KeptSources
from tools.settings.source import MAX_FILE
from tools.settings.types import Engine

T = TypeVar("T")
_LIMIT_S: Final = 30.0
_MOST_IMPORTED: Final = 120
_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([\w.]+))", re.MULTILINE
)
_ROUNDS: Final = 4
"""Commands that one question may take where its files are over the bound of one answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """Say where a package lies on a host; paths are those inside ``root`` (``/proc/PID/root`` or empty)."""

    engine: Engine
    version: str
    package: str
    info: str = ""
    root: str = ""


class RemoteTree:
    """Read the package of one engine over a connection; its methods are for a thread beside the event loop.

    What is not here yet is asked of the host, and the caller waits. ``received`` counts what the host sent.
    """

    def __init__(self, host: Host, place: Place, kept: KeptSources) -> None:
        self.place = place
        self.skipped: dict[str, str] = {}
        """Files that are left out, each with the reason."""
        self.received = 0
        self.trips = 0
        self._host = host
        self._kept = kept
        self._loop = asyncio.get_running_loop()
        self._digests: dict[str, str] = {}
        self._files: dict[str, bytes | None] = {}
        self._paths: tuple[str, ...] | None = None
        self._names: frozenset[str] = frozenset()
        self._read: dict[str, None] = {}
        self._followed: set[str] = set()
        self._mentions: dict[tuple[str, ...], dict[str, bytes]] = {}
        self._info: dict[str, bytes | None] = {}

    @property
    def engine(self) -> Engine:
        """Return the engine that the package is."""
        return self.place.engine

    @property
    def version(self) -> str:
        """Return the version by its metadata or by the package itself."""
        return self.place.version

    def read(self, path: str) -> bytes | None:
        """Return a file; None when the package has none of this name, or one that is skipped."""
        if path not in self._files:
            if not path or path.startswith("/") or ".." in path.split("/") or "*" in path or "\n" in path:
                return None
            if path.endswith(".py") and self._paths is not None and path not in self._names:
                return None
            # What the files read so far import is likely wanted next: it comes in the same command.
            self._wait(self._bring(wanted=[path, *self._imported()]))
            self._files.setdefault(path, None)
        self._read[path] = None
        return self._files[path]

    def _imported(self) -> list[str]:
        """Return files that those read so far import and that are not here yet."""
        found: dict[str, None] = {}
        for path in [one for one in self._read if one not in self._followed]:
            self._followed.add(path)
            if data := self._files.get(path):
                found |= dict.fromkeys(imported(self.engine, path, data, self._names))
        return [one for one in found if one not in self._files][:_MOST_IMPORTED]

    def paths(self) -> Sequence[str]:
        """Return every ``*.py`` file of the package, sorted."""
        if self._paths is None:
            self._wait(self._bring(listing=True))
        return self._paths or ()

    def mentions(self, words: Sequence[str], scope: str = "") -> Mapping[str, bytes]:
        """Return the ``*.py`` files whose text holds one of the words, as a part of a longer one too."""
        key = tuple(sorted(set(words)))
        if key not in self._mentions:
            rows = self._wait(self._bring(words=key))
            found = {row: data for row in rows if (data := self._files.get(row)) is not None}
            self._mentions[key] = dict(sorted(found.items()))
        return self._mentions[key]

    def distribution(self, name: str) -> bytes | None:
        """Return a file of the ``.dist-info`` folder, or None."""
        if not self.place.info or "/" in name or name in ("", ".", ".."):
            return None
        if name not in self._info:
            self._info[name] = self._wait(self._metadata(name))
        return self._info[name]

    def take(self, result: Result, frames: Frames) -> None:
        """Keep what a command brought."""
        self.trips += 1
        self.received += result.stdout.total
        if frames.problem:
            raise ToolError(f"the package at {self.place.package}: {frames.problem}")
        if frames.paths is not None:
            self._paths = tuple(sorted(frames.paths))
            self._names = frozenset(frames.paths)
        for path, data in frames.contents.items():
            digest = next((row.sha256 for row in frames.rows if row.path == path), "")
            self._files[path] = data
            if digest:
                self._kept.put(data, digest)
                self._digests[path] = digest
        for row in frames.rows:
            if row.sent == "known" and (held := self._kept.get(row.sha256)) is not None:
                self._files[row.path], self._digests[row.path] = held, row.sha256
            elif row.sent == "big":
                self._files[row.path] = None
                self.skipped[row.path] = f"{row.size} bytes, over the bound of {MAX_FILE}"

    def remember(self) -> None:
        """Note on this disk which files were read, so that the next look asks for them at once."""
        self._kept.remember(self.engine, list(self._read), self._digests)

    async def _bring(
        self, wanted: Sequence[str] = (), words: Sequence[str] = (), *, listing: bool = False
    ) -> list[str]:
        """Fetch files; return every path that the host named."""
        named: dict[str, None] = {}
        known = [*self._digests.values(), *(self._kept.known(self.engine) if words else ())]
        ask = fetch.asking(wanted, words, known, listing=listing or self._paths is None)
        for _ in range(_ROUNDS):
            frames = await self._command(self.place.package, ask)
            named |= dict.fromkeys(row.path for row in frames.rows)
            again = [row.path for row in frames.rows if row.sent != "big" and row.path not in self._files]
            if not again:
                break
            ask = fetch.asking(again)
        else:
            self.skipped |= dict.fromkeys(again, "more files than one question may bring")
        return list(named)

    async def _command(self, folder: str, ask: bytes) -> Frames:
        mark = uuid.uuid4().hex
        result = await self._host.exec(
            fetch.argv(mark, folder, self.place.root),
            timeout_s=_LIMIT_S,
            max_bytes=fetch.MAX_SENT,
            stdin=ask,
            retry=True,
        )
        if result.outcome != "exited" or result.truncated:
            why = result.detail or "more than was asked for"
            raise ToolError(f"files of {folder} on {self._host.name} did not come: {result.outcome}: {why}")
        frames = fetch.decode(result.stdout.data, mark)
        if folder == self.place.package:
            self.take(result, frames)
        else:
            self.received += result.stdout.total
        return frames

    async def _metadata(self, name: str) -> bytes | None:
        frames = await self._command(self.place.info, fetch.asking([name]))
        return frames.contents.get(name)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait in this thread for what the event loop does."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            work.close()
            raise RuntimeError("files of a host are read from a thread beside the event loop")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def imported(package: str, path: str, data: bytes, names: Container[str]) -> list[str]:
    """Return the files of a package that one of them imports, of those that there are."""
    folder = path.split("/")[:-1]
    found: dict[str, None] = {}
    for match in _IMPORT.finditer(data):
        module = (match[1] or match[3]).decode()
        dots = len(module) - len(module.lstrip("."))
        parts = [part for part in module.lstrip(".").split(".") if part]
        if dots:
            parts = folder[: len(folder) - dots + 1] + parts
        elif parts[:1] == [package]:
            parts = parts[1:]
        else:
            continue
        words = re.findall(r"(\w+)(?:[ \t]+as[ \t]+\w+)?", (match[2] or b"").decode("utf-8", "replace"))
        for one in (parts, *([*parts, word] for word in words)):
            place = "/".join(one)
            found |= dict.fromkeys(p for p in (f"{place}.py", f"{place}/__init__.py") if p in names)
    return list(found)
