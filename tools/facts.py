"""Picture a host in one round trip: hardware, driver, units, engine processes, packages, ports, limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from tools import facts_flat, facts_parse, facts_view
from tools.aside import aside
from tools.contract import HostArgs, Redactor, Result, Tool, ToolContext, ToolError
from tools.facts_parse import Gathered
from tools.facts_view import Seen
from tools.history_store import keep_look
from tools.launch_line import mask_text

_PROBES = ("gpus", "gpu_header", "services", "os", "hardware", "disks", "ports", "kernel_log")
_MAX_BYTES = 8 << 20


class Args(HostArgs):
    """Ask for the facts of a host."""


@cache
def script() -> str:
    """Return the probe script."""
    return Path(__file__).with_name("facts.sh").read_text()


def argv(process_root: int | None = None) -> list[str]:
    """Return the one command that gathers everything."""
    return ["sh", "-c", script(), "leadline-facts", str(process_root or "")]


_LABELS = {
    "gpus": "nvidia-smi --query-gpu=... --format=csv",
    "gpu_header": "nvidia-smi",
    "os": "/etc/os-release, uname, uptime, load",
    "hardware": "processors, memory, governors",
    "disks": "df -P / /dev/shm /tmp",
    "ports": "/proc/net/tcp and tcp6",
    "kernel_log": "journalctl -k -b -n 1",
    "unit_files": "unit files that mention an engine",
    "unit": "systemctl cat {}",
    "show": "systemctl show {}",
    "cmdline": "/proc/{}/cmdline, one argument a line",
    "environ": "/proc/{}/environ, allowed names only",
    "about": "/proc/{}: exe, cwd, stat, status, cgroup",
    "limits": "/proc/{}/limits",
    "package": "package of {}",
}
_ORDER = list(_LABELS)


def _keep(ctx: ToolContext, host: str, taken_at: datetime, gathered: Gathered) -> dict[str, str]:
    """Store every record as an artifact of its own, the telling ones first; return handles by record."""
    first = ("unit", "cmdline", "gpus")

    def rank(name: str) -> tuple[bool, int, str]:
        kind = name.partition(":")[0]
        return kind not in first, _ORDER.index(kind), name

    handles = {}
    names = [n for n in gathered.records if n.partition(":")[0] in _LABELS and gathered.records[n].strip()]
    for name in sorted(names, key=rank):
        kind, _, subject = name.partition(":")
        data = gathered.records[name]
        if kind == "cmdline":
            data = "\n".join(facts_view.argv_of(gathered, subject)).encode() + b"\n"
        elif kind in ("unit", "show", "unit_files"):
            data = mask_text(data.decode("utf-8", "replace")).encode()
        path = f"/proc/{subject}/{kind}" if kind in ("cmdline", "environ", "limits") else None
        ref = ctx.keep(data, host=host, label=_LABELS[kind].format(subject), taken_at=taken_at, path=path)
        handles[name] = ref.handle
    return handles


def _check_rights(gathered: Gathered, seen: Seen) -> None:
    log = gathered.text("kernel_log")
    if facts_parse.denied(log):
        seen.not_permitted.append("kernel log (no right to read it with this account)")
    elif gathered.codes.get("kernel_log", 0) == 127:
        seen.missing.append("kernel log (neither journalctl nor dmesg)")
    if "hidepid" in gathered.text("os"):
        seen.not_permitted.append("processes of other users (/proc is mounted with hidepid)")
    for name in ("gpus", "disks"):
        code = gathered.codes.get(name, 0)
        if code not in (0, 127):
            said = (gathered.text(name).strip().splitlines() or ["no output"])[-1]
            seen.problems.append(f"{_LABELS[name]}: exit {code}: {said[:160]}")
    for name in ("unit:", "show:", "gpus", "kernel_log"):
        late = [n for n, code in gathered.codes.items() if n.startswith(name) and code in (124, 143)]
        seen.problems += [f"{n} took longer than 8 s and was stopped" for n in late]


def _view(gathered: Gathered, result: Result) -> dict[str, Any]:
    seen = Seen(missing=list(gathered.missing))
    gpus = facts_parse.gpu_rows(gathered.text("gpus"))
    driver = facts_parse.driver_view(gathered.text("gpu_header"), gathered.text("hardware"), gpus)
    for row in gpus:
        row.pop("driver", None)
    engines = facts_view.engines_view(gathered, seen)
    units = sorted({*gathered.of("show"), *gathered.of("unit")})
    if gathered.text("systemd"):
        said = gathered.text("systemd").strip().splitlines()[0]
        where = seen.not_permitted if facts_parse.denied(said) else seen.missing
        where.append(f"systemd ({said[:120]}); units as their files on disk say")
        units = []
    rows = [facts_view.service_view(gathered, name, seen) for name in units]
    services = [row for row in rows if row is not None] or facts_view.services_on_disk(gathered)
    facts_view.join(services, engines)
    ports = facts_parse.port_rows(gathered.text("ports"))
    for engine in engines:
        engine["listening"] = any(row["port"] == engine["port"] for row in ports)
        engine.pop("ppid")
    _check_rights(gathered, seen)
    late = [name for name in _PROBES if name not in gathered.times]
    if late:
        seen.problems.append(f"not finished ({result.outcome}): {', '.join(late)}")
    listed = [name for name in gathered.text("units").split("\n") if name]
    if len(listed) > 24:
        seen.problems.append(f"{len(listed)} units mention an engine; the first 24 were read")
    return {
        "host": result.host,
        "taken_at": result.started_at.isoformat(timespec="seconds"),
        "os": facts_parse.os_view(gathered.text("os")),
        "hardware": {"gpus": gpus, **facts_parse.hardware_view(gathered.text("hardware"))},
        "driver": driver,
        "services": services,
        "engines": engines,
        "ports": ports,
        "disks": facts_parse.disk_rows(gathered.text("disks")),
        "limits": {
            pid: facts_parse.limit_values(gathered.text(f"limits:{pid}")) for pid in gathered.of("limits")
        },
        "not_permitted": seen.not_permitted,
        "missing": seen.missing,
        "problems": seen.problems,
        "probe_ms": gathered.milliseconds(),
    }


def _size(view: dict[str, Any]) -> int:
    return len(json.dumps(view, ensure_ascii=False))


def _cut(view: dict[str, Any], key: str, keep: int) -> None:
    rows = view[key]
    if len(rows) > keep:
        view.setdefault("cut", {})[key] = f"{keep} of {len(rows)} shown"
        view[key] = dict(list(rows.items())[:keep]) if isinstance(rows, dict) else rows[:keep]


def _drop(view: dict[str, Any], rows: str, field: str, artifact: str) -> None:
    for row in view[rows]:
        row.pop(field, None)
    view.setdefault("cut", {})[f"{rows}.{field}"] = f"left out; see the artifacts {artifact}:..."


def _cut_values(view: dict[str, Any]) -> None:
    for row in view["engines"]:
        for name, value in row["flags"].items():
            if len(str(value)) > 200:
                row["flags"][name] = f"{str(value)[:200]} [cut]"
    view.setdefault("cut", {})["engines.flags"] = "values longer than 200 characters are cut"


_STEPS: tuple[Callable[[dict[str, Any]], None], ...] = (
    lambda view: _cut(view, "ports", 24),
    lambda view: _cut(view, "probe_ms", 0),
    lambda view: _drop(view, "services", "exec_start", "unit"),
    lambda view: _drop(view, "engines", "argv", "cmdline"),
    lambda view: _drop(view, "services", "environment", "show"),
    lambda view: _drop(view, "services", "limits", "show"),
    lambda view: _cut(view, "services", 8),
    lambda view: _cut(view, "engines", 6),
    _cut_values,
    lambda view: _cut(view, "not_permitted", 12),
    lambda view: _cut(view, "problems", 8),
    lambda view: _cut(view, "artifacts", 40),
    lambda view: _cut(view, "engines", 2),
    lambda view: _cut(view, "services", 3),
    lambda view: _cut(view, "limits", 2),
    lambda view: _drop(view, "engines", "environ", "environ"),
    lambda view: _cut(view, "ports", 0),
    lambda view: _cut(view, "artifacts", 16),
    lambda view: _drop(view, "engines", "flags", "cmdline"),
)


def fit(view: dict[str, Any], limit: int) -> dict[str, Any]:
    """Cut the view, least telling parts first, until it fits; ``cut`` says what went."""
    for step in _STEPS:
        if _size(view) <= limit:
            break
        step(view)
    return view


def redacted(value: Any, redact: Redactor) -> Any:
    """Return a JSON value with every text in it redacted."""
    if isinstance(value, str):
        return redact(value.encode()).decode("utf-8", "replace") if len(value) > 7 else value
    if isinstance(value, list):
        return [redacted(item, redact) for item in value]
    if isinstance(value, dict):
        return {key: redacted(item, redact) for key, item in value.items()}
    return value


def _clock_s(gathered: Gathered, result: Result) -> float:
    """Return how far the host's clock is from ours, at least."""
    first, began = gathered.first_ms(), result.started_at.timestamp()
    if first is None:
        return 0.0
    return facts_parse.clock_offset(first / 1000, began, began + result.duration_s)


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Gather the facts of a host with one command and return the view; raw outputs become artifacts."""
    host = ctx.host(args.host)
    result = await host.exec(argv(args.process_root), timeout_s=25.0, max_bytes=_MAX_BYTES, retry=True)
    gathered = facts_parse.decode(result.stdout.data)
    if not gathered.records:
        said = result.stderr.data.decode("utf-8", "replace").strip()[-200:]
        why = result.detail or said or ", ".join(f"no {name}" for name in gathered.missing) or "no output"
        raise ToolError(f"facts of {host.name} could not be gathered: {result.outcome}: {why}")
    clean, flat = await aside(ctx, lambda: _seen(ctx, host.name, gathered, result))
    clock = _clock_s(gathered, result)
    ctx.cache[facts_flat.looked(host.name)] = facts_flat.Look(flat, result.started_at, clock)
    if args.process_root is None:
        keep_look(ctx, host, flat, result.started_at)
    return fit(clean, ctx.settings.view_chars)


def _seen(
    ctx: ToolContext, host: str, gathered: Gathered, result: Result
) -> tuple[dict[str, Any], facts_flat.Flat]:
    """Keep the raw outputs; return the view without secrets, and the same for the history."""
    view = _view(gathered, result)
    view["artifacts"] = _keep(ctx, host, result.started_at, gathered)
    clean: dict[str, Any] = redacted(view, ctx.redact)
    texts = {unit: mask_text(gathered.text(f"unit:{unit}")) for unit in gathered.of("unit")}
    return clean, facts_flat.flatten(clean, facts_flat.unit_files(texts))


TOOL = Tool(
    name="facts",
    description=(
        "Picture a host in one round trip: GPUs with power and clocks, driver, the units and processes of "
        "inference engines with flags, environment and package, ports, disks, limits. `artifacts` names the "
        "raw outputs to cite; what may not be read is listed under `not_permitted`, never left out."
    ),
    args=Args,
    run=run,
)
