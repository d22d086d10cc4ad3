"""Gather what one investigation read of one host: facts, units, files, logs, commands, measurements."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.events import (
    ChangeMoved,
    Event,
    EvidenceAdded,
    Judged,
    Measured,
    Started,
    ToolFinished,
    ToolStarted,
)
from agent.state import Change
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef
from tools.facts_parse import Gathered

_RECORDS: tuple[tuple[str, str], ...] = (
    (r"nvidia-smi --query-gpu=\S+ --format=csv", "gpus"),
    (r"nvidia-smi", "gpu_header"),
    (r"/etc/os-release, uname, uptime, load", "os"),
    (r"processors, memory, governors", "hardware"),
    (r"df -P / /dev/shm /tmp", "disks"),
    (r"/proc/net/tcp and tcp6", "ports"),
    (r"journalctl -k -b -n 1", "kernel_log"),
    (r"unit files that mention an engine", "unit_files"),
    (r"systemctl cat (\S+)", "unit"),
    (r"systemctl show (\S+)", "show"),
    (r"/proc/(\d+)/cmdline, one argument a line", "cmdline"),
    (r"/proc/(\d+)/environ, allowed names only", "environ"),
    (r"/proc/(\d+): exe, cwd, stat, status, cgroup", "about"),
    (r"/proc/(\d+)/limits", "limits"),
    (r"package of (\d+)", "package"),
)
"""Labels of the outputs of `facts`, and the records that its parsers know them by."""
_UNIT = re.compile(r"(?:sudo )?systemctl(?: --no-pager)? cat(?: --no-pager)? ([\w@.:-]+)(?: --no-pager)?")

_OWN_URL = re.compile(r"(?:http://)?(?:127\.0\.0\.1|localhost|\[::1\]):(\d+)(/[^?#\s]*)?.*")


@dataclass(slots=True)
class Output:
    """Hold one stored output and the call that it is from."""

    ref: ArtifactRef
    tool: str
    text: str
    arguments: dict[str, Any]

    @property
    def command(self) -> str:
        """Return the command that printed it; empty for outputs of other tools."""
        return str(self.arguments.get("command") or "") if self.tool in ("run", "bash") else ""


@dataclass(slots=True)
class HostRecord:
    """Hold what was read of one host, in order."""

    host: str
    started: Started
    facts: Gathered = field(default_factory=Gathered)
    units: dict[str, str] = field(default_factory=dict)
    """Unit -> what ``systemctl cat`` printed, as it was before any change."""
    outputs: list[Output] = field(default_factory=list)
    benchmarks: list[tuple[ArtifactRef, dict[str, Any]]] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    """What was cited as evidence, from any host."""
    judged: list[Judged] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)
    in_force: dict[str, list[str]] = field(default_factory=dict)
    """Change -> the changes in force when it was tried: those kept before, and itself."""
    packages: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Package -> its version and its folder, as files of it that were read tell."""
    failed: dict[str, list[str]] = field(default_factory=dict)
    """Change with which the service did not come up -> the last lines it logged."""

    @property
    def zero(self) -> float:
        """Return the moment, in seconds, that a lab's start stands for."""
        return self.started.at.timestamp()


def hosts_of(events: Sequence[Event]) -> list[str]:
    """Return the hosts that outputs came from, the one with the most first."""
    counts: dict[str, int] = {}
    for event in events:
        for ref in event.artifacts if isinstance(event, ToolFinished) else ():
            counts[ref.host] = counts.get(ref.host, 0) + 1
    return sorted(counts, key=lambda host: -counts[host])


def gather(events: Sequence[Event], store: ArtifactStore, host: str) -> HostRecord:
    """Return what was read of a host."""
    started = events[0]
    assert isinstance(started, Started)  # the reader accepts nothing else first
    record = HostRecord(host, started)
    arguments: dict[str, dict[str, Any]] = {}
    for event in events:
        if isinstance(event, ToolStarted):
            arguments[event.call] = event.arguments
        elif isinstance(event, ToolFinished):
            for ref in event.artifacts:
                if ref.host == host:
                    _take(record, ref, event.tool, store.get(ref.sha256), arguments.get(event.call, {}))
            if event.tool == "propose_change" and event.host == host:
                _take_failure(record, event)
        elif isinstance(event, EvidenceAdded):
            record.quotes.append(event.evidence.citation.quote)
        elif isinstance(event, ChangeMoved) and event.change.host == host:
            record.changes[event.change.id] = event.change
        else:
            _take_trial(record, event)
    return record


def _take_trial(record: HostRecord, event: Event) -> None:
    if isinstance(event, Measured) and event.artifact.host == record.host:
        record.measured.append(event)
    elif isinstance(event, Judged) and event.artifact.host == record.host:
        _in_force(record, event.change)
        record.judged.append(event)


def _in_force(record: HostRecord, change: str) -> None:
    kept = [one.id for one in record.changes.values() if one.status == "verified" and one.id != change]
    record.in_force[change] = [*kept, change]


def _take_failure(record: HostRecord, event: ToolFinished) -> None:
    """Note a change with which the service ended while it started."""
    view = _json(event.view) or {}
    change, notes = view.get("change"), view.get("notes")
    if change not in record.changes or "did not come up" not in str(view.get("why")):
        return
    unit = record.changes[change].unit
    lines = [str(note) for note in notes or () if not str(note).startswith(f"{unit}: ")]
    _in_force(record, change)
    record.failed[change] = lines


def _take(record: HostRecord, ref: ArtifactRef, tool: str, data: bytes, arguments: dict[str, Any]) -> None:
    text = data.decode("utf-8", "replace")
    if tool == "facts":
        name = _record_of(ref.label)
        if name is not None:
            record.facts.records.setdefault(name, data)
            if name.startswith("unit:"):
                record.units.setdefault(name.removeprefix("unit:"), text)
            return
    if ref.label.startswith("benchmark of port"):
        if (measured := _json(text)) is not None:
            record.benchmarks.append((ref, measured))
        return
    if ref.package:  # the package itself lies on the lab host
        root = re.match(rf".*-packages/{re.escape(ref.package)}(?=/)", ref.path or "")
        record.packages.setdefault(ref.package, (ref.version or "", root[0] if root else ""))
        return
    output = Output(ref, tool, text, arguments)
    if found := _UNIT.fullmatch(output.command.strip()):
        name = found[1] if "." in found[1] else f"{found[1]}.service"
        record.units.setdefault(name, text)
    record.outputs.append(output)


def _record_of(label: str) -> str | None:
    for pattern, name in _RECORDS:
        if found := re.fullmatch(pattern, label):
            return f"{name}:{found[1]}" if found.groups() else name
    return None


def _json(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def asked_urls(record: HostRecord) -> Iterator[tuple[int, str, Output]]:
    """Yield port, path and output of every command that read something of a server of the host itself."""
    for output in record.outputs:
        if not re.match(r"(?:curl|wget)\b", output.command):
            continue
        try:
            words = shlex.split(output.command.split("|")[0])
        except ValueError:
            continue
        for word in words[1:]:
            if found := _OWN_URL.fullmatch(word):
                yield int(found[1]), found[2] or "/", output
