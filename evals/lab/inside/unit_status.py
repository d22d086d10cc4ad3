"""What `systemctl status` shows of a service."""

from __future__ import annotations

import time
from pathlib import Path

from evals.lab.inside.properties import stamp
from evals.lab.inside.services import Service


def status_lines(service: Service, *, enabled: bool) -> list[str]:
    """Return state, processes and files of a service, without its log."""
    mark = {"active": "●", "failed": "×"}.get(service.active, "○")
    state = f"{service.active} ({service.sub})"
    if service.active == "failed":
        state = f"failed (Result: {service.result})"
    age = f" since {stamp(service.changed_at)}; {_age(service.changed_at)} ago" if service.changed_at else ""
    lines = [
        f"{mark} {service.title}",
        f"     Loaded: loaded ({service.unit.fragment}; {'enabled' if enabled else 'disabled'};"
        " preset: enabled)",
    ]
    if service.unit.dropins:
        lines.append(f"    Drop-In: {service.unit.dropins[0].parent}")
        lines.append("             └─" + ", ".join(path.name for path in service.unit.dropins))
    lines.append(f"     Active: {state}{age}")
    if service.main_pid:
        comm = Path(f"/proc/{service.main_pid}/comm")
        name = comm.read_text().strip() if comm.exists() else "?"
        lines.append(f"   Main PID: {service.main_pid} ({name})")
        lines.append(f"     CGroup: /system.slice/{service.name}")
        lines.append(f"             └─{service.main_pid} {' '.join(service.exec_argv)}")
    elif service.exit_code:
        lines.append(
            f"    Process: {service.exec_pid} ExecStart={' '.join(service.exec_argv)}"
            f" (code={service.exit_code}, status={service.exit_status})"
        )
    return lines


def _age(since: float) -> str:
    left = int(time.time() - since)
    parts: list[str] = []
    for name, size in (("day", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size}{' ' if name == 'day' else ''}{name}")
            left %= size
    return " ".join(parts) or "0s"
