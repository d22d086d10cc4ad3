"""Say what an account on a host has in place, what is missing, and what it could do that it should not."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tools.account_setup import LIBRARY
from tools.contract import Host, ToolError
from tools.display import printable
from tools.transaction import HELPER, helper_version

Kind = Literal["root", "helper", "sudo", "plain"]
Status = Literal["ok", "note", "missing", "broken", "excess"]
"""``broken`` and ``excess`` are problems; ``missing`` leaves something out that an account may do without."""

Allowed = dict[str, dict[str, dict[str, str] | list[int]]]
"""The allow file: by unit patterns of values for flags and variables, and the ports it serves on."""

_GROUPS = {
    "sudo": "its members become root",
    "wheel": "its members become root",
    "admin": "its members become root",
    "root": "it may read and write what root's group may",
    "docker": "its members start containers as root",
    "lxd": "its members start containers as root",
    "lxc": "its members start containers as root",
    "podman": "its members may start containers as root",
    "libvirt": "its members start machines as root",
    "disk": "its members read and write every file",
    "kmem": "its members read all memory",
    "shadow": "its members read all password hashes",
}
_EXCESS = {
    "writes-system": "may write {}, from which root's programs or units are read",
    "writes-socket": "may use {}, which gives root",
    "writes-disk": "may write the device {}",
    "writes-home": "may write {} of another account",
    "writes-unit": "may write {}, so it can change a unit without an approval",
    "writes-code": "may write {}, which a service runs: the source that is read may be what it wrote itself",
    "reads-secret": "may read {}",
}
_WANTED = {
    "rg": "searches read source with grep instead, more slowly; or allow a static rg to be sent",
    "timeout": "a command that hangs is ended from our side alone",
    "base64": "od is used instead",
}


class Finding(BaseModel):
    """Hold one thing that was found, for people."""

    model_config = ConfigDict(frozen=True)

    status: Status
    what: str
    do: str = ""


class AccountReport(BaseModel):
    """Hold all of what a check found."""

    model_config = ConfigDict(frozen=True)

    host: str
    user: str
    kind: Kind
    helper: Literal["none", "ours", "another version", "unusable"]
    allowed: Allowed = Field(default_factory=dict)
    findings: list[Finding]

    @property
    def problems(self) -> list[Finding]:
        """Return what has to be put right."""
        return [finding for finding in self.findings if finding.status in ("broken", "excess")]


async def check(host: Host, units: Sequence[str] = ()) -> AccountReport:
    """Look at the account that is logged in; one command, which changes nothing."""
    script = Path(__file__).with_name("account.sh").read_text()
    argv = ["sh", "-c", script, "account", HELPER, LIBRARY, *units]
    result = await host.exec(argv, timeout_s=60.0, retry=True)
    said: dict[str, list[str]] = defaultdict(list)
    for line in result.stdout.data.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(" ")
        said[name].append(printable(value.strip()))
    if not result.ok or "end" not in said:
        why = result.detail or result.outcome
        raise ToolError(f"the account on {host.name} could not be looked at: {why}; try again")
    return report(host.name, said)


def report(host: str, said: dict[str, list[str]]) -> AccountReport:
    """Return what the probe's records mean."""
    root = said["uid"] == ["0"]
    helper = _helper(said)
    if root:
        kind: Kind = "root"
    elif "sudo" in said:
        kind = "sudo"
    else:
        kind = "helper" if helper in ("ours", "another version") else "plain"
    allowed = _allowed(said)
    findings = [
        *_of_kind(kind, helper),
        *_of_helper(said, helper),
        *_of_allow(said, allowed, helper),
        *_of_tools(said, kind),
        *([] if root else _excess(said)),
    ]
    user = (said["user"] or ["?"])[0]
    return AccountReport(host=host, user=user, kind=kind, helper=helper, allowed=allowed, findings=findings)


def _helper(said: dict[str, list[str]]) -> Literal["none", "ours", "another version", "unusable"]:
    if "file" not in said:
        return "none"
    if "version" not in said:
        return "unusable"
    return "ours" if said["version"] == [helper_version()] else "another version"


def _allowed(said: dict[str, list[str]]) -> Allowed:
    try:
        found = json.loads((said.get("allowed") or ["{}"])[0])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _of_kind(kind: Kind, helper: str) -> Iterator[Finding]:
    setup = "leadline host setup HOST --print makes an account with one root-owned program instead"
    if kind == "root":
        yield Finding(status="excess", what="this account is root: nothing on the host limits it", do=setup)
    elif kind == "sudo":
        yield Finding(
            status="excess", what="sudo lets this account run anything as root, without a password", do=setup
        )
    elif kind == "plain":
        yield Finding(
            status="ok" if helper == "none" else "note",
            what="an account that may only read: changes are not possible, which is fine for diagnosis",
            do="" if helper != "none" else "for changes: leadline host setup HOST --print",
        )
    else:
        yield Finding(status="ok", what=f"an unprivileged account with {HELPER}")


def _of_helper(said: dict[str, list[str]], helper: str) -> Iterator[Finding]:
    again = "run what leadline host setup HOST --print prints again"
    if helper == "ours":
        yield Finding(status="ok", what=f"{HELPER} and its two files are the ones of this Leadline")
    elif helper == "another version":
        ours = helper_version().split()
        theirs = {line.split()[-1]: line.split()[-2] for line in said["file"]}
        names = [HELPER, f"{LIBRARY}/transaction.sh", f"{LIBRARY}/transaction_enter.sh"]
        differs = [name for name, digest in zip(names, ours[2:], strict=True) if theirs.get(name) != digest]
        what = f"another version of the helper is installed ({', '.join(differs) or said['version'][0][:40]})"
        yield Finding(status="broken", what=f"{what}: changes are refused", do=again)
    elif helper == "unusable":
        why = (said.get("unusable") or ["it gives no answer"])[0]
        what = f"{HELPER} is there but this account may not run it ({why})"
        yield Finding(status="missing", what=what, do="log in as the account that it was set up for")
    for line in said.get("file", []):
        owner, mode, *_, path = line.split()
        if owner != "root" or (mode.isdigit() and int(mode, 8) & 0o022):
            yield Finding(
                status="broken", what=f"{path} is {owner} {mode}; it must be root's alone", do=again
            )
    if "arguments" in said:
        yield Finding(
            status="note",
            what="sudo does not check the helper's arguments here (it is older than 1.9.10): the helper does",
        )


def _of_allow(said: dict[str, list[str]], allowed: Allowed, helper: str) -> Iterator[Finding]:
    if helper not in ("ours", "another version"):
        return
    if "refuses" in said:
        yield Finding(status="broken", what=said["refuses"][0], do="put the allow file right as root")
        return
    for unit, may in allowed.items():
        names = sorted(str(name) for kind, known in may.items() if kind != "ports" for name in known)
        yield Finding(status="ok", what=f"{unit}: may change {', '.join(names) or 'nothing'}")
        if names and not may.get("ports"):
            yield Finding(
                status="broken",
                what=f"{unit}: the allow file names no port, so every change of it is refused",
                do='add "ports": [30000], where it serves, as root',
            )
    if not allowed:
        yield Finding(
            status="missing",
            what="the allow file names no unit: nothing may be changed",
            do="edit it as root",
        )
    for line in said.get("unit", []):
        unit, _, state = line.partition(" ")
        if state != "loaded":
            yield Finding(status="missing", what=f"there is no unit {unit} here", do="correct the allow file")


def _of_tools(said: dict[str, list[str]], kind: Kind) -> Iterator[Finding]:
    lacks = set(said.get("lacks", []))
    for program, without in _WANTED.items():
        if program in lacks:
            yield Finding(status="missing", what=f"{program} is not installed: {without}")
    if "systemd" not in said:
        yield Finding(status="missing", what="no systemd runs here: changes are instructions for a person")
    if "journalctl" in lacks:
        yield Finding(status="missing", what="journalctl is not installed: logs are read from files")
    elif said.get("journal") == ["own"]:
        through = "; those of allowed units are read through the helper" if kind == "helper" else ""
        yield Finding(status="note", what=f"the journal of other users is not permitted{through}")
    else:
        yield Finding(status="ok", what="the journal can be read")


def _excess(said: dict[str, list[str]]) -> Iterator[Finding]:
    for group in said.get("group", []):
        if group in _GROUPS:
            do = f"as root: gpasswd -d {(said['user'] or ['USER'])[0]} {group}"
            yield Finding(status="excess", what=f"is in group {group}: {_GROUPS[group]}", do=do)
    for rule in said.get("rule", []):
        if "NOPASSWD" in rule and HELPER not in rule and "sudo" not in said:
            yield Finding(status="excess", what=f"sudo allows more than the helper: {rule[:120]}")
    for name in ("CapEff", "CapAmb"):
        if any(value.strip("0") for value in said.get(name, [])):
            yield Finding(status="excess", what=f"holds capabilities of root: {name} {said[name][0]}")
    if "polkit" in said:
        yield Finding(
            status="excess",
            what="polkit lets it start and stop every unit without a password",
            do="look for a rule on org.freedesktop.systemd1.manage-units in /etc/polkit-1/rules.d",
        )
    for name, what in _EXCESS.items():
        for path in dict.fromkeys(said.get(name, [])):
            yield Finding(status="excess", what=what.format(path))
