"""Run a simulated engine as a process of its own, given the command line the real one would get.

The effective settings come from the package's own argument code (`evals.lab.engine_args`), the pace from
`evals.lab.cost_model`; nothing in here knows what is expected of anybody who looks at it. Standard library
only, so that it runs inside the sandbox.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.lab.engine_args import Effective, derive_cached
from evals.lab.engine_facts import Scenario
from evals.lab.simulator_connection import MAX_HEAD
from evals.lab.simulator_engine import Engine
from evals.lab.simulator_http import Server
from evals.lab.simulator_launch import Launch
from evals.lab.simulator_log import EngineLog
from evals.lab.simulator_startup import StartFailed, Startup
from evals.lab.simulator_state import GpuState
from evals.lab.simulator_views import Views


def main(argv: Sequence[str], facts_file: str) -> int:
    """Run the engine with the arguments ``argv`` on the facts in a JSON file; return its exit code."""
    return run(json.loads(Path(facts_file).read_text(encoding="utf-8")), argv)


def run(scenario: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Run the engine until SIGTERM and return its exit code.

    ``scenario`` is the JSON object of `evals.lab.engine_facts.Scenario`, ``argv`` what follows the module's
    name on the command line.
    """
    facts = Scenario.from_json(scenario)
    log = EngineLog()
    effective = derive_cached(
        Path(facts.settings_cache) if facts.settings_cache else None,
        Path(facts.package_dir),
        argv,
        hardware=facts.hardware,
        config=facts.model.config,
        environ=dict(os.environ),  # noqa: TID251 - the engine's own code reads its process's environment
    )
    for _, text in effective.logs if effective.stage != "parse" else ():
        log.line(text)
    if effective.output:
        (sys.stderr if effective.exit_code or effective.starts else sys.stdout).write(effective.output)
    if not effective.starts:
        if effective.trace:
            log.raw(effective.trace)
        return effective.exit_code
    log.line(f"server_args={effective.text}")
    return asyncio.run(_serve(facts, effective, log))


async def _serve(scenario: Scenario, effective: Effective, log: EngineLog) -> int:
    """Start, serve until SIGTERM or SIGINT, stop."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    state = GpuState(scenario)
    life = asyncio.create_task(_live(scenario, effective, log, state, stop))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({life, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            log.line("INFO:     Shutting down")
        life.cancel()
        return await life
    except asyncio.CancelledError:
        return 0
    finally:
        stopping.cancel()
        state.stop()


async def _live(
    scenario: Scenario, effective: Effective, log: EngineLog, state: GpuState, stop: asyncio.Event
) -> int:
    launch = Launch.of(scenario, effective.fields)
    try:
        await Startup(scenario, launch, log, state).run()
    except StartFailed as error:
        for number, text in enumerate(error.lines):
            log.raw(text) if number else log.line(text, launch.rank)
        return error.code
    engine = Engine(scenario, launch, log)
    engine.on_load = lambda: state.load(engine.duty)
    server = Server(engine, Views(scenario, engine, _version(scenario)), log, scenario.text_seed)
    host, port = str(launch.fields["host"]), int(launch.fields["port"])
    try:
        listening = await asyncio.start_server(server.serve_client, host, port, limit=MAX_HEAD)
    except OSError as error:
        where = f"address ('{host}', {port})"
        log.line(f"ERROR:    [Errno {error.errno}] error while attempting to bind on {where}")
        return 1
    try:
        for text in (
            f"INFO:     Started server process [{os.getpid()}]",
            "INFO:     Waiting for application startup.",
            "INFO:     Application startup complete.",
            f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)",
            "The server is fired up and ready to roll!",
        ):
            log.line(text)
        await stop.wait()
    finally:
        engine.stop()
        listening.close()
        server.cancel()
    return 0


def _version(scenario: Scenario) -> str:
    if scenario.version:
        return scenario.version
    folder = Path(scenario.package_dir)
    names = [path.name for path in folder.parent.glob(f"{folder.name}-*.dist-info")]
    return names[0].removeprefix(f"{folder.name}-").removesuffix(".dist-info") if names else "unknown"
