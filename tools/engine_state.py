"""Ask the engines of a host, side by side, whether they are healthy and which settings are in force."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import Field

from tools import bounded_http, facts
from tools.contract import Host, HostArgs, Tool, ToolContext, ToolError
from tools.facts_flat import Flat, Look, looked, text_of
from tools.history_store import keep_look
from tools.host import ConnectError
from tools.observe import observe

_VOLATILE: Final = frozenset({"random_seed", "last_gen_throughput", "status", "internal_states"})
_HEALTH: Final = {"ollama": "/api/version"}
_SHOWN: Final = 60
_NOT_SERVED: Final = "the server tells no settings"


class Args(HostArgs):
    """Arguments of `engine_state`."""

    names: list[str] = Field(
        default_factory=list,
        max_length=16,
        description="Settings whose values in force are wanted, such as disable_cuda_graph.",
    )


def served(flat: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """Return unit or name, kind and port of every engine among the facts of a host."""
    found = []
    for name, kind in flat.items():
        subject = name.removesuffix(" engine")
        port = flat.get(f"{subject} port", "")
        if subject != name and port.isdecimal():
            found.append((subject, kind, int(port)))
    return found


async def facts_of(ctx: ToolContext, host: Host) -> Flat:
    """Return what was read of a host in this investigation, or read it now."""
    return (await look_at(ctx, host)).facts


async def look_at(ctx: ToolContext, host: Host) -> Look:
    """Return the last look at a host in this investigation, or look now."""
    if looked(host.name) not in ctx.cache:
        await facts.run(ctx, facts.Args(host=host.name))
    look: Look = ctx.cache[looked(host.name)]
    return look


async def _health(host: Host, kind: str, port: int) -> str:
    import httpx2

    try:
        local = await host.forward(port)
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{local}", timeout=5.0, trust_env=False
        ) as client:
            answer = await bounded_http.get(client, _HEALTH.get(kind, "/health"))
    except (httpx2.HTTPError, ConnectError):
        return "no answer"
    return "ok" if answer.status_code == 200 else f"HTTP {answer.status_code}"


async def asked(host: Host, flat: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return, by engine, its health and the settings that it says are in force."""
    engines = served(flat)

    async def one(kind: str, port: int) -> dict[str, str]:
        health, seen = await asyncio.gather(_health(host, kind, port), observe(host, port))
        told = {
            name: text_of(value)
            for name, value in sorted(seen.settings.items())
            if name not in _VOLATILE and not isinstance(value, dict | list) and value is not None
        }
        return {"health": health} | {f"effective {name}": value for name, value in told.items()}

    answers = await asyncio.gather(*(one(kind, port) for _, kind, port in engines))
    return {subject: answer for (subject, _, _), answer in zip(engines, answers, strict=True)}


_DIGESTS: Final = """
for root in "$@"; do
  for record in "$root"-*.dist-info/RECORD; do
    if [ -r "$record" ]; then echo "record $(sha256sum <"$record" | cut -c1-16) $root"; break; fi
  done
  listed=$(find "$root" -name '*.py' -printf '%P %s %T@\\n' 2>/dev/null | sort | sha256sum | cut -c1-16)
  echo "files $listed $root"
done
"""
"""Digest of what was installed, and one of names, sizes and times: that one tells a file edited in place."""


async def digests(host: Host, flat: Mapping[str, str]) -> Flat:
    """Return digests of the package of every engine; nothing where the host has not the programs for it."""
    roots = {
        name.removesuffix(" package_root"): root
        for name, root in flat.items()
        if name.endswith(" package_root") and root.startswith("/")
    }
    if not roots:
        return {}
    argv = ["sh", "-c", _DIGESTS, "leadline-digests", *dict.fromkeys(roots.values())]
    result = await host.exec(argv, timeout_s=20.0, max_bytes=1 << 16, retry=True)
    rows = [line.split(" ", 2) for line in result.stdout.data.decode("utf-8", "replace").splitlines()]
    found = {(row[0], row[2]): row[1] for row in rows if len(row) == 3 and len(row[1]) == 16}
    return {
        f"{subject} package_{kind}": f"sha256:{found[kind, root]}"
        for subject, root in roots.items()
        for kind in ("record", "files")
        if (kind, root) in found and result.ok
    }


def flat_of(answers: Mapping[str, Mapping[str, str]]) -> Flat:
    """Return answers as facts of the host."""
    return {f"{subject} {name}": value for subject, told in answers.items() for name, value in told.items()}


def _row(subject: str, told: Mapping[str, str], wanted: Sequence[str], handle: str) -> dict[str, Any]:
    values = {name.partition(" ")[2]: value for name, value in told.items() if name.startswith("effective ")}
    plain = [name.lstrip("-").replace("-", "_") for name in wanted]
    shown = {name: values[name] for name in plain if name in values}
    if not wanted:
        shown = dict(list(values.items())[:_SHOWN])
    row: dict[str, Any] = {
        "engine": subject,
        "health": told["health"],
        "effective": shown,
        "told": len(values),
        "artifact": handle,
    }
    if missing := [name for name in plain if name not in values]:
        row["not_told"] = {name: _NOT_SERVED if not values else "no such setting" for name in missing}
    return row


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Ask every engine, keep each answer whole, and return what was wanted of it."""
    host = ctx.host(args.host)
    flat = await facts_of(ctx, host)
    engines = served(flat)
    if not engines:
        raise ToolError(f"no engine process with a port is visible on {host.name}")
    at = datetime.now(UTC)
    rows = []
    answers, packages = await asyncio.gather(asked(host, flat), digests(host, flat))
    told_flat: Flat = facts.redacted(flat_of(answers) | packages, ctx.redact)
    ctx.cache[looked(f"the engines of {host.name}")] = Look(told_flat, at)
    keep_look(ctx, host, told_flat, at)
    for subject, told in answers.items():
        text = "".join(f"{name.removeprefix('effective ')}: {value}\n" for name, value in told.items())
        label = f"what {subject} says of itself: health and settings in force"
        ref = ctx.keep(text.encode(), host=host.name, label=label, taken_at=at)
        rows.append(_row(subject, told, args.names, ref.handle))
    view: dict[str, Any] = facts.redacted({"host": host.name, "engines": rows}, ctx.redact)
    return view


TOOL = Tool(
    name="engine_state",
    description=(
        "Ask every engine on a host whether it is healthy and which settings are in force, in one call. "
        "`effective` holds the settings in `names`, else the first ones; `artifact` holds all of them, a "
        "line each (name: value), to cite. `not_told` is unknown, not off."
    ),
    args=Args,
    run=run,
)
