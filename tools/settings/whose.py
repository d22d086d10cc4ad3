"""Find the engine process that a person means: of a unit, or above a worker that it started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tools.contract import Host, ToolError
from tools.launch_line import engine_of

_SCRIPT: Final = """
LC_ALL=C
export LC_ALL
show() { systemctl show --no-pager -p "$1" --value "$2" 2>/dev/null; }
[ -z "$1" ] || echo "main $(show MainPID "$1") $(show LoadState "$1")"
for d in /proc/[0-9]*; do
  s=
  { read -r s <"$d/stat"; } 2>/dev/null || continue
  s=${s##*) }
  set -f
  set -- $s
  set +f
  printf '%s %s ' "${d#/proc/}" "$2"
  tr '\\0\\n' '\\001 ' <"$d/cmdline" 2>/dev/null | head -c 20000
  echo
done
"""
_WORKER: Final = re.compile(r"^(sglang::|VLLM::|vllm::|ray::)")


@dataclass(frozen=True, slots=True)
class _Row:
    parent: int
    argv: tuple[str, ...]


async def engine_pid(host: Host, *, unit: str = "", pid: int | None = None) -> int:
    """Return the process whose launch line counts; raise `ToolError` that says what was found instead."""
    result = await host.exec(["sh", "-c", _SCRIPT, "whose", unit], timeout_s=20.0, retry=True)
    if not result.ok:
        raise ToolError(f"cannot look at processes on {host.name}: {result.outcome} {result.detail}".rstrip())
    lines = result.stdout.data.decode("utf-8", "replace").splitlines()
    rows = dict(_rows(lines))
    if unit:
        head = next((line.split() for line in lines if line.startswith("main ")), ["main"])
        return _of_unit(host, unit, head, rows)
    return _above(host, pid or 0, rows)


def _rows(lines: list[str]) -> list[tuple[int, _Row]]:
    found = []
    for line in lines:
        pid, _, rest = line.partition(" ")
        parent, _, words = rest.partition(" ")
        if pid.isdigit() and parent.isdigit():
            found.append((int(pid), _Row(int(parent), tuple(words.rstrip("\x01").split("\x01")))))
    return found


def _of_unit(host: Host, unit: str, head: list[str], rows: Mapping[int, _Row]) -> int:
    if "not-found" in head:
        raise ToolError(f"{host.name} has no unit {unit}; call facts for its units")
    main = int(head[1]) if len(head) > 1 and head[1].isdigit() else 0
    if not main:
        raise ToolError(f"unit {unit} on {host.name} has no main process: it does not run")
    below = [main]
    for pid in below:
        row = rows.get(pid)
        if row is not None and engine_of(row.argv) is not None:
            return pid
        below += [child for child, one in rows.items() if one.parent == pid and child not in below]
    raise ToolError(f"no process of unit {unit} on {host.name} is an inference engine that is known")


def _above(host: Host, pid: int, rows: Mapping[int, _Row]) -> int:
    """Return the process itself, or the nearest one above it that is an engine with a launch line."""
    if pid not in rows:
        raise ToolError(f"no process {pid} on {host.name}; call facts for the engine processes that run now")
    at, seen = pid, set[int]()
    while at in rows and at not in seen:
        if engine_of(rows[at].argv) is not None:
            return at
        seen.add(at)
        at = rows[at].parent
    words = " ".join(rows[pid].argv)
    if _WORKER.match(words):
        raise ToolError(
            f"process {pid} on {host.name} is a worker ({words[:60]}) with no engine process above it: its "
            " launch line is that of its driver, perhaps on another host; give that one's pid"
        )
    return pid
