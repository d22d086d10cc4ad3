"""Run the scenario's services as systemd would: start, stop, restart on failure, and keep the records."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from evals.lab.inside import limits, unitfile
from evals.lab.inside.children import Child, Children
from evals.lab.inside.journal import Journal
from evals.lab.inside.unitfile import UnitFile

BASE_ENV = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/home/lab",
    "LOGNAME": "lab",
    "USER": "lab",
    "SHELL": "/bin/bash",
}
_STOPPED_BY_US = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE})


def status_of(wait_status: int) -> tuple[str, int]:
    """Return systemd's code and status of a wait status: ``exited, 1`` or ``killed, 9``."""
    if os.WIFEXITED(wait_status):
        return "exited", os.WEXITSTATUS(wait_status)
    return "killed", os.WTERMSIG(wait_status)


@dataclass(slots=True)
class Service:
    """Hold a loaded unit and the state of its processes."""

    unit: UnitFile
    active: str = "inactive"
    sub: str = "dead"
    result: str = "success"
    child: Child | None = None
    exec_pid: int = 0
    exec_argv: list[str] = field(default_factory=list)
    started_at: float = 0.0
    exited_at: float = 0.0
    exit_code: str = ""
    exit_status: int = 0
    changed_at: float = 0.0
    active_at: float = 0.0
    restarts: int = 0
    recent: list[float] = field(default_factory=list)
    invocation: str = ""
    stopping: bool = False
    watcher: asyncio.Task[None] | None = None
    readers: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the unit's name."""
        return self.unit.name

    @property
    def title(self) -> str:
        """Return name and description as systemd's messages show them."""
        description = self.unit.last("Unit.Description", self.name)
        return f"{self.name} - {description}"

    @property
    def main_pid(self) -> int:
        """Return the process id of the running main process, or 0."""
        return self.child.pid if self.child is not None and not self.child.done.done() else 0

    def move(self, active: str, sub: str) -> None:
        """Enter a state and note when."""
        self.changed_at = time.time()
        if active == "active" and self.active != "active":
            self.active_at = self.changed_at
        self.active, self.sub = active, sub


class JobFailed(Exception):
    """Report a start or stop that did not end well."""


@dataclass(slots=True)
class Services:
    """Hold all loaded services; what `systemctl` talks to."""

    children: Children
    journal: Journal
    loaded: dict[str, Service] = field(default_factory=dict)

    def get(self, name: str) -> Service:
        """Return a service, loading its unit at the first mention."""
        if name not in self.loaded:
            self.loaded[name] = Service(unitfile.load(name))
        return self.loaded[name]

    def reload(self) -> None:
        """Read all units again (`daemon-reload`); running processes stay as they are."""
        self.journal.add("Reloading.")
        for name in list(self.loaded):
            self.loaded[name].unit = unitfile.load(name)

    async def start(self, service: Service) -> None:
        """Start a service unless it is active; raise `JobFailed` when its process cannot be started."""
        if service.active in ("active", "activating") and service.main_pid:
            return
        service.recent.clear()
        service.restarts = 0
        await self._launch(service)

    async def restart(self, service: Service) -> None:
        """Stop, then start, a service."""
        await self.stop(service)
        await self.start(service)

    async def stop(self, service: Service) -> None:
        """Send TERM to the service's processes, KILL after its stop limit."""
        service.stopping = True
        if service.sub == "auto-restart" and service.watcher is not None:
            service.watcher.cancel()
        child = service.child
        if child is not None and not child.done.done():
            service.move("deactivating", "stop-sigterm")
            self._log(service, f"Stopping {service.title}...")
            child.signal_group(signal.SIGTERM)
            limit = min(unitfile.seconds(service.unit.last("Service.TimeoutStopSec"), 90.0), 90.0)
            await asyncio.wait([child.done], timeout=limit)
            if not child.done.done():
                self._log(service, f"{service.name}: State 'stop-sigterm' timed out. Killing.", 4)
            child.signal_group(signal.SIGKILL)
            await child.done
            if service.watcher is not None:
                await asyncio.wait([service.watcher])
        elif service.active != "inactive":
            service.move("inactive", "dead")

    async def _launch(self, service: Service) -> None:
        unit = service.unit
        service.stopping = False
        service.invocation = uuid.uuid4().hex
        try:
            env = self._environment(service)
        except OSError as error:
            self._refuse(service, "resources", f"{unit.name}: Failed to load environment files: {error}")
        await self._before(service, env)
        lines = unit.all("Service.ExecStart")
        if not lines:
            self._refuse(service, "resources", f"{unit.name}: Service has no ExecStart= setting. Refusing.")
        if unit.last("Service.Type", "simple") == "oneshot":
            await self._oneshot(service, lines, env)
            return
        argv, _ = unitfile.command(lines[-1], env, unit.name)
        child = self._spawn(service, argv, env)
        service.child = child
        service.move("active", "running")
        self._log(service, f"Started {service.title}.")
        service.watcher = asyncio.create_task(self._watch(service, child))

    async def _before(self, service: Service, env: dict[str, str]) -> None:
        for line in service.unit.all("Service.ExecStartPre"):
            argv, ignore = unitfile.command(line, env, service.name)
            status = await self._spawn(service, argv, env).done
            if status and not ignore:
                code, number = status_of(status)
                self._refuse(
                    service,
                    "exit-code",
                    f"{service.name}: Control process exited, code={code}, status={number}",
                )

    async def _oneshot(self, service: Service, lines: list[str], env: dict[str, str]) -> None:
        service.move("activating", "start")
        for line in lines:
            argv, ignore = unitfile.command(line, env, service.name)
            status = await self._spawn(service, argv, env).done
            self._note_exit(service, status)
            if status and not ignore:
                self._refuse(service, "exit-code", f"{service.name}: Failed with result 'exit-code'.")
        stays = service.unit.last("Service.RemainAfterExit", "no") in ("yes", "true", "1", "on")
        service.move(*(("active", "exited") if stays else ("inactive", "dead")))
        self._log(service, f"Finished {service.title}.")

    def _refuse(self, service: Service, result: str, message: str) -> NoReturn:
        service.result = result
        service.move("failed", "failed")
        self._log(service, message, 4)
        self._log(service, f"Failed to start {service.title}.", 3)
        raise JobFailed(message)

    def _environment(self, service: Service) -> dict[str, str]:
        own = {"INVOCATION_ID": service.invocation, "SYSTEMD_EXEC_PID": "0"}
        return {**BASE_ENV, **own, **unitfile.environment(service.unit)}

    def _spawn(self, service: Service, argv: list[str], env: dict[str, str]) -> Child:
        cwd = service.unit.last("Service.WorkingDirectory", "/").lstrip("-").replace("~", env["HOME"])
        read_end, write_end = os.pipe()
        try:
            child = self.children.spawn(argv, env=env, cwd=cwd, stdout=write_end, stderr=write_end)
        except OSError as error:
            os.close(read_end)
            service.exit_code, service.exit_status = "exited", 203
            self._log(
                service,
                f"{service.name}: Failed at step EXEC spawning {argv[0] if argv else '?'}: {error.strerror}",
                3,
            )
            self._refuse(service, "exit-code", f"{service.name}: Failed with result 'exit-code'.")
        finally:
            os.close(write_end)
        limits.apply(child.pid, service.unit)
        service.exec_pid, service.exec_argv, service.started_at = child.pid, argv, time.time()
        service.exit_code, service.exited_at = "", 0.0
        task = asyncio.create_task(self._capture(service.name, Path(argv[0]).name, child.pid, read_end))
        service.readers = [t for t in service.readers if not t.done()] + [task]
        return child

    async def _capture(self, unit: str, ident: str, pid: int, descriptor: int) -> None:
        reader = asyncio.StreamReader(limit=256 * 1024)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        try:
            await self.journal.capture(reader, unit=unit, ident=ident, pid=pid)
        finally:
            transport.close()

    def _note_exit(self, service: Service, status: int) -> None:
        service.exited_at = time.time()
        service.exit_code, service.exit_status = status_of(status)

    async def _watch(self, service: Service, child: Child) -> None:
        status = await asyncio.shield(child.done)
        child.signal_group(signal.SIGKILL)  # KillMode=control-group: what is left of the service goes too
        await asyncio.wait(service.readers, timeout=0.2)
        self._note_exit(service, status)
        clean = status == 0 or (service.exit_code == "killed" and service.exit_status in _STOPPED_BY_US)
        if status:
            name = signal.Signals(service.exit_status).name[3:] if service.exit_code == "killed" else "n/a"
            shown = "FAILURE" if service.exit_code == "exited" else name
            self._log(
                service,
                f"{service.name}: Main process exited, code={service.exit_code},"
                f" status={service.exit_status}/{shown}",
                5,
            )
        if service.stopping or clean:
            self._ended_well(service)
            if service.stopping or service.unit.last("Service.Restart", "no") not in ("always", "on-success"):
                return
        else:
            service.result = "exit-code" if service.exit_code == "exited" else "signal"
            service.move("failed", "failed")
            self._log(service, f"{service.name}: Failed with result '{service.result}'.", 4)
            wanted = service.unit.last("Service.Restart", "no")
            if wanted not in ("always", "on-failure", "on-abnormal"):
                return
            if wanted == "on-abnormal" and service.exit_code == "exited":
                return
        await self._restart_later(service)

    def _ended_well(self, service: Service) -> None:
        service.result = "success"
        service.move("inactive", "dead")
        self._log(service, f"{service.name}: Deactivated successfully.")
        if service.stopping:
            self._log(service, f"Stopped {service.title}.")

    async def _restart_later(self, service: Service) -> None:
        unit = service.unit
        window = unitfile.seconds(unit.last("Unit.StartLimitIntervalSec"), 10.0)
        burst = int(unit.last("Unit.StartLimitBurst", "5"))
        now = time.time()
        service.recent = [at for at in service.recent if now - at < window]
        if 0 < burst <= len(service.recent) + 1:
            service.result = "start-limit-hit"
            service.move("failed", "failed")
            self._log(service, f"{service.name}: Start request repeated too quickly.", 4)
            return
        service.recent.append(now)
        service.move("activating", "auto-restart")
        await asyncio.sleep(unitfile.seconds(unit.last("Service.RestartSec"), 0.1))
        service.restarts += 1
        self._log(
            service, f"{service.name}: Scheduled restart job, restart counter is at {service.restarts}."
        )
        try:
            await self._launch(service)
        except JobFailed:
            return

    def _log(self, service: Service, text: str, priority: int = 6) -> None:
        self.journal.add(text, unit=service.name, priority=priority)
