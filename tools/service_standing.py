"""Look whether a kept change is still in force: its file, what stands above it, and the process that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tools import dropin_edit, launch_edit, unit_text
from tools.contract import Host, ToolError
from tools.service_types import ChangePlan
from tools.service_undo import check_dropin, decided_above
from tools.service_unit import UnitState, check_unit, read_unit


@dataclass(frozen=True, slots=True)
class Holding:
    """Say whether a change is in force; without it, each reason why not."""

    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def in_force(self) -> bool:
        """Tell whether nothing speaks against it."""
        return not self.reasons


async def holding(host: Host, kept: ChangePlan) -> Holding:
    """Read the host and say whether a kept change is in force; raise `ToolError` when it cannot be read."""
    found = Holding()
    if host.key_fingerprint != kept.host_key:
        raise ToolError(
            f"{host.name} shows another host key than the one that {kept.id} was kept on; it may be another "
            "machine"
        )
    state = await read_unit(host, kept.unit, kept.port, kept.dropin_path)
    try:
        check_unit(kept.unit, state)
        check_dropin(kept, state)
    except ToolError as error:
        found.reasons.append(str(error))
        return found
    if kept.setting == dropin_edit.SETTING:
        _directives(kept, state, found)
    elif kept.environment is None:
        _flag(kept, state, found)
    else:
        _variable(kept, state, found)
    return found


def _flag(kept: ChangePlan, state: UnitState, found: Holding) -> None:
    above = decided_above(kept, state)
    where = f" ({above} decides it)" if above else ""
    sides: list[tuple[str, str, Callable[[], list[str]]]] = [
        ("in the unit", where, lambda: launch_edit.read(state.unit.all("Service.ExecStart")).argv)
    ]
    if state.cmdline:
        sides.append(("in the process that runs", "", lambda: state.cmdline))
    else:
        found.notes.append("the process's command line may not be read by this account")
    for place, by, argv in sides:
        try:
            value = launch_edit.flag_value(argv(), kept.setting)
        except ToolError as error:
            found.reasons.append(f"{kept.setting} {place}: {error}")
            continue
        if value != kept.to_value:
            found.reasons.append(f"{kept.setting} {_said(value)} {place}, not {_wanted(kept.to_value)}{by}")


def _directives(kept: ChangePlan, state: UnitState, found: Holding) -> None:
    above = decided_above(kept, state)
    where = f" ({above} decides it)" if above else ""
    for key, wanted in dropin_edit.read(kept.to_value or "").items():
        value = state.unit.last(f"Service.{key}")
        if value != wanted:
            found.reasons.append(f"{key} {_said(value or None)} in the unit, not {wanted}{where}")
    found.notes.append("what the running process has of a drop-in's directives is not looked at")


def _variable(kept: ChangePlan, state: UnitState, found: Holding) -> None:
    assert kept.environment is not None  # the caller has looked
    name, wanted = kept.environment.name, kept.environment.after
    for row in state.sections["envfiles"].splitlines():
        if row.partition(" ")[0] == name:
            found.reasons.append(f"{name} is set by EnvironmentFile={row.partition(' ')[2]}, which wins")
    above = decided_above(kept, state)
    written = unit_text.environment(state.unit.all("Service.Environment")).get(name)
    unset = name in state.properties.get("UnsetEnvironment", "").split()
    if (None if unset else written) != wanted:
        where = f" ({above} decides it)" if above else ""
        found.reasons.append(f"{name} {_said(written)} in the unit, not {_wanted(wanted)}{where}")
    if not state.environ:
        found.notes.append("the process's environment may not be read by this account")
    elif state.environ.get(name) != wanted:
        found.reasons.append(
            f"{name} {_said(state.environ.get(name))} in the process that runs, not {_wanted(wanted)}"
        )


def _said(value: str | None) -> str:
    return "is not set" if value is None else "is set" if value == "true" else f"is {value}"


def _wanted(value: str | None) -> str:
    return "left out" if value is None else "set" if value == "true" else value
