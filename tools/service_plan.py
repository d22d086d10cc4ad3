"""Make the plan of one change to a service, from reads alone."""

from __future__ import annotations

import difflib
import re
import secrets
from datetime import datetime, timedelta

from tools import dropin_edit, launch_edit, launch_line, unit_text
from tools.contract import Host, ToolError
from tools.display import printable
from tools.redact import redact
from tools.service_request import check
from tools.service_types import ChangePlan, ChangeRequest, EnvironmentChange
from tools.service_unit import UnitState, check_process, check_unit, read_unit, skew_of

EXPIRES_S = 1800.0
UNKNOWN_START_S = 600.0
"""Limits of a plan when no start was seen in the journal: large models take minutes."""
RESTARTS = 2
"""Starts a plan may use: the change, and the way back."""
_SAME = (
    frozenset({"--tp-size", "--tensor-parallel-size", "--tp", "-tp"}),
    frozenset({"--pp-size", "--pipeline-parallel-size", "--pp", "-pp"}),
    frozenset({"--dp-size", "--data-parallel-size", "--dp", "-dp"}),
    frozenset({"--ep-size", "--expert-parallel-size", "--ep"}),
    frozenset({"--model-path", "--model"}),
    frozenset({"--compilation-config", "-cc"}),
    frozenset({"--quantization", "-q"}),
)
"""Names of one setting that do not begin alike, in SGLang and vLLM."""
_METRIC = re.compile(
    r"^(?:sglang|vllm):num_(?:requests_)?(running|queue|waiting)(?:_reqs)?[ {].*?([0-9.e+]+)$"
)


async def make_plan(
    host: Host, request: ChangeRequest, *, port: int, now: datetime, minimum_s: float = 60.0
) -> ChangePlan:
    """Read the unit and return the plan of one change; raise `ToolError` when it cannot be made safely."""
    check(request)
    state = await read_unit(host, request.unit, port)
    check_unit(request.unit, state)
    line = launch_edit.read(state.unit.all("Service.ExecStart"))
    check_process(line.argv, state.cmdline)
    plan_id = f"{now:%Y%m%dt%H%M%S}-{secrets.token_hex(3)}"
    dropin = f"/etc/systemd/system/{request.unit}.d/90-leadline-{plan_id}.conf"
    after, environment, text = _edit(request, state, line)
    check_shadow(state, dropin, request.setting, text)
    check_shown(line.argv, after, text)
    startup = startup_of(state.sections["journal"])
    limit = limit_of(startup, minimum_s)
    running, queued = requests_of(state.sections["metrics"])
    return ChangePlan(
        id=plan_id,
        host=host.name,
        host_key=host.key_fingerprint,
        unit=request.unit,
        setting=request.setting,
        from_value=request.from_value,
        to_value=request.to_value,
        exec_start_before=line.argv,
        exec_start_after=after,
        environment=environment,
        dropin_path=dropin,
        dropin_text=text,
        preimage_sha256=state.sections["sha"].strip(),
        diff=directives_diff(request.unit, dropin, state, text)
        if request.setting == dropin_edit.SETTING
        else diff_of(request.unit, dropin, line.argv, after, environment),
        running_requests=running,
        queued_requests=queued,
        startup_s=startup,
        rollback_after_s=limit,
        readiness_s=limit,
        port=port,
        blast_radius=blast_of(state, line.argv, request.setting, running, queued, limit)
        + clock_words(skew_of(state, now)),
        restarts_needed=RESTARTS,
        created_at=now,
        expires_at=now + timedelta(seconds=EXPIRES_S),
        clock_skew_s=skew_of(state, now),
    )


def clock_words(skew: float) -> list[str]:
    """Say that the clock of the host is wrong, or ours; the limits of a plan do not depend on it."""
    if not skew:
        return []
    way = "ahead of" if skew > 0 else "behind"
    return [f"the host's clock is {abs(skew):.0f} s {way} ours; times in its journal are shifted by that"]


def limit_of(startup: float | None, minimum_s: float) -> float:
    """Return how long a start may take, and how long a change stays unless it is confirmed."""
    return max(minimum_s, 2 * startup) if startup is not None else max(minimum_s, UNKNOWN_START_S)


def _edit(
    request: ChangeRequest, state: UnitState, line: launch_edit.LaunchLine
) -> tuple[list[str], EnvironmentChange | None, str]:
    """Return the launch line after the change, the change of the environment, and the drop-in."""
    if request.setting == dropin_edit.SETTING:
        return line.argv, None, dropin_edit.text_of(request.to_value or "")
    if request.setting.startswith("--"):
        found = launch_edit.flag_value(line.argv, request.setting)
        _check_from(request, found)
        after = launch_edit.with_flag(line.argv, request.setting, request.to_value)
        return after, None, launch_edit.exec_start_dropin(line.prefix, after)
    for name, _, file in (row.partition(" ") for row in state.sections["envfiles"].splitlines()):
        if name == request.setting:
            raise ToolError(
                f"{name} is set by EnvironmentFile={printable(file)}, which wins over a drop-in's "
                f"Environment=; a person has to change it there"
            )
        if name == "?":
            raise ToolError(
                f"{request.setting} may be set by EnvironmentFile={printable(file)}, which cannot be read "
                "here and wins over a drop-in; a person has to look"
            )
    removed = state.properties.get("UnsetEnvironment", "").split()
    if request.setting in removed:
        raise ToolError(f"the unit unsets {request.setting}; take that out by hand first")
    _check_from(request, unit_text.environment(state.unit.all("Service.Environment")).get(request.setting))
    change = EnvironmentChange(name=request.setting, before=request.from_value, after=request.to_value)
    return line.argv, change, launch_edit.environment_dropin(request.setting, request.to_value)


def _check_from(request: ChangeRequest, found: str | None) -> None:
    if found == request.from_value:
        return
    is_now = "is not set" if found is None else f"is {printable(found)}"
    asked = "not set" if request.from_value is None else request.from_value
    raise ToolError(f"{request.setting} {is_now} in {request.unit}, not {asked}; plan from what it is")


def decides(setting: str, text: str) -> frozenset[str]:
    """Return what a drop-in of ours decides, as ``Section.Key``."""
    if setting == dropin_edit.SETTING:
        return frozenset(unit_text.parse(text).settings)
    return frozenset({"Service.ExecStart" if setting.startswith("--") else "Service.Environment"})


def check_shadow(state: UnitState, dropin: str, setting: str, text: str) -> None:
    """Refuse when a drop-in that sorts after ours decides the same."""
    own = dropin.rpartition("/")[2]
    parts = re.split(r"(?m)^# (/\S.*)$", state.sections["cat"])
    for path, other in zip(parts[1::2], parts[2::2], strict=True):
        if not path.endswith(".conf") or path.rpartition("/")[2] <= own:
            continue
        for key in sorted(decides(setting, text) & unit_text.parse(other).settings.keys()):
            raise ToolError(f"{path} sorts after every drop-in of ours and decides {key}; change it there")


def directives_diff(unit: str, dropin: str, state: UnitState, text: str) -> str:
    """Return what a whole drop-in changes: each directive as the unit has it without, and with it."""
    keys = unit_text.parse(text).settings
    new = [f"{key.partition('.')[2]}={values[-1]}" for key, values in keys.items()]
    old = [f"{key.partition('.')[2]}={state.unit.last(key)}" for key in keys if state.unit.all(key)]
    return "\n".join(difflib.unified_diff(old, new, f"{unit} as it is", dropin, lineterm="", n=2))


def check_shown(before: list[str], after: list[str], text: str) -> None:
    """Refuse what cannot be shown for approval as it is."""
    if printable(text) != text:
        raise ToolError("the launch line holds characters that cannot be shown, so nobody can approve it")
    if launch_line.mask(before) != before or launch_line.mask(after) != after:
        raise ToolError("the launch line holds a secret; move it to an EnvironmentFile= first")
    if redact(text.encode()) != text.encode():
        raise ToolError("the change holds what looks like a secret, so it cannot be shown for approval")


def startup_of(text: str) -> float | None:
    """Return the longest of the last starts, from the unit's start to its engine's ready line."""
    started: float | None = None
    announced = False
    seen: dict[float, float] = {}
    for line in text.splitlines():
        stamp, _, rest = line.partition(" ")
        if not re.fullmatch(r"\d+\.\d+", stamp):
            continue
        at = float(stamp)
        if match := re.search(r"systemd\[1\]: Start(ed|ing) ", rest):
            # A unit that tells when it is ready is "Starting" first; its "Started" is not the beginning.
            if match[1] == "ing" or not announced:
                started = at
            announced = match[1] == "ing"
        elif started is not None:
            seen[started] = at - started  # the last ready line counts: one server prints two
    return round(max(list(seen.values())[-5:]), 1) if seen else None


def requests_of(text: str) -> tuple[int | None, int | None]:
    """Return running and queued requests; None each when the server does not tell."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if match := _METRIC.match(line):
            kind = "running" if match[1] == "running" else "queued"
            found[kind] = max(found.get(kind, 0.0), float(match[2]))
    running, queued = found.get("running"), found.get("queued")
    return (None if running is None else round(running)), (None if queued is None else round(queued))


def alike_of(argv: list[str], setting: str) -> list[str]:
    """Return the flags of a launch line that may be another name of a setting, or a short form of one."""
    flags = {word.partition("=")[0] for word in argv if re.match(r"--?[A-Za-z]", word)} - {setting}
    if not setting.startswith("--"):
        return []
    names = next((names for names in _SAME if setting in names), frozenset({setting}))
    return sorted(
        flag
        for flag in flags
        if flag in names
        or (flag.startswith("--") and any(flag.startswith(n) or n.startswith(flag) for n in names))
    )


def blast_of(
    state: UnitState, argv: list[str], setting: str, running: int | None, queued: int | None, limit: float
) -> list[str]:
    """Say what else a restart of the unit touches."""
    out = [
        f"{word} stands in the launch line as well; if it is another name of {setting}, the last one counts"
        for word in alike_of(argv, setting)
    ]
    out += [
        f"{state.properties.get('Id')} is restarted: no answers until it is ready,"
        f" up to {limit:g} s, twice if it is rolled back"
    ]
    if running is None:
        out.append("how many requests run could not be read; those that do are cut off")
    elif running or queued:
        out.append(f"{running} running and {queued or 0} queued requests are cut off")
    others = [line for line in state.sections["processes"].splitlines() if line.strip()]
    if others:
        out.append(
            f"{len(others)} other processes of the unit end with it: {printable(others[0].strip())[:80]}"
        )
    for name in ("RequiredBy", "BoundBy", "ConsistsOf"):
        if units := state.properties.get(name, "").split():
            out.append(f"stopped or restarted with it ({name}): {', '.join(units)}")
    for name in ("ExecStartPre", "ExecStartPost", "ExecStop"):
        for line in state.unit.all(f"Service.{name}"):
            out.append(f"{name}= runs again: {printable(line)[:120]}")
    containers = state.sections["containers"].splitlines()
    if containers:
        out.append(
            f"{len(containers)} containers run here: daemon-reload can make containers lose their GPUs"
            " on some hosts"
        )
    return out


def diff_of(
    unit: str, dropin: str, before: list[str], after: list[str], change: EnvironmentChange | None
) -> str:
    """Return what changes, one flag a line, under the names of both sides."""
    old, new = _lines(before), _lines(after)
    if change is not None:
        old += [f"Environment {change.name}={change.before}"] if change.before is not None else []
        new += [f"Environment {change.name}={change.after}"] if change.after is not None else []
    return "\n".join(difflib.unified_diff(old, new, f"{unit} as it runs", dropin, lineterm="", n=2))


def _lines(argv: list[str]) -> list[str]:
    """Return a launch line with one flag and its values a line."""
    out: list[str] = []
    for word in argv:
        if out and not word.startswith("-") and out[-1].startswith("--") and "=" not in out[-1]:
            out[-1] += f" {launch_edit.quoted(word)}"
        else:
            out.append(launch_edit.quoted(word))
    return out
