"""From a PID to what runs there: command line, interpreter, package, version, the server's own settings."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.contract import Host, ToolContext, ToolError
from tools.definitions import HIDDEN, is_secret
from tools.launch_line import Flag, engine_of, flags, mask

if TYPE_CHECKING:
    import httpx2

_SCRIPT = Path(__file__).with_suffix(".sh")
_LIMIT_S = 15.0
_ASK_S = 5.0
_ASK_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Hold what is known of one engine process; ``effective`` is empty when the server did not say."""

    host: str
    pid: int
    start_time: int
    engine: str
    argv: tuple[str, ...] = field(repr=False)
    """As launched; it may hold secrets: show `shown_argv`."""
    flags: dict[str, Flag] = field(repr=False)
    interpreter: str
    package: str
    version: str | None
    package_root: str | None
    port: int | None
    cwd: str | None
    uid: int | None
    environ: dict[str, str]
    effective: dict[str, Any] = field(repr=False)
    not_permitted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def shown_argv(self) -> list[str]:
        """Return the command line with the values of secret flags hidden."""
        return mask(self.argv)


async def load_process(
    ctx: ToolContext, host: Host, pid: int | None = None, process_root: int | None = None
) -> ProcessFacts:
    """Describe an engine process (the main one when no PID is given) in one command; kept in the cache."""
    key = f"process:{host.name}:{pid}:{process_root}"
    if key in ctx.cache:
        kept: ProcessFacts = ctx.cache[key]
        return kept
    root = f"/proc/{process_root}/root" if process_root else ""
    records, denied = await _looked_at(host, pid, root)
    if pid is None and "pid" in records and not records.get("cmdline"):
        # What was found ended before it was read, as in a restart: what runs now is what was asked for.
        records, denied = await _looked_at(host, pid, root)
    facts = await described(host, pid, records, denied)
    ctx.cache[key] = ctx.cache[f"process:{host.name}:{facts.pid}:{process_root}"] = facts
    return facts


async def _looked_at(host: Host, pid: int | None, root: str) -> tuple[dict[str, bytes], list[str]]:
    argv = ["sh", "-c", _SCRIPT.read_text(), "process", str(pid or ""), root]
    result = await host.exec(argv, timeout_s=_LIMIT_S, max_bytes=8 << 20, retry=True)
    if not result.ok:
        raise ToolError(f"cannot look at processes on {host.name}: {result.outcome} {result.detail}".rstrip())
    return read_records(result.stdout.data)


def forget_process(ctx: ToolContext, facts: ProcessFacts) -> None:
    """Drop what the cache holds of a process that is gone or was started anew."""
    for key in [key for key, value in list(ctx.cache.items()) if value is facts]:
        del ctx.cache[key]


def effective_settings(answer: object) -> dict[str, Any]:
    """Return the scheduler's copy of the settings from ``/server_info``, else the front end's; no secrets."""
    if not isinstance(answer, dict):
        return {}
    states = answer.get("internal_states")
    inner = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else answer
    return {str(name): value for name, value in inner.items() if not is_secret(str(name))}


async def described(
    host: Host, pid: int | None, records: Mapping[str, bytes], denied: list[str]
) -> ProcessFacts:
    """Return the facts of what ``process.sh`` sent; a server the host could not ask is asked from here."""
    facts = _facts(host.name, pid, records, denied)
    if records.get("server_info") == b"noclient" and facts.port:
        return await _asked_through(host, facts)
    return facts


def read_records(output: bytes) -> tuple[dict[str, bytes], list[str]]:
    """Return the records of ``process.sh`` by name, and what it may not read."""
    records: dict[str, bytes] = {}
    denied: list[str] = []
    hexadecimal = False
    for row in output.split(b"\n"):
        name, _, value = row.decode("ascii", "replace").partition(" ")
        if name == "encoding":
            hexadecimal = value == "hex"
        elif name == "denied":
            denied.append(value)
        elif name in ("gone", "none"):
            records[name] = b""
        elif name:
            records.setdefault(name, _decoded(value, hexadecimal))
    return records, denied


def _decoded(value: str, hexadecimal: bool) -> bytes:
    try:
        return bytes.fromhex(value) if hexadecimal else base64.b64decode(value)
    except (ValueError, binascii.Error):
        return b""


def _text(records: Mapping[str, bytes], name: str) -> str:
    return records.get(name, b"").decode("utf-8", "replace")


def _facts(host: str, pid: int | None, records: Mapping[str, bytes], denied: list[str]) -> ProcessFacts:
    if "gone" in records:
        raise ToolError(f"no process {pid} on {host}; call facts for the engine processes that run now")
    if "none" in records:
        raise ToolError(
            f"no process of an inference engine is visible on {host}: it may be down, or hidden from this "
            "account; call facts for units and processes, or give an absolute path"
        )
    found = int(_text(records, "pid"))
    if not records.get("cmdline"):  # it may end between being found and being read
        raise ToolError(
            f"process {found} on {host} ended while it was looked at; call facts for what runs now"
        )
    argv = tuple(part.decode("utf-8", "replace") for part in records["cmdline"].rstrip(b"\0").split(b"\0"))
    engine = engine_of(argv)
    if engine is None:
        raise ToolError(f"process {found} on {host} is not an inference engine: {' '.join(mask(argv))[:120]}")
    effective, notes = _server_answer(_text(records, "server_info"))
    inside = _text(records, "inside").split()
    if str(found) in inside:
        notes = (*notes, f"process {found} runs in a container; process_root={found} shows its files")
    mains = [p for p in _text(records, "mains").split() if p != str(found)]
    others = [f"{p} (in a container)" if p in inside else p for p in mains]
    if others:
        notes = (*notes, f"other engine processes here: {', '.join(others)}; pid chooses one")
    port, uid = _text(records, "port"), _text(records, "status").split()
    return ProcessFacts(
        host=host,
        pid=found,
        start_time=_start_time(_text(records, "stat")),
        engine=engine,
        argv=argv,
        flags=flags(argv, engine),
        interpreter=_text(records, "python") or _text(records, "exe"),
        package=engine,
        version=_text(records, "version") or _text(records, "written").strip() or None,
        package_root=_text(records, "package_root") or None,
        port=int(port) if port.isdigit() else None,
        cwd=_text(records, "cwd") or None,
        uid=int(uid[1]) if len(uid) > 1 else None,
        environ=_environ(_text(records, "environ")),
        effective=effective,
        not_permitted=tuple(f"{name} of process {found}" for name in denied),
        notes=notes,
    )


def _start_time(stat: str) -> int:
    """Return field 22 of ``/proc/PID/stat``: the command in brackets may hold anything."""
    rest = stat.rpartition(")")[2].split()
    return int(rest[19]) if len(rest) > 19 else 0


def _environ(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: HIDDEN if is_secret(name) else value for name, _, value in pairs}


def _server_answer(answer: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    body, _, status = answer.rpartition("\n")
    if status in ("401", "403"):
        return {}, ("server_info: not permitted without the server's key",)
    try:
        found = effective_settings(json.loads(body)) if status == "200" else {}
    except (ValueError, RecursionError):
        found = {}
    return found, () if found else ("server_info: no answer, effective values are not known",)


async def _asked_through(host: Host, facts: ProcessFacts) -> ProcessFacts:
    """Ask the server through a forwarded port where the host has no HTTP client."""
    import dataclasses

    import httpx2

    port = await host.forward(facts.port or 0)
    answer = ""
    try:
        async with asyncio.timeout(_ASK_S), httpx2.AsyncClient(timeout=2.0, trust_env=False) as client:
            for path in ("/server_info", "/get_server_info"):
                async with client.stream("GET", f"http://127.0.0.1:{port}{path}") as reply:
                    answer = f"{await _bounded(reply)}\n{reply.status_code}"
                if reply.status_code == 200:
                    break
    except (httpx2.HTTPError, TimeoutError):
        return facts
    effective, notes = _server_answer(answer)
    others = tuple(note for note in facts.notes if not note.startswith("server_info"))
    return dataclasses.replace(facts, effective=effective, notes=(*others, *notes))


async def _bounded(reply: httpx2.Response) -> str:
    """Return the body of an answer; nothing of one that is longer than any real answer is."""
    body = bytearray()
    async for chunk in reply.aiter_bytes():
        body += chunk
        if len(body) > _ASK_BYTES:
            return ""
    return body.decode("utf-8", "replace")
