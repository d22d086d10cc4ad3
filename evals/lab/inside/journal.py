"""The sandbox's journal: recorded history and live lines, in memory, with systemd's field names on output."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

MAX_ENTRIES = 200_000


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one line of the journal; ``at`` is in microseconds since 1970."""

    at: int
    boot: str
    text: str
    unit: str = ""
    ident: str = ""
    pid: int = 0
    priority: int = 6
    transport: str = "stdout"

    def fields(self, hostname: str) -> dict[str, str]:
        """Return the entry under the field names of journald."""
        out = {
            "__REALTIME_TIMESTAMP": str(self.at),
            "__CURSOR": f"s={self.boot};t={self.at:x}",
            "_BOOT_ID": self.boot,
            "_HOSTNAME": hostname,
            "PRIORITY": str(self.priority),
            "SYSLOG_IDENTIFIER": self.ident,
            "_TRANSPORT": self.transport,
            "MESSAGE": self.text,
        }
        if self.pid:
            out["_PID"] = str(self.pid)
        if self.unit:
            out["UNIT" if self.ident == "systemd" else "_SYSTEMD_UNIT"] = self.unit
        return out


@dataclass(slots=True)
class Journal:
    """Hold all entries in order of time; ``boots`` lists boot ids from the oldest to the current."""

    hostname: str
    boots: list[str]
    entries: list[Entry] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    echo: TextIO | None = None
    """Where lines are also written while the host comes up, so that a failed start can be looked into."""

    @classmethod
    def from_history(cls, hostname: str, boots: list[str], rows: Iterable[Mapping[str, Any]]) -> Journal:
        """Build the journal from the scenario's recorded lines (already absolute in time)."""
        journal = cls(hostname, boots or [uuid.uuid4().hex])
        journal.entries = sorted((Entry(**row) for row in rows), key=lambda entry: entry.at)
        return journal

    @property
    def boot(self) -> str:
        """Return the id of the current boot."""
        return self.boots[-1]

    def add(
        self,
        text: str,
        *,
        unit: str = "",
        ident: str = "systemd",
        pid: int = 1,
        priority: int = 6,
        transport: str = "journal",
    ) -> None:
        """Append a line as of now."""
        now = int(time.time() * 1e6)
        if self.entries and self.entries[-1].at >= now:
            now = self.entries[-1].at + 1
        self.entries.append(Entry(now, self.boot, text, unit, ident, pid, priority, transport))
        if len(self.entries) > MAX_ENTRIES:
            del self.entries[: MAX_ENTRIES // 10]
        self.changed.set()
        if self.echo is not None:
            print(f"{ident}[{pid}]: {text}", file=self.echo, flush=True)

    async def capture(self, reader: asyncio.StreamReader, *, unit: str, ident: str, pid: int) -> None:
        """Turn the output of a service into entries until it ends; ``<N>`` sets a line's priority."""
        while True:
            try:
                raw = await reader.readline()
            except ValueError:  # a line above the reader's limit: journald splits those as well
                raw = await reader.read(48 * 1024)
            if not raw:
                return
            text = raw.decode("utf-8", "replace").rstrip("\n")
            priority = 6
            if marked := re.match(r"<([0-7])>", text):
                priority, text = int(marked.group(1)), text[3:]
            if text:
                self.add(text, unit=unit, ident=ident, pid=pid, priority=priority, transport="stdout")
