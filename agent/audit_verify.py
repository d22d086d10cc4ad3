"""Check an audit: find the first record that was edited, deleted, moved, cut off, or begun anew.

The chain finds what was changed in the middle, the head what was cut off at the end, a copy what was changed
in all of these at once. Somebody who can write all of them can make up a chain that nobody can tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.audit_files import CURRENT, Tip, files_of, lost_by_restart, read_head
from agent.audit_record import FIRST, AuditRecord, Broken, read

_RESTARTED = "the machine was restarted, and none of them had waited for the disk"


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one line of the chain and where it stands."""

    path: Path
    number: int
    text: bytes

    @property
    def where(self) -> str:
        """Return the place for people."""
        return f"{self.path}:{self.number}"


@dataclass(slots=True)
class Verdict:
    """Say whether a chain is whole: how many records it has, what is wrong first, and what is odd."""

    records: int = 0
    problem: str = ""
    notes: list[str] = field(default_factory=list)


def verify(place: Path, copies: Sequence[Path] = ()) -> Verdict:
    """Check a folder of an audit with its head and its copies, or one file alone."""
    folder = place if place.is_dir() else place.parent if place.name == CURRENT else None
    lines = list(lines_of(files_of(folder) if folder is not None else [place]))
    verdict, hashes = _check_chain(lines, whole=folder is not None)
    if folder is not None and not verdict.problem:
        _check_head(folder, verdict, hashes)
    for copy in copies:
        if not verdict.problem:
            _check_copy(copy, lines, verdict)
    return verdict


def lines_of(paths: Sequence[Path]) -> Iterator[Line]:
    """Yield the lines of files; what has no end is the last."""
    for path in paths:
        texts = path.read_bytes().split(b"\n")
        for number, text in enumerate(texts[:-1] if not texts[-1] else texts, 1):
            yield Line(path, number, text)


def _check_chain(lines: Sequence[Line], *, whole: bool) -> tuple[Verdict, dict[int, str]]:
    verdict, hashes = Verdict(), dict[int, str]()
    before: AuditRecord | None = None
    for place, line in enumerate(lines):
        try:
            record = read(line.text)
        except Broken as error:
            if _is_torn(line, lines[place + 1 :]):
                verdict.notes.append(f"{line.where}: a line without its end, as a power cut leaves it")
                continue
            verdict.problem = f"{line.where}: the line {error}"
            return verdict, hashes
        if before is not None or whole:
            problem = _follows(before, record, lines[place + 1 :])
            if problem and _was_lost(before, record):
                verdict.notes.append(f"{line.where}: records {record.detail} are gone: {_RESTARTED}")
            elif problem:
                verdict.problem = f"{line.where}: {problem}"
                return verdict, hashes
        hashes[record.seq] = record.hash
        verdict.records += 1
        before = record
    return verdict, hashes


def _follows(before: AuditRecord | None, record: AuditRecord, rest: Sequence[Line]) -> str:
    """Return why a record does not follow the one before it."""
    due = before.seq + 1 if before is not None else 1
    if before is not None and record.prev == FIRST:
        return f"the chain starts again with record {record.seq} after record {before.seq}"
    if before is not None and record.installation != before.installation:
        return f"record {record.seq} is of another installation, {record.installation}"
    if record.seq < due:
        return f"record {record.seq} stands after record {due - 1}: it was moved or repeated"
    if record.seq > due:
        if any(_seq(line) == due for line in rest):
            return f"record {record.seq} stands where record {due} was due: it was moved"
        gone = f"record {due} is" if record.seq == due + 1 else f"records {due} to {record.seq - 1} are"
        return f"{gone} gone: deleted before record {record.seq}"
    if record.prev != (before.hash if before is not None else FIRST):
        return f"record {record.seq} does not follow record {due - 1}: one of the two was replaced"
    return ""


def _check_head(folder: Path, verdict: Verdict, hashes: dict[int, str]) -> None:
    head, last = read_head(folder), max(hashes, default=0)
    if head is None:
        if last:
            verdict.problem = f"{folder / 'head'} is gone or damaged: what was cut at the end cannot be told"
        return
    if head.seq > last and (lost := lost_by_restart(head, last)):
        verdict.notes.append(f"records {lost} are gone: {_RESTARTED}")
    elif head.seq > last:
        verdict.problem = _cut(folder, head, last)
    elif head.seq and hashes[head.seq] != head.hash:
        verdict.problem = f"{folder / CURRENT}: record {head.seq} is not the one that was written: replaced"
    elif head.seq < last:
        verdict.notes.append(f"the head stands at {head.seq} of {last}: a process died right after writing")


def _cut(folder: Path, head: Tip, last: int) -> str:
    gone = f"record {head.seq} is" if head.seq == last + 1 else f"records {last + 1} to {head.seq} are"
    why = (
        "" if last < head.synced else "; none of them had waited for the disk, so a power cut can do that too"
    )
    return f"{folder / CURRENT}: {gone} gone: cut at the end{why}"


def _was_lost(before: AuditRecord | None, record: AuditRecord) -> bool:
    """Tell whether a record says of just the gap before it that a restart of the machine made it."""
    last = before.seq if before is not None else 0
    return record.kind == "records_lost" and record.detail == f"{last + 1} to {record.seq - 1}"


def _check_copy(copy: Path, lines: Sequence[Line], verdict: Verdict) -> None:
    """Hold a copy against the chain: a record of the copy that the chain has otherwise, or not at all."""
    if not copy.is_file():
        verdict.notes.append(f"{copy} is not there, so it proves nothing")
        return
    ours = {seq: line.text for line in lines if (seq := _seq(line))}
    lost, last = _lost_seqs(lines), 0
    for line in lines_of([copy]):
        seq = _seq(line)
        if seq is None and ours.get(last + 1, b"").startswith(line.text):
            verdict.notes.append(f"{line.where}: a line without its end, as a full disk leaves it")
            continue
        if seq in lost and seq not in ours:
            verdict.notes.append(f"{line.where}: record {seq} is in the copy alone: {_RESTARTED}")
        elif problem := _differs(seq, last, line.text, ours):
            verdict.problem = f"{line.where}: {problem}"
            return
        last = seq or 0
    if last < max(ours, default=0):
        verdict.notes.append(f"{copy} ends with record {last} of {max(ours)}")


def _lost_seqs(lines: Sequence[Line]) -> set[int]:
    """Return the numbers that a restart of the machine left out, as the records after them say."""
    found: set[int] = set()
    before: AuditRecord | None = None
    for line in lines:
        try:
            record = read(line.text)
        except Broken:
            continue
        if _was_lost(before, record):
            found.update(range((before.seq if before else 0) + 1, record.seq))
        before = record
    return found


def _differs(seq: int | None, last: int, text: bytes, ours: Mapping[int, bytes]) -> str:
    """Return why a line of a copy, after its record ``last``, is not the chain's own."""
    if seq is None:
        return "the line of the copy is no record"
    if last and seq != last + 1:
        return f"record {seq} follows record {last} in the copy"
    if seq not in ours:
        return f"the copy has record {seq}, which is gone here"
    return "" if ours[seq] == text else f"record {seq} is another one in the copy"


def _is_torn(line: Line, rest: Sequence[Line]) -> bool:
    """Tell whether the next record says that this line was found without its end."""
    if not rest:
        return False
    try:
        after = read(rest[0].text)
    except Broken:
        return False
    told = after.kind in ("torn_line", "records_lost")
    return told and after.sha256 == hashlib.sha256(line.text).hexdigest()


def _seq(line: Line) -> int | None:
    try:
        return read(line.text).seq
    except Broken:
        return None
