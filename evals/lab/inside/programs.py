"""Answer for the programs of described services: a service gets its facts, a person what programs say."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.lab.inside.control import Output
from evals.lab.inside.services import Services


@dataclass(slots=True)
class Programs:
    """Hold the descriptions, which lie nowhere on the host itself."""

    services: Services
    described: Mapping[str, Any]
    """``units``: unit -> what its process is told; ``programs``: program's name -> unit."""

    async def facts(self, argv: list[str], output: Output) -> int:
        """Answer a process by the invocation of its service."""
        for service in self.services.loaded.values():
            told = self.described["units"].get(service.name)
            if told is not None and argv[:1] == [service.invocation]:
                settings = {
                    key.removeprefix("Service."): values[-1]
                    for key, values in service.unit.settings.items()
                    if key.startswith("Service.") and values
                }
                output.out(json.dumps({**told, "unit": service.name, "settings": settings}))
                return 0
        return 1

    async def person(self, argv: list[str], output: Output) -> int:
        """Answer a command line that no service gave."""
        name, words = Path(argv[0]).name, argv[1:]
        unit = self.described["programs"].get(name, "")
        told = self.described["units"].get(unit)
        if told is not None and words[:1] in (["--version"], ["-v"], ["version"]):
            head = {"ollama": "ollama version is ", "llama-server": "version: "}.get(name, "")
            output.out(f"{head}{told['version']}\n")
            return 0
        if name == "ollama" and told is not None and words[:1] in (["list"], ["ls"]):
            output.out(f"NAME    ID    SIZE    MODIFIED\n{told['service']['model']}\n")
            return 0
        output.err(f"{name}: simulated by the lab: it runs as {unit or 'a service'} only")
        return 1


def main(argv: Sequence[str]) -> int:
    """Run as the program at ``argv[0]``: become its service, or answer a person."""
    from evals.lab.inside import ask, disguise

    if ask.described(os.environ.get("INVOCATION_ID", "")):  # noqa: TID251 - the service's own environment
        disguise.become(argv)
    code, out, err = ask.ask(["lab-program", *argv])
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code
