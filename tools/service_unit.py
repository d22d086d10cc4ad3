"""Read one unit of a host as it is, and refuse the kinds that no plan is made for, with the reason."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tools import launch_edit, unit_text
from tools.contract import Host, ToolError
from tools.display import printable

SKEW_S = 5.0
"""A clock that is off by less is taken for right: reading it takes time as well."""


@dataclass(frozen=True, slots=True)
class UnitState:
    """Hold what was read of a unit, section by section."""

    sections: dict[str, str]
    properties: dict[str, str]
    unit: unit_text.UnitText

    @property
    def cmdline(self) -> list[str]:
        """Return the arguments of the main process."""
        return _words(self.sections["cmdline"])

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables of the main process; empty where this account may not read them."""
        pairs = (word.partition("=") for word in _words(self.sections.get("environ", "")))
        return {name: value for name, _, value in pairs}

    @property
    def dropin(self) -> str | None:
        """Return the text of the drop-in that was asked for; None when it is not there."""
        text = self.sections.get("dropin", "")
        return text.removesuffix(".\n").removesuffix(".") if text else None


def _words(text: str) -> list[str]:
    return [word.replace("\1", "\n") for word in text.split("\n") if word]


async def read_unit(host: Host, unit: str, port: int, dropin: str = "") -> UnitState:
    """Read a unit in one round trip; raise `ToolError` when the host does not answer whole."""
    mark = f"@@{secrets.token_hex(8)}"
    script = (Path(__file__).parent / "service_read.sh").read_text()
    argv = ["sh", "-c", script, "leadline", unit, str(port), mark, *([dropin] if dropin else [])]
    result = await host.exec(argv, timeout_s=60.0, retry=True)
    sections: dict[str, str] = {}
    for part in result.stdout.data.decode("utf-8", "replace").split(f"\n{mark} ")[1:]:
        name, _, body = part.partition("\n")
        sections[name] = body
    if not result.ok or "end" not in sections:
        raise ToolError(
            f"{unit} could not be read on {host.name}: {result.detail or result.outcome}; try again"
        )
    pairs = (line.partition("=") for line in sections["show"].splitlines())
    return UnitState(sections, {key: value for key, _, value in pairs}, unit_text.parse(sections["cat"]))


def skew_of(state: UnitState, now: datetime) -> float:
    """Return by how many seconds the host's clock is ahead of ours; 0 when it is about right."""
    told = state.sections["clock"].strip()
    skew = float(int(told) - int(now.timestamp())) if told.isdigit() else 0.0
    return skew if abs(skew) >= SKEW_S else 0.0


def check_unit(unit: str, state: UnitState) -> None:
    """Raise `ToolError` when a unit is not a service that runs from a file which a drop-in can change."""
    about = state.properties
    if state.sections["systemd"].strip() != "yes":
        raise ToolError("this host does not run systemd; change the setting by hand")
    load = about.get("LoadState")
    if load == "masked":
        raise ToolError(f"{unit} is masked, so nothing can start it; a person has to unmask it first")
    if load in ("bad-setting", "error"):
        raise ToolError(
            f"systemd cannot load {unit} ({load}: {printable(about.get('LoadError', ''))}); fix that"
        )
    if load != "loaded" or not state.sections["cat"].strip():
        raise ToolError(f"there is no unit {unit} on this host")
    if (name := about.get("Id", unit)) != unit:
        raise ToolError(f"{unit} is another name of {name}; name that one")
    _check_kind(unit, about)
    if about.get("NeedDaemonReload") == "yes":
        raise ToolError(
            f"{unit} was edited and not reloaded; that edit would come into force with this change"
        )
    if about.get("ActiveState") != "active" or about.get("MainPID", "0") == "0":
        raise ToolError(f"{unit} does not run ({about.get('ActiveState')}); start it, or fix that first")


def _check_kind(unit: str, about: dict[str, str]) -> None:
    fragment = about.get("FragmentPath", "")
    if about.get("Transient") == "yes" or fragment.startswith("/run/systemd/transient/"):
        raise ToolError(
            f"{unit} was started by systemd-run and ends with its process: there is no file to change; "
            "start it anew with the other setting"
        )
    if fragment.startswith("/run/systemd/generator"):
        source = about.get("SourcePath") or "another file"
        raise ToolError(f"{unit} is made by a generator from {source}; a person has to change it there")
    if about.get("Type") == "oneshot":
        raise ToolError(f"{unit} is of Type=oneshot: it ends by itself, so no change of it can be tried")


def check_process(argv: list[str], cmdline: list[str]) -> None:
    """Refuse a unit whose main process is not what its launch line says."""
    if not cmdline:
        raise ToolError("the command line of the unit's process may not be read by this account")
    if launch_edit.is_shell(cmdline[0]):
        raise ToolError(
            f"the unit's process is a shell ({argv[0]} is a wrapper); the settings are in what it runs"
        )
    tail = argv[1:]
    if not tail or cmdline[-len(tail) :] != tail:
        raise ToolError(
            "the unit's process does not run what ExecStart= says: systemd did not start this engine so"
        )
