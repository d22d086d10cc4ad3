"""Process 1 of a lab host: journal, services, the stand-ins' socket, and the SSH server.

Started as ``python init.py PATHS... LISTEN_FD CONFIG_FD REPORT_FD``; it reports ``ssh``, then ``ready`` or
``failed``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evals.lab.inside.services import Services
    from evals.lab.inside.sshd import Door

_POLL_S = 0.03


@dataclass(slots=True)
class Report:
    """Tell the process that started the lab how far it is; it may be gone."""

    descriptor: int

    def say(self, line: str) -> None:
        """Write one line."""
        try:
            os.write(self.descriptor, (line.replace("\n", " ") + "\n").encode())
        except OSError:
            return


async def _answers(port: int, path: str) -> bool:
    """Tell whether a server inside answers with 200."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        async with asyncio.timeout(5):
            return b" 200 " in await reader.readline()
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()


async def _bring_up(services: Services, config: dict[str, Any], report: Report) -> None:
    """Start the enabled services and report when the one that matters answers."""
    from evals.lab.inside.services import JobFailed

    for path, kib in config["disks"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(bytes(kib << 10))
    for name in config["enabled"]:
        try:
            await services.start(services.get(name))
        except JobFailed as error:
            report.say(f"failed {error}")
    if ready := config["ready"]:
        service = services.get(ready["unit"])
        while not await _answers(ready["port"], ready["path"]):
            if service.active == "failed" or service.sub == "auto-restart":
                report.say(f"failed {service.name} did not start: {_last_line(services, service.name)}")
                return
            await asyncio.sleep(_POLL_S)
    for name, text in config["edited"].items():
        Path("/etc/systemd/system", name).write_text(text)
    report.say("ready")
    services.journal.echo = None
    os.close(report.descriptor)


def _last_line(services: Services, unit: str) -> str:
    own = (e.text for e in reversed(services.journal.entries) if e.unit == unit and e.ident != "systemd")
    return next(own, "it printed nothing")


async def _until_idle(door: Door, limit_s: float, up: asyncio.Task[None]) -> None:
    """Return when, once the host is up, nobody has been connected for so long."""
    await asyncio.wait([up])
    door.idle_since = max(door.idle_since, time.monotonic())
    while (left := limit_s - door.idle_s) > 0:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(door.changed.wait(), max(left, 0.1) if not door.connections else None)
        door.changed.clear()


async def _main(listener: socket.socket, config: dict[str, Any], report: Report) -> None:
    import asyncssh

    from evals.lab.inside import analyze, control, sshd
    from evals.lab.inside.children import Children
    from evals.lab.inside.journal import Journal
    from evals.lab.inside.journalctl import Journalctl
    from evals.lab.inside.nvidia_smi import NvidiaSmi
    from evals.lab.inside.programs import Programs
    from evals.lab.inside.services import Services
    from evals.lab.inside.systemctl import Systemctl
    from evals.lab.inside.timers import Timers

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    children = Children()
    children.install()
    journal = Journal.from_history(config["hostname"], config["boots"], config["history"])
    journal.echo = sys.stdout
    services = Services(children, journal)
    timers = Timers(children, journal)
    programs = Programs(services, config["described"])
    commands: dict[str, control.Command] = {
        "systemctl": Systemctl(services, timers).run,
        "systemd-run": timers.run,
        "systemd-analyze": analyze.run,
        "journalctl": Journalctl(journal).run,
        "lab-described": programs.facts,
        "lab-program": programs.person,
    }
    if config["hardware"] is not None:
        commands["nvidia-smi"] = NvidiaSmi(config["hardware"], Path(config["state_file"])).run
    door = sshd.Door(asyncssh.import_public_key(config["authorized_key"]))
    async with await control.serve(commands):
        acceptor = await sshd.serve(listener, config["host_key"], door, children)
        report.say("ssh")
        up = asyncio.create_task(_bring_up(services, config, report))
        idle = asyncio.create_task(_until_idle(door, config["idle_s"], up))
        stop = asyncio.create_task(ended.wait())
        await asyncio.wait([idle, stop], return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        acceptor.close()
    os._exit(0)  # the kernel ends everything else in this sandbox with process 1


def main() -> None:
    """Take over the descriptors and run until told to stop, or idle for too long."""
    listen_fd, config_fd, report_fd = (int(word) for word in sys.argv[-3:])
    sys.path[:1] = sys.argv[1:-3]
    for descriptor in (listen_fd, report_fd):
        os.set_inheritable(descriptor, False)
    with os.fdopen(config_fd) as stream:
        config = json.load(stream)
    asyncio.run(_main(socket.socket(fileno=listen_fd), config, Report(report_fd)))


if __name__ == "__main__":
    main()
