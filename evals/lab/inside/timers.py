"""Answer `systemd-run`: start a command as a unit of its own, now or when a timer fires.

What it starts belongs to process 1, so it outlives the connection of whoever asked for it.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from evals.lab.inside import unitfile
from evals.lab.inside.children import Children
from evals.lab.inside.control import Output
from evals.lab.inside.journal import Journal
from evals.lab.inside.services import BASE_ENV

_WITH_VALUE = frozenset({"unit", "on-active", "timer-property", "property", "service-type", "description"})
_FLAGS = frozenset({"quiet", "collect", "no-block", "system"})


class BadRequest(Exception):
    """Report a command line that systemd-run would refuse."""


@dataclass(slots=True)
class Request:
    """Hold a parsed command line."""

    values: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    argv: list[str] = field(default_factory=list)


def parse(argv: list[str]) -> Request:
    """Parse a command line: options up to the first word that is none."""
    request = Request()
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        name = {"q": "quiet", "G": "collect", "u": "unit", "p": "property"}.get(name, name)
        if name in _FLAGS:
            request.flags.add(name)
        elif name not in _WITH_VALUE:
            raise BadRequest(f"systemd-run: unrecognized option '{word}'")
        else:
            request.values[name] = value if equals else (rest.pop(0) if rest else "")
    request.argv = rest
    if not rest:
        raise BadRequest("Command line to execute required.")
    return request


@dataclass(slots=True)
class Timers:
    """Hold the transient timers that wait and the transient services that run."""

    children: Children
    journal: Journal
    waiting: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self, argv: list[str], output: Output) -> int:
        """Run one `systemd-run` command line and return its exit code."""
        try:
            request = parse(argv)
        except BadRequest as error:
            output.err(str(error))
            return 1
        unit = (
            re.sub(r"\.(service|timer)$", "", request.values.get("unit", "")) or f"run-u{os.urandom(3).hex()}"
        )
        timed = "on-active" in request.values
        name = f"{unit}.timer" if timed else f"{unit}.service"
        if self.has(f"{unit}.timer") or self.has(f"{unit}.service"):
            kind = "timer" if timed else "service"
            why = f"Unit {name} was already loaded or has a fragment file."
            output.err(f"Failed to start transient {kind} unit: {why}")
            return 1
        if timed:
            delay = unitfile.seconds(request.values["on-active"], -1.0)
            if delay < 0:
                output.err(f"Failed to parse timer value: {request.values['on-active']}")
                return 1
            self.waiting[name] = asyncio.create_task(self._fire(unit, delay, request.argv))
            self.journal.add(f"Started {name} - {' '.join(request.argv)}.")
        else:
            self._launch(unit, request.argv)
        if "quiet" not in request.flags:
            output.err(f"Running {'timer ' if timed else ''}as unit: {name}")
        return 0

    def has(self, name: str) -> bool:
        """Tell whether a unit is one of these, waiting or running."""
        return name in self.waiting or name in self.running

    def stop(self, name: str) -> None:
        """Stop a timer; a service that it started goes on."""
        task = self.waiting.pop(name, None)
        if task is not None:
            task.cancel()
            self.journal.add(f"{name}: Deactivated successfully.")

    async def _fire(self, unit: str, delay: float, argv: list[str]) -> None:
        await asyncio.sleep(delay)
        self.waiting.pop(f"{unit}.timer", None)
        self._launch(unit, argv)

    def _launch(self, unit: str, argv: list[str]) -> None:
        name = f"{unit}.service"
        self.journal.add(f"Started {name} - {' '.join(argv)}.", unit=name)
        self.running[name] = asyncio.create_task(self._follow(name, argv))

    async def _follow(self, name: str, argv: list[str]) -> None:
        try:
            child = self.children.spawn(
                argv, env=BASE_ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            await child.done
            self.journal.add(f"{name}: Deactivated successfully.", unit=name)
        except OSError as error:
            program = Path(argv[0]).name
            self.journal.add(f"{name}: Failed at step EXEC spawning {program}: {error.strerror}", unit=name)
        finally:
            self.running.pop(name, None)
