"""The properties of a service as `systemctl show` prints them, in systemd's order."""

from __future__ import annotations

import time

from evals.lab.inside import unitfile
from evals.lab.inside.services import Service


def stamp(at: float) -> str:
    """Return a time as systemd prints it, or nothing for never."""
    return time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else ""


def properties(service: Service) -> list[tuple[str, str]]:
    """Return all known properties of a service."""
    unit = service.unit
    if unit.fragment is None:
        return [
            ("Restart", "no"),
            ("NRestarts", "0"),
            ("MainPID", "0"),
            ("Id", service.name),
            ("Names", service.name),
            ("Description", service.name),
            ("LoadState", "not-found"),
            ("ActiveState", "inactive"),
            ("SubState", "dead"),
            ("UnitFileState", ""),
            ("FragmentPath", ""),
            ("NeedDaemonReload", "no"),
        ]
    return [*_process(service), *_limits(service), *_unit(service)]


def _process(service: Service) -> list[tuple[str, str]]:
    unit = service.unit
    restart_s = unitfile.seconds(unit.last("Service.RestartSec"), 0.1)
    code = {"exited": "1", "killed": "2"}.get(service.exit_code, "0")
    return [
        ("Type", unit.last("Service.Type", "simple")),
        ("Restart", unit.last("Service.Restart", "no")),
        ("RestartUSec", f"{restart_s:g}s" if restart_s >= 1 else f"{restart_s * 1000:g}ms"),
        ("TimeoutStartUSec", unit.last("Service.TimeoutStartSec", "1min 30s")),
        ("TimeoutStopUSec", unit.last("Service.TimeoutStopSec", "1min 30s")),
        ("RemainAfterExit", unit.last("Service.RemainAfterExit", "no")),
        ("MainPID", str(service.main_pid)),
        ("ControlPID", "0"),
        ("Result", service.result),
        ("NRestarts", str(service.restarts)),
        ("ExecMainStartTimestamp", stamp(service.started_at)),
        ("ExecMainExitTimestamp", stamp(service.exited_at)),
        ("ExecMainPID", str(service.exec_pid)),
        ("ExecMainCode", code),
        ("ExecMainStatus", str(service.exit_status)),
        *[("ExecStartPre", exec_line(service, line, False)) for line in unit.all("Service.ExecStartPre")],
        *[("ExecStart", exec_line(service, line, True)) for line in unit.all("Service.ExecStart")],
        ("ControlGroup", f"/system.slice/{service.name}" if service.main_pid else ""),
        ("MemoryCurrent", "[not set]"),
        ("TasksCurrent", "[not set]"),
        ("Environment", " ".join(unit.all("Service.Environment"))),
        ("UnsetEnvironment", " ".join(unit.all("Service.UnsetEnvironment"))),
        *[("EnvironmentFiles", _environment_file(v)) for v in unit.all("Service.EnvironmentFile")],
        ("WorkingDirectory", unit.last("Service.WorkingDirectory")),
        ("User", unit.last("Service.User")),
        ("Group", unit.last("Service.Group")),
    ]


def _limits(service: Service) -> list[tuple[str, str]]:
    unit = service.unit
    soft, _, hard = unit.last("Service.LimitNOFILE", "1024:524288").partition(":")
    return [
        ("AllowedCPUs", unit.last("Service.AllowedCPUs")),
        ("CPUQuotaPerSecUSec", unit.last("Service.CPUQuota", "infinity")),
        ("MemoryMax", unit.last("Service.MemoryMax", "infinity")),
        ("TasksMax", unit.last("Service.TasksMax", "629145")),
        ("LimitNOFILE", hard or soft),
        ("LimitNOFILESoft", soft),
        ("LimitMEMLOCK", unit.last("Service.LimitMEMLOCK", "8388608")),
        ("LimitMEMLOCKSoft", unit.last("Service.LimitMEMLOCK", "8388608")),
    ]


def _unit(service: Service) -> list[tuple[str, str]]:
    from evals.lab.inside.systemctl import enabled

    unit = service.unit
    return [
        ("Id", service.name),
        ("Names", service.name),
        ("Wants", unit.last("Unit.Wants")),
        ("After", unit.last("Unit.After")),
        ("Description", unit.last("Unit.Description", service.name)),
        ("LoadState", "loaded"),
        ("ActiveState", service.active),
        ("SubState", service.sub),
        ("FragmentPath", str(unit.fragment)),
        ("DropInPaths", " ".join(str(path) for path in unit.dropins)),
        ("UnitFileState", "enabled" if enabled(service.name) else "disabled"),
        ("UnitFilePreset", "enabled"),
        ("StateChangeTimestamp", stamp(service.changed_at)),
        ("ActiveEnterTimestamp", stamp(service.active_at)),
        ("NeedDaemonReload", "yes" if unitfile.changed_on_disk(unit) else "no"),
        ("InvocationID", service.invocation),
    ]


def exec_line(service: Service, line: str, main: bool) -> str:
    """Return an Exec line in the form of systemd's ExecStart property."""
    argv, ignore = unitfile.command(line, unitfile.environment(service.unit), service.name)
    started = stamp(service.started_at) if main and service.started_at else "n/a"
    stopped = stamp(service.exited_at) if main and service.exited_at else "n/a"
    pid = service.exec_pid if main else 0
    code = service.exit_code if main and service.exit_code else "(null)"
    return (
        f"{{ path={argv[0] if argv else ''} ; argv[]={' '.join(argv)} ;"
        f" ignore_errors={'yes' if ignore else 'no'} ;"
        f" start_time=[{started}] ; stop_time=[{stopped}] ; pid={pid} ; code={code} ;"
        f" status={service.exit_status}{'' if code == 'exited' else '/0'} }}"
    )


def _environment_file(value: str) -> str:
    return f"{value.lstrip('-')} (ignore_errors={'yes' if value.startswith('-') else 'no'})"
