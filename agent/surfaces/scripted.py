"""Run the scripted model server from the command line, until interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.errors import UsageError
from agent.surfaces.console import write_fitted


def serve(port: int, script: Path | None, faults: Sequence[str]) -> None:
    """Print the base URL on stdout and serve until SIGINT or SIGTERM."""
    asyncio.run(_serve(port, script, faults))


async def _serve(port: int, script: Path | None, faults: Sequence[str]) -> None:
    from agent.models.scripted import MODEL, ScriptedServer, serving
    from agent.models.scripted_script import by_method, from_file, parse_faults

    server = ScriptedServer(from_file(script) if script else by_method(), parse_faults(faults))
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    try:
        async with serving(server, port) as url:
            sys.stdout.write(url + "\n")
            sys.stdout.flush()
            write_fitted(
                f"  use it with: leadline ask HOST SYMPTOM --model {MODEL} --base-url {url}\n", sys.stderr
            )
            await over.wait()
    except OSError as error:
        raise UsageError(f"cannot listen on port {port}: {error.strerror}", do="use --port 0") from error
