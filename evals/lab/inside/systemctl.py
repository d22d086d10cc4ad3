"""Answer `systemctl` for the sandbox's services, in systemd 252's words and exit codes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from evals.lab.inside import unitfile
from evals.lab.inside.control import Output
from evals.lab.inside.journalctl import short_line
from evals.lab.inside.properties import properties
from evals.lab.inside.services import JobFailed, Service, Services
from evals.lab.inside.timers import Timers
from evals.lab.inside.unit_status import status_lines

_VALUE_OPTIONS = {"-p": "property", "-P": "value-of", "-n": "lines", "-t": "type", "-o": "output"}
_LONG_VALUES = frozenset({"property", "lines", "type", "state", "output", "root", "signal", "kill-whom"})


@dataclass(slots=True)
class Request:
    """Hold a parsed command line."""

    verb: str = "list-units"
    units: list[str] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)

    def wanted(self, name: str) -> list[str]:
        """Return the comma-separated values given for an option, all of them."""
        return [part for value in self.values.get(name, []) for part in value.split(",") if part]


def parse(argv: list[str]) -> Request:
    """Parse options before and after the verb, values attached or apart."""
    request = Request()
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name in _LONG_VALUES:
                request.values.setdefault(name, []).append(value if equals else next(rest, ""))
            else:
                request.flags.add(name)
        elif word.startswith("-") and word[:2] in _VALUE_OPTIONS:
            name = _VALUE_OPTIONS[word[:2]]
            value = word[2:].lstrip("=") or next(rest, "")
            request.values.setdefault("property" if name == "value-of" else name, []).append(value)
            if name == "value-of":
                request.flags.add("value")
        elif word.startswith("-"):
            request.flags.update({"a": "all", "l": "full", "q": "quiet"}.get(c, c) for c in word[1:])
        else:
            words.append(word)
    if words:
        request.verb, request.units = words[0], [_full_name(word) for word in words[1:]]
    return request


def _full_name(word: str) -> str:
    known = (".service", ".timer", ".target", ".socket", ".mount", ".slice", ".path")
    return word if word.endswith(known) else word + ".service"


@dataclass(slots=True)
class Systemctl:
    """Answer the verbs that people use to look at, and restart, services."""

    services: Services
    timers: Timers
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    later: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self, argv: list[str], output: Output) -> int:
        """Run one command line and return its exit code."""
        request = parse(argv)
        if "version" in request.flags:
            output.out("systemd 252 (252.39-1~deb12u1)\n")
            return 0
        verbs: dict[str, Callable[[Request, Output], Awaitable[int]]] = {
            "show": self._show,
            "cat": self._cat,
            "status": self._status,
            "is-active": self._is_active,
            "is-failed": self._is_active,
            "is-enabled": self._is_enabled,
            "list-units": self._list_units,
            "list-unit-files": self._list_unit_files,
            "daemon-reload": self._daemon_reload,
            "is-system-running": self._is_system_running,
        }
        jobs = ("start", "stop", "restart", "try-restart", "reload-or-restart", "reset-failed")
        if request.verb in jobs:
            return await self._jobs(request, output)
        if request.verb not in verbs:
            output.err(f"Unknown command verb {request.verb}.")
            return 1
        return await verbs[request.verb](request, output)

    def _services(self, request: Request) -> list[Service]:
        names = dict.fromkeys([*unitfile.unit_names(), *self.services.loaded])
        found = [self.services.get(name) for name in names]
        return [service for service in found if service.unit.fragment is not None]

    async def _show(self, request: Request, output: Output) -> int:
        wanted = request.wanted("property")
        if not request.units:
            output.out("Version=252.39-1~deb12u1\nSystemState=running\nNFailedUnits=0\n")
            return 0
        blocks = []
        for name in request.units:
            lines = []
            for key, value in properties(self.services.get(name)):
                if wanted and key not in wanted:
                    continue
                if not wanted and value == "" and "all" not in request.flags:
                    continue
                lines.append(value if "value" in request.flags else f"{key}={value}")
            blocks.append("".join(line + "\n" for line in lines))
        output.out("\n".join(blocks))
        return 0

    async def _cat(self, request: Request, output: Output) -> int:
        code = 0
        parts = []
        for name in request.units:
            fragment, dropins = unitfile.find(name)
            if fragment is None:
                output.err(f"No files found for {name}.")
                code = 1
                continue
            self._warn_if_changed(self.services.get(name), output)
            for path in (fragment, *dropins):
                parts.append(f"# {path}\n{path.read_text(errors='surrogateescape')}")
        output.out("\n".join(parts))
        return code

    async def _status(self, request: Request, output: Output) -> int:
        code = 0
        for name in request.units:
            service = self.services.get(name)
            if service.unit.fragment is None:
                output.err(f"Unit {name} could not be found.")
                code = 4
                continue
            self._warn_if_changed(service, output)
            count = int((request.values.get("lines") or ["10"])[-1])
            output.out(
                "\n".join([*status_lines(service, enabled=enabled(name)), *self._last_lines(name, count)])
                + "\n"
            )
            code = code or (0 if service.active in ("active", "activating") else 3)
        return code

    def _last_lines(self, name: str, count: int) -> list[str]:
        journal = self.services.journal
        lines: list[str] = []
        for entry in reversed(journal.entries):
            if len(lines) >= count or entry.boot != journal.boot:
                break
            if entry.unit == name:
                lines.append(short_line(entry, journal.hostname, "short"))
        return ["", *reversed(lines)] if lines else []

    async def _is_active(self, request: Request, output: Output) -> int:
        wanted = ("failed",) if request.verb == "is-failed" else ("active", "activating")
        states = [
            "active" if self.timers.has(name) else self.services.get(name).active for name in request.units
        ]
        if "quiet" not in request.flags:
            output.out("".join(state + "\n" for state in states))
        return 0 if any(state in wanted for state in states) else (1 if wanted == ("failed",) else 3)

    async def _is_enabled(self, request: Request, output: Output) -> int:
        states = []
        for name in request.units:
            if unitfile.find(name)[0] is None:
                output.err(f"Failed to get unit file state for {name}: No such file or directory")
            else:
                states.append("enabled" if enabled(name) else "disabled")
        if "quiet" not in request.flags:
            output.out("".join(state + "\n" for state in states))
        return 0 if "enabled" in states else 1

    async def _list_units(self, request: Request, output: Output) -> int:
        rows = []
        for service in self._services(request):
            states = request.wanted("state") or (["failed"] if "failed" in request.flags else [])
            types = request.wanted("type")
            if states and not {service.active, service.sub, "loaded"} & set(states):
                continue
            if types and service.name.rpartition(".")[2] not in types:
                continue
            if service.active == "inactive" and "all" not in request.flags and not states:
                continue
            description = service.unit.last("Unit.Description", service.name)
            rows.append((service.name, "loaded", service.active, service.sub, description))
        _table(
            ("UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION"), rows, request, output, "loaded units listed."
        )
        return 0

    async def _list_unit_files(self, request: Request, output: Output) -> int:
        rows = [
            (name, "enabled" if enabled(name) else "disabled", "enabled") for name in unitfile.unit_names()
        ]
        types = request.wanted("type")
        rows = [r for r in rows if (not types or r[0].rpartition(".")[2] in types)]
        rows = [r for r in rows if not request.units or r[0] in request.units]
        _table(("UNIT FILE", "STATE", "PRESET"), rows, request, output, "unit files listed.")
        return 0

    async def _daemon_reload(self, request: Request, output: Output) -> int:
        self.services.reload()
        return 0

    async def _is_system_running(self, request: Request, output: Output) -> int:
        failed = any(service.active == "failed" for service in self.services.loaded.values())
        output.out("degraded\n" if failed else "running\n")
        return int(failed)

    async def _jobs(self, request: Request, output: Output) -> int:
        code = 0
        for name in request.units:
            if request.verb == "stop" and self.timers.has(name):
                self.timers.stop(name)
                continue
            service = self.services.get(name)
            if service.unit.fragment is None:
                output.err(f"Failed to {request.verb} {name}: Unit {name} not found.")
                code = 5
                continue
            self._warn_if_changed(service, output)
            if "no-block" in request.flags:
                self.later.append(asyncio.create_task(self._in_turn(request.verb, service)))
                continue
            try:
                await self._job(request.verb, service)
            except JobFailed:
                output.err(
                    f"Job for {name} failed because the control process exited with error code.\n"
                    f'See "systemctl status {name}" and "journalctl -xeu {name}" for details.'
                )
                code = 1
        return code

    async def _in_turn(self, verb: str, service: Service) -> None:
        """Do a job that nobody waits for, after those queued before it."""
        async with self.turn:
            with contextlib.suppress(JobFailed):
                await self._job(verb, service)
        self.later = [task for task in self.later if not task.done()]

    async def _job(self, verb: str, service: Service) -> None:
        if verb == "start":
            await self.services.start(service)
        elif verb == "stop":
            await self.services.stop(service)
        elif verb == "reset-failed":
            service.recent.clear()
            if service.active == "failed":
                service.move("inactive", "dead")
        elif verb != "try-restart" or service.active == "active":
            await self.services.restart(service)

    def _warn_if_changed(self, service: Service, output: Output) -> None:
        if unitfile.changed_on_disk(service.unit):
            output.err(
                f"Warning: The unit file, source configuration file or drop-ins of {service.name} changed on"
                " disk. Run 'systemctl daemon-reload' to reload units."
            )


def enabled(name: str) -> bool:
    """Tell whether a target wants the unit."""
    return any(any(root.glob(f"*.wants/{name}")) for root in unitfile.roots())


def _table(
    head: tuple[str, ...], rows: Sequence[tuple[str, ...]], request: Request, output: Output, foot: str
) -> None:
    shown = rows if "no-legend" in request.flags else [head, *rows]
    widths = [max((len(row[i]) for row in shown), default=0) for i in range(len(head))]
    mark = "" if "plain" in request.flags or head[0] != "UNIT" else "  "
    for row in shown:
        cells = " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        output.out(f"{mark}{cells}".rstrip() + "\n")
    if "no-legend" not in request.flags:
        output.out(f"\n{len(rows)} {foot}\n")
