"""Answer `journalctl` from the sandbox's journal, in systemd 252's forms and exit codes."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from itertools import islice

from evals.lab.inside.control import Output
from evals.lab.inside.journal import Entry, Journal
from evals.lab.inside.journal_query import BadRequest, Query, parse
from evals.lab.inside.times import TimeError, parse_time

PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_BATCH = 500


@dataclass(slots=True)
class Journalctl:
    """Answer queries on one journal."""

    journal: Journal

    async def run(self, argv: list[str], output: Output) -> int:
        """Run one command line and return its exit code."""
        try:
            query = parse(argv)
            if "version" in query.flags:
                output.out("systemd 252 (252.39-1~deb12u1)\n")
                return 0
            if "list-boots" in query.flags:
                self._list_boots(output)
                return 0
            form = query.last("output", "short")
            _formatter(form)
            test = self._filter(query)
        except (BadRequest, TimeError) as error:
            output.err(str(error))
            return 1
        shown = await self._print(query, form, test, output)
        if "follow" in query.flags:
            await self._follow(form, test, output)
        if not shown and "quiet" not in query.flags:
            output.out("-- No entries --\n")
        return 1 if not shown and query.values.get("grep") else 0

    async def _print(self, query: Query, form: str, test: Filter, output: Output) -> int:
        entries = self._select(query, test)
        marked = "quiet" not in query.flags and form.startswith("short")
        boot = ""
        for first in range(0, len(entries), _BATCH):
            printed = []
            for entry in entries[first : first + _BATCH]:
                if boot and entry.boot != boot and marked:
                    printed.append(f"-- Boot {entry.boot} --\n")
                boot = entry.boot
                printed.append(render(entry, self.journal.hostname, form))
            output.out("".join(printed))  # a frame a line would cost more than all else
            await output.flush()
        if "show-cursor" in query.flags and entries:
            output.out(f"-- cursor: {entries[-1].fields('')['__CURSOR']}\n")
        return len(entries)

    def _select(self, query: Query, test: Filter) -> list[Entry]:
        limit = query.last("lines", "10" if "follow" in query.flags else "all")
        if limit != "all":
            found = list(
                islice((e for e in reversed(self.journal.entries) if test(e)), int(limit.lstrip("+")))
            )
            return found if "reverse" in query.flags else found[::-1]
        found = [entry for entry in self.journal.entries if test(entry)]
        return found[::-1] if "reverse" in query.flags else found

    async def _follow(self, form: str, test: Filter, output: Output) -> None:
        seen = self.journal.entries[-1].at if self.journal.entries else 0
        while True:
            await output.flush()
            self.journal.changed.clear()
            await self.journal.changed.wait()
            fresh = [e for e in self.journal.entries[-4 * _BATCH :] if e.at > seen]
            for entry in filter(test, fresh):
                output.out(render(entry, self.journal.hostname, form))
            seen = self.journal.entries[-1].at

    def _filter(self, query: Query) -> Filter:
        wanted = Filter()
        if "boot" in query.values or "dmesg" in query.flags:
            wanted.boot = self._boot(query.last("boot", "0"))
        if "dmesg" in query.flags:
            wanted.transport = "kernel"
        wanted.units = tuple(u if "." in u else u + ".service" for u in query.values.get("unit", []))
        wanted.idents = tuple(query.values.get("identifier", []))
        now = time.time()
        if "since" in query.values:
            wanted.since = int(parse_time(query.last("since"), now) * 1e6)
        if "until" in query.values:
            wanted.until = int(parse_time(query.last("until"), now) * 1e6)
        if cursor := query.last("after-cursor") or query.last("cursor"):
            wanted.since = int(cursor.rpartition("t=")[2], 16) + bool(query.last("after-cursor"))
        if "priority" in query.values:
            wanted.priorities = _priorities(query.last("priority"))
        if "grep" in query.values:
            wanted.pattern = _pattern(query.last("grep"), query.last("case-sensitive"))
        wanted.fields = tuple(query.matches)
        return wanted

    def _boot(self, text: str) -> str:
        boots = self.journal.boots
        if re.fullmatch(r"[0-9a-f]{32}", text):
            if text not in boots:
                raise BadRequest("No journal boot entry found from the specified boot ID.")
            return text
        if not re.fullmatch(r"[+-]?\d+", text):
            raise BadRequest(f"Failed to parse boot descriptor '{text}'")
        offset = int(text)
        index = len(boots) - 1 + offset if offset <= 0 else offset - 1
        if not 0 <= index < len(boots):
            raise BadRequest(
                f"Data from the specified boot ({offset:+d}) is not available: No such boot ID in journal"
            )
        return boots[index]

    def _list_boots(self, output: Output) -> None:
        output.out("IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n")
        for index, boot in enumerate(self.journal.boots):
            times = [entry.at for entry in self.journal.entries if entry.boot == boot]
            if times:
                first, last = (
                    time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(t / 1e6))
                    for t in (times[0], times[-1])
                )
                output.out(f"{index - len(self.journal.boots) + 1:>3} {boot} {first} {last}\n")


@dataclass(slots=True)
class Filter:
    """Decide whether an entry is asked for."""

    boot: str = ""
    transport: str = ""
    units: tuple[str, ...] = ()
    idents: tuple[str, ...] = ()
    since: int = 0
    until: int = 1 << 62
    priorities: tuple[int, int] = (0, 7)
    pattern: re.Pattern[str] | None = None
    fields: tuple[tuple[str, str], ...] = ()

    def __call__(self, entry: Entry) -> bool:
        """Tell whether all conditions hold."""
        return (
            self.since <= entry.at <= self.until
            and (not self.boot or entry.boot == self.boot)
            and (not self.units or entry.unit in self.units)
            and (not self.transport or entry.transport == self.transport)
            and (not self.idents or entry.ident in self.idents)
            and self.priorities[0] <= entry.priority <= self.priorities[1]
            and (self.pattern is None or self.pattern.search(entry.text) is not None)
            and all(entry.fields("").get(name) == value for name, value in self.fields)
        )


def _priorities(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    try:
        ends = [int(p) if p.isdigit() else PRIORITIES.index(p) for p in ([low, high] if dots else [low])]
    except ValueError:
        raise BadRequest(f"Unknown log level {text}") from None
    return (min(ends), max(ends)) if dots else (0, ends[0])


def _pattern(text: str, case: str) -> re.Pattern[str]:
    sensitive = text != text.lower() if not case else case in ("yes", "true", "1")
    try:
        return re.compile(text, 0 if sensitive else re.IGNORECASE)
    except re.error as error:
        raise BadRequest(f'Bad pattern "{text}": {error}') from None


def _formatter(form: str) -> None:
    known = (
        "short",
        "short-iso",
        "short-precise",
        "short-iso-precise",
        "short-full",
        "short-unix",
        "cat",
        "json",
    )
    if form not in known:
        raise BadRequest(f"Unknown output format '{form}'.")


def render(entry: Entry, hostname: str, form: str) -> str:
    """Return an entry as one output format prints it."""
    if form == "cat":
        return entry.text + "\n"
    if form == "json":
        return json.dumps(entry.fields(hostname), separators=(",", ":")) + "\n"
    return short_line(entry, hostname, form) + "\n"


_TIMES = {
    "short": "%b %d %H:%M:%S",
    "short-precise": "%b %d %H:%M:%S.{micros:06d}",
    "short-iso": "%Y-%m-%dT%H:%M:%S+0000",
    "short-iso-precise": "%Y-%m-%dT%H:%M:%S.{micros:06d}+0000",
    "short-full": "%a %Y-%m-%d %H:%M:%S UTC",
}
_CACHE: dict[tuple[str, int], str] = {}


def short_line(entry: Entry, hostname: str, form: str) -> str:
    """Return an entry in one of the ``short`` forms; further lines of a message are indented."""
    second, micros = divmod(entry.at, 1_000_000)
    if form == "short-unix":
        when = f"{second}.{micros:06d}"
    else:
        when = _CACHE.get((form, second), "")
        if not when:
            if len(_CACHE) > 50_000:
                _CACHE.clear()
            when = _CACHE[form, second] = time.strftime(_TIMES[form], time.gmtime(second))
        when = when.replace("{micros:06d}", f"{micros:06d}")
    who = f"{entry.ident}[{entry.pid}]" if entry.pid and entry.transport != "kernel" else entry.ident
    head = f"{when} {hostname} {who}: "
    text = entry.text if "\n" not in entry.text else entry.text.replace("\n", "\n" + " " * len(head))
    return head + text
