"""The slash command on what really ran: the audit's records, not what was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

from agent.audit_files import files_of
from agent.audit_record import AuditRecord, Broken, read
from agent.audit_verify import lines_of
from agent.surfaces.hand_run import BEFORE
from agent.surfaces.slash_types import Candidate, Desk, DeskCommand, Reply

_BEGUN: Final = ("command_started", "port_opened")


def _log(desk: Desk, argument: str) -> str | Reply:
    """Tell every command of this chat, the newest last; a number keeps the last so many."""
    host, most = _asked(desk, argument)
    begun: dict[int, AuditRecord] = {}
    ended: dict[int, AuditRecord] = {}
    for record in _records(desk):
        if record.kind in _BEGUN and (not host or record.host == host):
            begun[record.seq] = record
        elif record.kind == "command_ended" and record.of is not None:
            ended[record.of] = record
    if not begun:
        where = f" on {host}" if host else ""
        return f"no command ran{where} yet; each will be kept in {desk.settings.state_dir / 'audit'}"
    rows = [_ran(record, ended.get(seq)) for seq, record in begun.items()]
    left = len(rows) - most if most is not None else 0
    head = [f"... {left:,} before; /log shows all"] if left > 0 else []
    return Reply("\n".join([*head, *rows[max(left, 0) :]]), whole=True, newest_last=True)


def _asked(desk: Desk, argument: str) -> tuple[str, int | None]:
    """Return the host and the number that are asked for, in any order; a host may be called like a number."""
    host, most = "", None
    for word in argument.split():
        if word.isdecimal() and word not in desk.names:
            most = max(int(word), 1)
        else:
            host = word
    return host, most


def _records(desk: Desk) -> Iterator[AuditRecord]:
    """Yield the records of the thread, and of what this process ran by hand before there was one."""
    thread = desk.session.thread if desk.session is not None else BEFORE
    marks = {f'"{name}"'.encode() for name in (thread, BEFORE)}
    for line in lines_of(files_of(desk.settings.state_dir / "audit")):
        if any(mark in line.text for mark in marks):
            try:
                record = read(line.text)
            except Broken:
                continue  # `leadline audit verify` tells which
            if record.thread == thread != BEFORE or _by_hand_here(record, desk):
                yield record


def _by_hand_here(record: AuditRecord, desk: Desk) -> bool:
    """Tell whether a record is of what this chat ran before its session; ids of processes come again."""
    began = desk.since is not None and record.at >= desk.since
    return began and record.thread == BEFORE and record.pid == os.getpid()


def _ran(record: AuditRecord, end: AuditRecord | None) -> str:
    if record.kind == "port_opened":
        how = "opened"
    elif end is None:
        how = "no end known"
    else:
        how = f"exit {end.exit_code}" if end.exit_code is not None else str(end.outcome or "")
        how += f" in {end.duration_s:.1f} s" if end.duration_s is not None else ""
    what = " ".join((record.command or record.detail).split())
    why = " ".join(record.what.split()).removesuffix(f": {what}")  # by hand, it says the command again
    return f"{record.at:%H:%M:%S} UTC  {record.host}  {how}  {what}{f'  [{why}]' if why else ''}"


def _some_hosts(desk: Desk) -> Iterable[Candidate]:
    return [Candidate(name) for name in desk.names]


COMMANDS = {
    "/log": DeskCommand(
        "/log [HOST] [N]",
        "every command that ran on a host, with exit code and time; the last N of them",
        _log,
        _some_hosts,
        reads=True,
    ),
}
