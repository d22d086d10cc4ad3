"""Turn the gathered records into services and engines: what runs, from which unit and which package."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tools import facts_parse, launch_line, unit_text
from tools.facts_parse import Gathered

_CLOCK_TICKS = 100  # USER_HZ: fixed by Linux's interface, whatever the kernel's own tick is
_SHOWN_NAMES = re.compile(
    r"^(CUDA|NCCL|GLOO|VLLM|SGLANG|SGL|OMP|MKL|HF|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|NVIDIA|UCX|NVSHMEM"
    r"|OLLAMA|LLAMA|GGML)_"
    r"|^(LD_PRELOAD|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|CUDA_HOME)$"
)
_SECRET_NAMES = re.compile(r"TOKEN|KEY|SECRET|PASS|AUTH|CRED")


@dataclass(slots=True)
class Seen:
    """Collect what could not be read on the way, by reason."""

    not_permitted: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def argv_of(gathered: Gathered, pid: str) -> list[str]:
    """Return a process's command line with secrets hidden."""
    return launch_line.mask(gathered.text(f"cmdline:{pid}").rstrip("\n").split("\n"))


def allowed_environment(values: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Split variables into those that may be shown and the names of the others."""
    shown = {k: v for k, v in values.items() if _SHOWN_NAMES.search(k) and not _SECRET_NAMES.search(k)}
    return shown, sorted(set(values) - set(shown))


def _about(gathered: Gathered, pid: str) -> dict[str, Any]:
    text = gathered.text(f"about:{pid}")
    values: dict[str, Any] = facts_parse.pairs(text)
    values["cgroup"] = re.findall(r"^cgroup=(.*)$", text, re.MULTILINE)
    owner = values.get("owner", "").split()
    values["user"] = owner[2] if len(owner) > 2 else None
    stat = values.get("stat", "").rpartition(")")[2].split()
    values["ppid"] = int(stat[1]) if len(stat) > 1 else None
    boot = facts_parse.boot_time(gathered.text("os"))
    if boot is not None and len(stat) > 19:
        started = datetime.fromtimestamp(boot + int(stat[19]) / _CLOCK_TICKS, UTC)
        values["started_at"] = started.isoformat(timespec="seconds")
    values["below_ours"] = facts_parse.below_ours(text)
    for name in ("Cpus_allowed_list", "Mems_allowed_list"):
        found = re.search(rf"^{name}:\s*(\S+)", text, re.MULTILINE)
        values[name] = found.group(1) if found else None
    return values


def _package(gathered: Gathered, pid: str, engine: launch_line.Engine) -> dict[str, Any]:
    text = gathered.text(f"package:{pid}")
    values = facts_parse.pairs(text)
    versions = dict(name.rsplit("-", 1) for name in re.findall(r"^dist=(\S+-\S+)$", text, re.MULTILINE))
    own = re.search(r'^__version__ *= *"([^"]+)"', text, re.MULTILINE)
    out: dict[str, Any] = {
        "package_root": values.get("package_root") or None,
        "version": versions.pop(launch_line.package_of(engine), None) or (own.group(1) if own else None),
        "packages": versions,
    }
    if values.get("root"):
        out["process_root"] = values["root"]
    if "direct_url" in values:
        try:
            out["editable"] = json.loads(values["direct_url"]).get("url")
        except (ValueError, AttributeError, RecursionError):
            out["editable"] = values["direct_url"][:200]
    return out


def engine_view(gathered: Gathered, pid: str, seen: Seen) -> dict[str, Any] | None:
    """Return one engine process, or None when its command line is not one after all."""
    argv = argv_of(gathered, pid)
    engine = launch_line.engine_of(argv)
    if engine is None:
        return None
    about = _about(gathered, pid)
    who = about["user"] or "another user"
    for name in ("exe", "cwd", "fd/1"):
        if about.get(name) == "!denied":
            seen.not_permitted.append(f"{name} of {pid} (owned by {who})")
            about[name] = None
    environ: dict[str, str] | None = None
    if "!denied" in gathered.text(f"environ:{pid}"):
        seen.not_permitted.append(f"environment of {pid} (owned by {who})")
    else:
        environ = facts_parse.pairs(gathered.text(f"environ:{pid}"))
    package = _package(gathered, pid, engine)
    if "denied=root" in gathered.text(f"package:{pid}"):
        seen.not_permitted.append(f"files of {pid} through {package.get('process_root')}")
    flags = launch_line.flags(argv, engine)
    started = facts_parse.started_by(about["cgroup"])
    return {
        "pid": int(pid),
        "engine": engine,
        "unit": facts_parse.cgroup_unit(about["cgroup"]),
        "argv": argv,
        "flags": flags,
        "python": argv[0] if argv[0].startswith("/") else about.get("exe"),
        **package,
        "port": launch_line.port_of(flags, engine, environ),
        "environ": environ,
        "user": about["user"],
        "ppid": about["ppid"],
        "started_at": about.get("started_at"),
        "cwd": about.get("cwd"),
        "stdout": about.get("fd/1"),
        "cpus_allowed": about["Cpus_allowed_list"],
        "memory_nodes_allowed": about["Mems_allowed_list"],
        "started": started,
    } | ({"in_container": True} if _in_container(gathered, about["below_ours"], started) else {})


def _in_container(gathered: Gathered, below_ours: bool | None, started: Mapping[str, str]) -> bool:
    """Tell whether a process is seen to be in a container; another mount namespace alone is none.

    A unit with a private /tmp has that too. One in the host's PID namespace is told by its cgroup, unless
    we are in a container ourselves, so that it may be ours. What cannot be read is taken for none.
    """
    ours = "container" in facts_parse.pairs(gathered.text("os"))
    return below_ours is True or (started["kind"] == "container" and not ours)


def engines_view(gathered: Gathered, seen: Seen) -> list[dict[str, Any]]:
    """Return the engine processes, those in containers last; workers forked from one are left out."""
    found = [engine_view(gathered, pid, seen) for pid in sorted(gathered.of("cmdline"), key=int)]
    engines = [row for row in found if row is not None]
    pids = {row["pid"] for row in engines}
    mains = [row for row in engines if row["ppid"] not in pids]
    return _with_runners(sorted(mains, key=lambda row: "in_container" in row), engines)


def _with_runners(shown: list[dict[str, Any]], all_rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tell with Ollama's server which model runners it started: what they were given stands there alone."""
    servers = [row for row in shown if row["engine"] == "ollama" and "runner" not in row["argv"][:2]]
    pids = {row["pid"] for row in servers}
    runners = [row for row in all_rows if row["engine"] == "ollama" and row["pid"] not in pids]
    if not servers:
        return shown
    for server in servers:
        mine = [row for row in runners if row["ppid"] == server["pid"] or len(servers) == 1]
        server["runners"] = [{"pid": row["pid"], "argv": row["argv"]} for row in mine]
    left = {row["pid"] for server in servers for row in server["runners"]}
    return [row for row in shown if row["pid"] not in left]


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _from_text(name: str, text: str) -> dict[str, Any]:
    unit = unit_text.parse(text)
    start = unit_text.command(unit.last("Service.ExecStart"))
    shown, hidden = allowed_environment(unit_text.environment(unit.all("Service.Environment")))
    out: dict[str, Any] = {
        "unit": name,
        "fragment": next((f for f in unit.files if not f.endswith(".conf")), None),
        "dropins": [f for f in unit.files if f.endswith(".conf")],
        "exec_start": launch_line.mask(start),
        "environment": shown,
    }
    if hidden:
        out["environment_hidden"] = hidden
    if files := unit.all("Service.EnvironmentFile"):
        out["environment_files"] = files
    return out


def service_view(gathered: Gathered, name: str, seen: Seen) -> dict[str, Any] | None:
    """Return one unit, or None when there is no such unit."""
    show = facts_parse.show_values(gathered.text(f"show:{name}"))
    for record, what in ((f"show:{name}", "show"), (f"unit:{name}", "cat")):
        if gathered.codes.get(record):
            if show.get("LoadState") == "not-found":
                return None
            said = (gathered.text(record).strip().splitlines() or ["no output"])[-1]
            where = seen.not_permitted if facts_parse.denied(said) else seen.problems
            where.append(f"systemctl {what} {name}: {said[:160]}")
    readable = not gathered.codes.get(f"unit:{name}")
    out = _from_text(name, gathered.text(f"unit:{name}") if readable else "")
    out |= {
        "active": show.get("ActiveState"),
        "sub": show.get("SubState"),
        "main_pid": _number(show.get("MainPID", "")),
        "restarts": _number(show.get("NRestarts", "")),
        "need_daemon_reload": {"yes": True, "no": False}.get(show.get("NeedDaemonReload", "")),
        "fragment": show.get("FragmentPath") or out["fragment"],
        "dropins": show["DropInPaths"].split() if show.get("DropInPaths") else out["dropins"],
        "started_at": show.get("ExecMainStartTimestamp") or None,
    }
    if show.get("Environment"):
        out["environment"], hidden = allowed_environment(unit_text.environment([show["Environment"]]))
        out |= {"environment_hidden": hidden} if hidden else {}
    wanted = {"LimitNOFILE", "LimitMEMLOCK", "MemoryMax", "TasksMax", "AllowedCPUs", "CPUQuotaPerSecUSec"}
    out["limits"] = {k: v for k, v in show.items() if k in wanted and v not in ("", "infinity")}
    return out


def services_on_disk(gathered: Gathered) -> list[dict[str, Any]]:
    """Return units as their files say, for a host where `systemctl` does not answer."""
    texts: dict[str, str] = {}
    for piece in re.split(r"(?m)^(?=# /\S+$)", gathered.text("unit_files")):
        path = piece.partition("\n")[0].removeprefix("# ").strip()
        if path:
            owner = (
                path.rsplit("/", 2)[1].removesuffix(".d")
                if path.endswith(".conf")
                else path.rsplit("/", 1)[1]
            )
            texts[owner] = texts.get(owner, "") + piece
    return [
        {**_from_text(name, text), "active": None, "main_pid": None} for name, text in sorted(texts.items())
    ]


def _note_difference(service: dict[str, Any], engine: dict[str, Any]) -> None:
    start = service["exec_start"]
    kind = launch_line.engine_of(start)
    if not start:
        return
    if kind is None:
        service["differs"] = [f"ExecStart runs {start[0]}; the engine's flags do not stand in the unit"]
        return
    notes = launch_line.differences(launch_line.flags(start, kind), engine["flags"])
    if notes:
        service["differs"] = notes


def join(services: Sequence[dict[str, Any]], engines: Sequence[dict[str, Any]]) -> None:
    """Tie engines to the units that own them, and say where a unit is not what runs."""
    by_pid = {row["main_pid"]: row for row in services if row.get("main_pid")}
    by_name = {row["unit"]: row for row in services}
    for engine in engines:
        owner = by_name.get(engine["unit"] or "") or by_pid.get(engine["pid"]) or by_pid.get(engine["ppid"])
        if owner is not None:
            engine["unit"] = owner["unit"]
            _note_difference(owner, engine)
        if engine["unit"]:
            engine.pop("started", None)  # the unit did
