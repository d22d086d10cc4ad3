"""Read what is in force on a host before and after a baseline run: a fix counts by that, not by words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agent.events import ChangeMoved, Event
from agent.named_values import flag_on_command_line, plain_name, same_value
from agent.quotes import StoredText
from agent.state import Change
from evals.baseline_answer import NOT_STATED
from tools.contract import ArtifactRef, ToolContext

_SCRIPT = r"""
units=$(systemctl list-units --type=service --state=running --plain --no-legend) || exit 1
printf 'services\n'
printf '%s\n' "$units" | while read -r unit _; do
  [ "$unit" ] || continue
  pid=$(systemctl show -p MainPID --value "$unit")
  printf 'unit %s\n' "$unit"
  tr '\0' '\n' <"/proc/$pid/cmdline" | sed 's/^/arg /'
  systemctl show "$unit" | sed 's/^/set /'
done
"""
_LIMIT_S = 60.0
_FOUND = "Found on the host after the run; the answer names no such change."
RUNNING = "ActiveState"


@dataclass(frozen=True, slots=True)
class Unit:
    """Hold a running service: its command line and its properties."""

    args: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Return what the unit itself sets in the environment."""
        try:
            words = shlex.split(self.properties.get("Environment", ""))
        except ValueError:
            return {}
        return dict(word.split("=", 1) for word in words if "=" in word)

    @property
    def flags(self) -> dict[str, str | None]:
        """Return the flags of the command line by their plain names."""
        names = [word.partition("=")[0] for word in self.args if word.startswith("--")]
        return {plain_name(name): self.value(name) for name in names}

    def value(self, setting: str) -> str | None:
        """Return what a flag, a variable or a directive is set to; None when it is not set."""
        name = setting.strip()
        if not name.startswith("-") and name in self.properties:
            return self.properties[name]
        if not name.startswith("-") and name in self.environment:
            return self.environment[name]
        return flag_on_command_line(StoredText("\n".join(self.args).encode()), name)


@dataclass(frozen=True, slots=True)
class State:
    """Hold the running services of a host by name, and the stored output they were read from."""

    ref: ArtifactRef
    units: dict[str, Unit]

    def unit(self, name: str) -> Unit | None:
        """Return a service by its name, with or without its ending."""
        return self.units.get(name) or self.units.get(f"{name}.service")


async def read_state(ctx: ToolContext) -> State | None:
    """Read the running services; None where they cannot be read, so that nothing can be said."""
    host = ctx.host()
    result = await host.exec(["sh", "-c", _SCRIPT], timeout_s=_LIMIT_S, retry=True)
    if not result.ok or not result.stdout.complete:
        return None
    ref = ctx.keep(result.stdout.data, host=host.name, label="services in force", taken_at=result.started_at)
    return State(ref, _units(ctx.store.get(ref.sha256).decode("utf-8", "replace")))


def _units(text: str) -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "unit":
            current = units.setdefault(rest, Unit())
        elif kind == "arg" and units:
            current.args.append(rest)
        elif kind == "set" and units:
            name, _, value = rest.partition("=")
            current.properties[name] = value
    return units


def settle(changes: Sequence[Change], before: State | None, after: State | None, host: str) -> list[Event]:
    """Return the changes as the host has them: named ones in force or only proposed, then unnamed ones."""
    if before is None or after is None:
        return [ChangeMoved(change=change) for change in changes]
    events: list[Event] = []
    for change in changes:
        events += _moved(change, before, after)
    known = {(_full(change.unit), plain_name(change.setting)) for change in changes}
    found = (item for item in _differences(before, after) if (item[0], plain_name(item[1])) not in known)
    for number, (unit, setting, was, now) in enumerate(found, len(changes) + 1):
        change = Change(
            id=f"C{number}",
            host=host,
            unit=unit,
            setting=setting,
            from_value=was,
            to_value=now,
            reason=_FOUND,
            hypotheses=[],
            predicted_effect=NOT_STATED,
            mechanism=NOT_STATED,
            rollback=NOT_STATED,
        )
        events += _applied(change)
    return events


def _full(unit: str) -> str:
    return unit if re.search(r"\.[a-z]+$", unit) else f"{unit}.service"


def _moved(change: Change, before: State, after: State) -> list[Event]:
    earlier, later = before.unit(change.unit), after.unit(change.unit)
    if earlier is None or later is None:
        return [ChangeMoved(change=change)]
    was, now = earlier.value(change.setting), later.value(change.setting)
    if was == now or not _meets(now, change.to_value):
        return [ChangeMoved(change=change)]
    return _applied(change)


def _applied(change: Change) -> list[Event]:
    return [ChangeMoved(change=change), ChangeMoved(change=change.model_copy(update={"status": "applied"}))]


def _meets(value: str | None, wanted: str | None) -> bool:
    if wanted is None or wanted.lower() == "false":
        return value is None or value.lower() == "false"
    return value is not None and same_value(value, wanted or "true")


def _differences(before: State, after: State) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield unit, setting, value before and value after of what is no longer the same."""
    for name, was in before.units.items():
        now = after.units.get(name)
        if now is None:
            # What ends by itself, as a timer's job does, is nobody's doing.
            if was.properties.get("UnitFileState") == "enabled":
                yield name, RUNNING, "active", None
            continue
        for flag in {**was.flags, **now.flags}:
            if was.flags.get(flag) != now.flags.get(flag):
                yield name, f"--{flag.replace('_', '-')}", was.flags.get(flag), now.flags.get(flag)
        for variable in {**was.environment, **now.environment}:
            if was.environment.get(variable) != now.environment.get(variable):
                yield name, variable, was.environment.get(variable), now.environment.get(variable)
