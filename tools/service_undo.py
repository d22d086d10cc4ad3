"""Plan to take a kept change back: its drop-in goes away, as a transaction like any other."""

from __future__ import annotations

import difflib
import re
import secrets
from datetime import datetime, timedelta

from tools import dropin_edit, launch_edit, unit_text
from tools.contract import Host, ToolError
from tools.service_plan import (
    EXPIRES_S,
    RESTARTS,
    blast_of,
    check_shown,
    clock_words,
    decides,
    diff_of,
    limit_of,
    requests_of,
    startup_of,
)
from tools.service_types import ChangePlan, EnvironmentChange
from tools.service_unit import UnitState, check_process, check_unit, read_unit, skew_of

_FILE = re.compile(r"(?m)^# (/\S.*)$")


async def make_undo(host: Host, kept: ChangePlan, *, now: datetime, minimum_s: float = 60.0) -> ChangePlan:
    """Return the plan that takes a kept change back; raise `ToolError` when that may not be done so."""
    if host.key_fingerprint != kept.host_key:
        raise ToolError(
            f"{host.name} shows another host key than the one that {kept.id} was kept on; it may be another "
            "machine, so a person has to look"
        )
    state = await read_unit(host, kept.unit, kept.port, kept.dropin_path)
    check_dropin(kept, state)
    check_unit(kept.unit, state)
    check_above(kept, state)
    before = launch_edit.read(state.unit.all("Service.ExecStart"))
    check_process(before.argv, state.cmdline)
    left = unit_text.parse(_without(state, kept.dropin_path))
    after = launch_edit.read(left.all("Service.ExecStart"))
    startup = startup_of(state.sections["journal"])
    limit, skew = limit_of(startup, minimum_s), skew_of(state, now)
    running, queued = requests_of(state.sections["metrics"])
    environment = _environment(kept, left)
    check_shown(before.argv, after.argv, kept.dropin_text)
    return ChangePlan(
        id=f"{now:%Y%m%dt%H%M%S}-{secrets.token_hex(3)}",
        host=host.name,
        host_key=host.key_fingerprint,
        unit=kept.unit,
        setting=kept.setting,
        from_value=kept.to_value,
        to_value=_value_after(kept, after.argv, environment),
        exec_start_before=before.argv,
        exec_start_after=after.argv,
        environment=environment,
        dropin_path=kept.dropin_path,
        dropin_text=kept.dropin_text,
        preimage_sha256=state.sections["sha"].strip(),
        diff=_dropin_diff(kept, state, left)
        if kept.setting == dropin_edit.SETTING
        else diff_of(kept.unit, f"without {kept.dropin_path}", before.argv, after.argv, environment),
        running_requests=running,
        queued_requests=queued,
        startup_s=startup,
        rollback_after_s=limit,
        readiness_s=limit,
        port=kept.port,
        blast_radius=[
            *blast_of(state, before.argv, kept.setting, running, queued, limit),
            *clock_words(skew),
        ],
        restarts_needed=RESTARTS,
        created_at=now,
        expires_at=now + timedelta(seconds=EXPIRES_S),
        clock_skew_s=skew,
        undoes=kept.id,
    )


def check_dropin(kept: ChangePlan, state: UnitState) -> None:
    """Raise `ToolError` when the file of a kept change is gone, or is not what was written."""
    if state.dropin is None:
        raise ToolError(
            f"{kept.dropin_path} is not there any more: {kept.id} was taken back already, or by somebody else"
        )
    if state.dropin != kept.dropin_text:
        raise ToolError(
            f"{kept.dropin_path} was edited since {kept.id} wrote it, so taking it away would take away what "
            "somebody else wrote; a person has to look at it"
        )


def check_above(kept: ChangePlan, state: UnitState) -> None:
    """Raise `ToolError` when something that sorts after a kept change decides the same, and name it."""
    if (above := decided_above(kept, state)) is None:
        return
    newer = re.search(r"/90-leadline-([^/]+)\.conf$", above)
    if newer is not None:
        raise ToolError(
            f"a newer change, {newer[1]}, stands above {kept.id} and decides the same; take that one back "
            f"first: leadline undo {newer[1]}"
        )
    raise ToolError(f"{above} sorts after {kept.dropin_path} and decides the same; change it there first")


def decided_above(kept: ChangePlan, state: UnitState) -> str | None:
    """Return the drop-in after a kept change's own that decides the same setting, if there is one."""
    keys = set(decides(kept.setting, kept.dropin_text))
    keys |= {"Service.UnsetEnvironment"} if kept.environment is not None else set()
    own, found = kept.dropin_path.rpartition("/")[2], None
    for path, text in _files(state):
        name = path.rpartition("/")[2]
        if not name.endswith(".conf") or name <= own or not keys & unit_text.parse(text).settings.keys():
            continue
        if kept.environment is None or re.search(rf"\b{re.escape(kept.environment.name)}\b", text):
            found = found or path
    return found


def _files(state: UnitState) -> list[tuple[str, str]]:
    parts = _FILE.split(state.sections["cat"])
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _without(state: UnitState, dropin: str) -> str:
    return "\n".join(f"# {path}\n{text}" for path, text in _files(state) if path != dropin)


def _dropin_diff(kept: ChangePlan, state: UnitState, left: unit_text.UnitText) -> str:
    keys = unit_text.parse(kept.dropin_text).settings
    old, new = (
        [f"{key.partition('.')[2]}={side.last(key)}" for key in keys if side.all(key)]
        for side in (state.unit, left)
    )
    names = f"{kept.unit} as it is", f"without {kept.dropin_path}"
    return "\n".join(difflib.unified_diff(old, new, *names, lineterm="", n=2))


def _environment(kept: ChangePlan, left: unit_text.UnitText) -> EnvironmentChange | None:
    if kept.environment is None:
        return None
    name = kept.environment.name
    after = unit_text.environment(left.all("Service.Environment")).get(name)
    return EnvironmentChange(name=name, before=kept.environment.after, after=after)


def _value_after(kept: ChangePlan, argv: list[str], environment: EnvironmentChange | None) -> str | None:
    if kept.setting == dropin_edit.SETTING:
        return None
    return environment.after if environment is not None else launch_edit.flag_value(argv, kept.setting)
