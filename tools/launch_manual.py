"""Tell a person how to change a setting where no unit starts the engine, and how to take it back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tools import dropin_edit, launch_edit, launch_line
from tools.contract import ToolError

_FILES: Mapping[str, str] = {
    "docker": "the `docker run` line, or `command:` of its service in the compose file",
    "podman": "the `podman run` line, or Exec= of its .container file",
    "kubernetes": "`args:` of the container in its pod, deployment or chart values",
}
_ENVIRONMENT: Mapping[str, str] = {
    "docker": "`-e` of the `docker run` line, or `environment:` in the compose file",
    "podman": "`-e` of the `podman run` line, or Environment= of its .container file",
    "kubernetes": "`env:` of the container in its pod, deployment or chart values",
}
_AGAIN: Mapping[str, str] = {
    "docker": "start the container anew (docker compose up -d, or rm and run)",
    "podman": "start the container anew (podman rm and run, or restart its unit)",
    "kubernetes": "apply it, which replaces the pod",
}


def manual_steps(engine: Mapping[str, Any], setting: str, before: str | None, after: str | None) -> list[str]:
    """Return what a person does, step by step; ``engine`` is the row of `facts` for its process."""
    started: Mapping[str, Any] = engine.get("started") or {}
    runtime = str(started.get("runtime") or "")
    if setting == dropin_edit.SETTING:
        return [
            f"process {engine.get('pid')} was not started by a unit, so directives of one ({after}) do "
            "nothing for it: set what they mean (limits, priority, processors, memory) where it is "
            "started, and start it anew"
        ]
    argv = [str(word) for word in engine.get("argv") or []]
    new, old = _edit(setting, before, after), _edit(setting, after, before)
    if started.get("kind") == "container":
        name = f"{runtime or 'a container runtime'}, {str(started.get('id') or 'id not known')[:12]}"
        where = (_ENVIRONMENT if _is_variable(setting) else _FILES).get(
            runtime, "what starts the container (its run line, compose file or pod)"
        )
        return [
            f"process {engine.get('pid')} runs in a container ({name}): no unit of this host starts it, so "
            "nothing is changed here",
            f"in {where}: {new}; then {_AGAIN.get(runtime, 'start the container anew')}",
            *_line(argv, setting, before, after),
            *_checks(engine, setting, after),
            f"to take it back: {old} in the same place, and start the container anew",
        ]
    who = engine.get("user") or "its user"
    where = f" in {engine['cwd']}" if engine.get("cwd") else ""
    variable = f" with {_assignment(setting, after)} before it" if _is_variable(setting) and after else ""
    return [
        f"process {engine.get('pid')} was not started by a unit ({started.get('by') or 'by hand'}): nothing "
        "here starts it again, so nothing is changed",
        f"when no request is in flight, end it (kill {engine.get('pid')}) and start it as "
        f"{who}{where}{variable}: {new}",
        *_line(argv, setting, before, after),
        *_checks(engine, setting, after),
        f"to take it back: end it and start it with its line of before: {old}",
    ]


def _is_variable(setting: str) -> bool:
    return not setting.startswith("-")


def _assignment(name: str, value: str) -> str:
    return f"{name}={shlex.quote(value)}"


def _edit(setting: str, before: str | None, after: str | None) -> str:
    words = [setting] if after == "true" else [setting, after or ""]
    if after is None:
        return f"leave {setting} out"
    shown = _assignment(setting, after) if _is_variable(setting) else shlex.join(words)
    return f"add {shown}" if before is None else f"set {shown}"


def _line(argv: Sequence[str], setting: str, before: str | None, after: str | None) -> list[str]:
    if _is_variable(setting) or not argv:
        return []
    try:
        found = launch_edit.flag_value(argv, setting)
        line = launch_edit.with_flag(argv, setting, after)
    except ToolError as error:
        return [f"the launch line has to be edited with care: {error}"]
    rows = [f"the launch line is then: {shlex.join(launch_line.mask(line))}"]
    if found != before:
        is_now = "is not set" if found is None else f"is {found}"
        rows.insert(0, f"{setting} {is_now} in the process's own line; a file or a wrapper may set it")
    return rows


def _checks(engine: Mapping[str, Any], setting: str, after: str | None) -> list[str]:
    name = setting.lstrip("-").replace("-", "_")
    said = "gone from" if after is None else "in"
    place = "the environment" if _is_variable(setting) else "the launch line"
    check = f"to check: `leadline settings HOST {name}` reads the process that runs; it is {said} {place}"
    port = engine.get("port")
    return [check + (f"; the engine answers on port {port} when it is ready" if port else "")]
