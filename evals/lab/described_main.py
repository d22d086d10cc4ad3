"""Run one described service as a process: start, serve until told to stop. Standard library only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.lab import tenants
from evals.lab.described_engine import Engine
from evals.lab.described_gpus import ControlGroup, DescribedGpus
from evals.lab.described_ollama import OllamaServer
from evals.lab.described_rules import Machine, merged
from evals.lab.described_server import DescribedServer, ServiceLog
from evals.lab.simulator_connection import MAX_HEAD

_READY = {
    "vllm": (
        "INFO:     Started server process [{pid}]",
        "INFO:     Waiting for application startup.",
        "INFO:     Application startup complete.",
    ),
    "sglang": (
        "INFO:     Started server process [{pid}]",
        "INFO:     Application startup complete.",
        "The server is fired up and ready to roll!",
    ),
    "llamacpp": ("main: server is listening on http://{bind}:{port} - starting the main loop",),
    "ollama": (
        'time={time:%Y-%m-%dT%H:%M:%S}.000Z level=INFO source=routes.go:1569 msg="Listening on '
        '{bind}:{port} (version {version})"',
    ),
}


def run(facts: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Run a service until SIGTERM and return its exit code.

    ``facts`` holds what process 1 knows: ``unit``, ``service`` (the description), ``settings`` of the unit,
    ``host``, ``hardware``, ``state_file``, ``site`` and ``version``; ``argv`` is the whole command line.
    """
    return asyncio.run(Life(facts, argv).run())


class Life:
    """Hold one run of a service."""

    def __init__(self, facts: Mapping[str, Any], argv: Sequence[str]) -> None:
        self.service: Mapping[str, Any] = facts["service"]
        self.machine = Machine(
            argv,
            dict(os.environ),  # noqa: TID251 - the rules are about this process's own environment
            unit=facts["settings"],
            host=facts["host"],
            values={
                **self.service["values"],
                "port": [self.service["port"]],
                "bind": [self.service["bind"]],
            },
            live={"pid": os.getpid(), "site": facts["site"], "version": facts["version"]},
        )
        self.log = ServiceLog(str(self.service["api"]), bool(self.service["access_log"]))
        self.group = ControlGroup(str(facts["unit"]), self.machine)
        hardware = facts["hardware"]
        self.gpus = DescribedGpus(hardware, self.machine, facts["state_file"]) if hardware else None
        self.machine.live["tenants"] = len(tenants.present(hardware or {}))
        self.stop = asyncio.Event()

    async def run(self) -> int:
        """Start, serve, end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)
        self.group.create()
        try:
            effect = merged(list(self.service["rules"].values()), self.machine)
            if await self._start(effect):
                return 0
            if effect.get("exit"):
                for line in self.machine.fill(effect["exit"]["text"]).splitlines():
                    self.log.raw(line)
                return int(effect["exit"]["code"])
            self._write(effect.get("writes") or {})
            return await self._serve()
        finally:
            self.group.remove()
            if self.gpus is not None:
                self.gpus.stop()

    async def _start(self, effect: Mapping[str, Any]) -> bool:
        """Print the start's lines over its time; return True when it was told to stop meanwhile."""
        lines = self.machine.fill(effect.get("start", "")).splitlines()
        number = self.machine.number(effect.get("ready_s"))
        seconds = 0.5 if number is None else float(number)
        if self.gpus is not None:
            self.gpus.show(effect.get("gpu"), False)
            self.gpus.enter("loading", memory_gib=0.0, gpus=1)
        for place, line in enumerate(lines):
            if await self._told(seconds * 0.8 / len(lines) if place else 0.0):
                return True
            self.log.raw(line)
        silent = float(self.machine.number(effect.get("silent_s")) or 0.0)
        return await self._told(seconds * (0.2 if lines else 1.0) + silent)

    async def _told(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.stop.wait(), max(seconds, 0.001))
        except TimeoutError:
            return False
        return True

    def _write(self, wanted: Mapping[str, int]) -> None:
        """Keep files for the next start; as drivers do, say nothing where there is no room."""
        for name, kib in wanted.items():
            path = Path(self.machine.fill(name)).expanduser()
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes(kib << 10))
            except OSError:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    async def _serve(self) -> int:
        engine = Engine(self.service, self.machine, self.log.raw)
        kind = OllamaServer if self.service["api"] == "ollama" else DescribedServer
        server = kind(self.service, engine, self.log)
        host, port = str(self.machine.of("bind")), self.machine.of("port")
        try:
            listening = await asyncio.start_server(server.serve_client, host, int(port), limit=MAX_HEAD)
        except (OSError, ValueError, TypeError) as error:
            self.log.raw(f"ERROR: cannot listen on {host}:{port}: {error}")
            return 1
        engine.on_load = lambda: self._show(engine)
        if self.gpus is not None:
            self.gpus.enter("serving", memory_gib=0.0, gpus=1)
        children = self._children()
        for line in _READY[str(self.service["api"])]:
            self.log.raw(self.machine.fill(line))
        await self.stop.wait()
        engine.stop()
        listening.close()
        server.cancel()
        for child in children:
            os.kill(child, signal.SIGTERM)
        return 0

    def _show(self, engine: Engine) -> None:
        if self.gpus is not None:
            self.gpus.show(engine.effect.get("gpu"), engine.busy)
        self.group.show(engine.busy, engine.effect.get("throttled"))

    def _children(self) -> list[int]:
        from evals.lab.inside import disguise

        lines = [(self.machine.fill(child["command"]), child["exe"]) for child in self.service["children"]]
        return [disguise.start(shlex.split(line), exe) for line, exe in lines]
