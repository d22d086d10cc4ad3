"""Check and show the audit of this installation."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.audit_files import files_of
from agent.audit_record import AuditRecord, Broken, read
from agent.audit_verify import lines_of
from agent.audit_verify import verify as check
from agent.config import load_settings
from agent.errors import ExitCode, UsageError
from tools.display import printable, visible_json

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def verify(file: Path | None, *, as_json: bool) -> None:
    """Print whether an audit is whole, or the first record that is not; exit 1 then."""
    settings = load_settings()
    place = file or settings.state_dir / "audit"
    if not place.exists():
        if file is not None:
            raise UsageError(f"{file} is not there", do="name a file or a folder of an audit")
        sys.stdout.write('{"records": 0, "problem": "", "notes": []}\n' if as_json else "No records yet.\n")
        return
    found = check(place, settings.audit.copy_to if file is None else ())
    if as_json:
        row = {"records": found.records, "problem": found.problem, "notes": found.notes}
        sys.stdout.write(json.dumps(row) + "\n")
    else:
        for note in found.notes:
            sys.stdout.write(printable(f"note: {note}\n"))
        whole = f"{place}: {found.records} records, whole and in order"
        sys.stdout.write(printable(found.problem or whole) + "\n")
    if found.problem:
        raise SystemExit(int(ExitCode.ERROR))


def show(host: str | None, since: str | None, *, as_json: bool) -> None:
    """Print the records, oldest first."""
    begin = _moment(since) if since is not None else None
    shown = 0
    for record in _records(load_settings().state_dir / "audit"):
        if (host is not None and record.host != host) or (begin is not None and record.at < begin):
            continue
        shown += 1
        if as_json:
            sys.stdout.write(visible_json(record.model_dump_json(exclude_none=True)) + "\n")
        else:
            sys.stdout.write(printable(_line(record)).replace("\n", " ") + "\n")
    if not shown and not as_json:
        sys.stdout.write("No such records. `leadline audit verify` checks the file.\n")


def _records(folder: Path) -> Iterator[AuditRecord]:
    damaged = 0
    for line in lines_of(files_of(folder)):
        try:
            yield read(line.text)
        except Broken:
            damaged += 1
    if damaged:
        sys.stderr.write(f"  {damaged} damaged lines are left out: `leadline audit verify`\n")


def _line(record: AuditRecord) -> str:
    """Return a record as a line for people."""
    ended = [record.outcome, f"exit {record.exit_code}" if record.exit_code is not None else None]
    parts = [
        f"{record.seq:>6}  {record.at:%Y-%m-%d %H:%M:%S}  {record.who}",
        record.host,
        record.kind.replace("_", " "),
        record.effect,
        f"of {record.of}" if record.of is not None else None,
        f"[{record.what}]" if record.what else None,
        record.command,
        record.change,
        record.digest[:12] if record.digest else None,
        *ended,
        record.detail,
    ]
    return "  ".join(part for part in parts if part)


def _moment(text: str) -> datetime:
    """Return the time of ``30m``, ``2h``, ``7d`` ago, or of an ISO date; UTC where it names no zone."""
    if (ago := re.fullmatch(r"(\d{1,6})([mhd])", text)) is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"--since {text!r} is no time", do="write 30m, 2h, 7d or 2026-01-31T12:00"
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
