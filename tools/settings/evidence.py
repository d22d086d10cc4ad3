"""Gather what was asked of an engine and what it says of itself, in one command beside the evaluation."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from tools.contract import Host, ToolError
from tools.launch_line import mask_text
from tools.settings.locate import Location

_LIMIT_S: Final = 25.0
_MAX_UNPACKED: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Evidence:
    """Hold the texts of one process, empty where the host shows none."""

    unit: str = ""
    unit_text: str = ""
    """As ``systemctl cat`` prints it."""
    unit_show: str = ""
    environment_files: Mapping[str, str] = field(default_factory=dict)
    """Path to ``LINE:NAME=VALUE`` rows; ``!denied`` where it may not be read."""
    script: str = ""
    """Path of the script that the unit runs."""
    script_text: str = ""
    log: str = ""
    """The lines of this start."""
    decode: str = ""
    metrics: str = ""


@cache
def _script() -> str:
    return Path(__file__).with_name("evidence.sh").read_text()


async def gather(host: Host, location: Location, unit: str = "") -> Evidence:
    """Read the evidence of a process; raise `ToolError` when it ended meanwhile or nothing came."""
    mark, facts = uuid.uuid4().hex, location.process
    words = [mark, str(facts.pid), unit or location.unit, f"{location.started_at:.0f}", location.output]
    words += [str(facts.port or ""), location.root]
    result = await host.exec(
        ["sh", "-c", _script(), "evidence", *words], timeout_s=_LIMIT_S, max_bytes=8 << 20, retry=True
    )
    if not result.ok:
        raise ToolError(f"unit and log of process {facts.pid}: {result.outcome} {result.detail}".rstrip())
    sections = _sections(_unpacked(result.stdout.data), mark)
    names = [name.partition(" ")[0] for name in sections]
    if "gone" in names:
        raise ToolError(f"process {facts.pid} on {host.name} ended while it was looked at; ask again")
    return _evidence(sections)


def _unpacked(output: bytes) -> str:
    how, _, body = output.partition(b"\n")
    if how == b"gzip":
        unpacking = zlib.decompressobj(wbits=31)
        try:
            body = unpacking.decompress(body, _MAX_UNPACKED)
        except zlib.error:
            body = b""
    return body.decode("utf-8", "replace")


def _sections(text: str, mark: str) -> dict[str, str]:
    """Return the body of each section by its whole heading."""
    found = {}
    for part in text.split(f"\n@@{mark} ")[1:]:
        head, _, body = part.partition("\n")
        found[head.strip()] = body
    return found


def _evidence(sections: Mapping[str, str]) -> Evidence:
    def first(kind: str) -> tuple[str, str]:
        for head, body in sections.items():
            if head.partition(" ")[0] == kind:
                return head.partition(" ")[2], body
        return "", ""

    files = {
        head.partition(" ")[2]: body
        for head, body in sections.items()
        if head.startswith("environment_file ")
    }
    script, text = first("script")
    return Evidence(
        unit=first("unit")[0],
        unit_text=mask_text(first("cat")[1]),
        unit_show=mask_text(first("show")[1]),
        environment_files=files,
        script=script,
        script_text=mask_text(text),
        log=first("log")[1],
        decode=first("decode")[1],
        metrics=first("metrics")[1],
    )
