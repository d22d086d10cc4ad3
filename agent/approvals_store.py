"""Keep approvals for every surface and process: SQLite in the state folder, one writer at a time.

Every change of a state is one transaction that begins with the write lock, so of any number of callers one
is first and the others see what it did. The default rollback journal is used, not the write-ahead log:
switching to that can fail when many processes open a new store at once, and a store this small gains nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from hmac import compare_digest
from pathlib import Path

from pydantic import ValidationError

from agent.approvals_record import (
    NEXT,
    ApprovalForged,
    ApprovalRecord,
    ApprovalRefused,
    read_key,
    seal_of,
)
from agent.errors import LeadlineError
from agent.whole_file import put_whole

STORE = "approvals.sqlite"
_VERSION = 1
_WAIT_S = 30.0
_FORGOTTEN_AT_ONCE = 100
_TABLES = (
    "create table if not exists approvals (id text primary key, record text not null, seal text not null)",
    "create table if not exists clicks (click text primary key, approval text not null, said text not null)",
)


class ApprovalStore:
    """Read and write the approvals of one state folder; safe to make anew for every use."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / STORE

    @cached_property
    def _key(self) -> bytes:
        return read_key(self.path.parent)

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Hold the write lock for the time of the block; an error in it leaves everything as it was."""
        key = self._key  # makes the folder, where there is none yet
        with self._connected() as connection:
            connection.execute("begin immediate")
            try:
                yield Writing(connection, key)
                connection.execute("commit")
            except BaseException:
                connection.execute("rollback")
                raise

    def get(self, approval: str) -> ApprovalRecord:
        """Return an approval; raise `ApprovalRefused` without one, `ApprovalForged` when it is not ours."""
        if not self.path.exists():
            raise _unknown(approval)
        with self._connected() as connection:
            return _read(connection, self._key, approval)

    def ids(self) -> list[str]:
        """Return the id of every approval, oldest first."""
        if not self.path.exists():
            return []
        with self._connected() as connection:
            return [str(row[0]) for row in connection.execute("select id from approvals order by rowid")]

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            if not self.path.exists():
                put_whole(self.path, b"")
            with closing(sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)) as connection:
                connection.execute("pragma synchronous = extra")
                _prepare(connection, self.path)
                yield connection
        except sqlite3.OperationalError as error:
            raise LeadlineError(
                f"cannot use {self.path}: {error}", do="make room or give rights there"
            ) from error
        except sqlite3.DatabaseError as error:
            raise LeadlineError(
                f"{self.path} is damaged: {error}", do="move it away; what waits is then asked for anew"
            ) from error


class Writing:
    """Change approvals while nobody else can."""

    def __init__(self, connection: sqlite3.Connection, key: bytes) -> None:
        self._connection = connection
        self._key = key

    def get(self, approval: str) -> ApprovalRecord:
        """Return an approval as `ApprovalStore.get` does."""
        return _read(self._connection, self._key, approval)

    def add(self, record: ApprovalRecord, *, keep: timedelta) -> ApprovalRecord:
        """Store a new approval; return the one that stands, when it was asked for before.

        What expired longer ago than ``keep`` is removed: none of it lets anything run, and what was decided
        stands in the audit and in its thread.
        """
        self._forget(record.created_at - keep)
        row = (record.id, record.model_dump_json(), seal_of(self._key, record))
        self._connection.execute("insert or ignore into approvals values (?, ?, ?)", row)
        return self.get(record.id)

    def move(self, record: ApprovalRecord) -> ApprovalRecord:
        """Store an approval in its new state; refuse one that the old state does not lead to."""
        before = self.get(record.id)
        if record.state not in NEXT[before.state]:
            raise ApprovalRefused(f"approval {record.id} is {before.state}, so it cannot be {record.state}")
        row = (record.model_dump_json(), seal_of(self._key, record), record.id)
        self._connection.execute("update approvals set record = ?, seal = ? where id = ?", row)
        return record

    def _forget(self, before: datetime) -> None:
        """Remove what expired before a time, some of the oldest at once, and the clicks on what is gone."""
        oldest = self._connection.execute(
            "select id, record from approvals order by rowid limit ?", (_FORGOTTEN_AT_ONCE,)
        )
        gone = [(name,) for name, text in oldest.fetchall() if _expired_before(text, before)]
        if gone:
            self._connection.executemany("delete from approvals where id = ?", gone)
            self._connection.execute("delete from clicks where approval not in (select id from approvals)")

    def heard(self, click: str) -> str | None:
        """Return what was answered to a click, with the approval it was for; None for a new one."""
        row = self._connection.execute("select said from clicks where click = ?", (click,)).fetchone()
        return None if row is None else str(row[0])

    def hear(self, click: str, approval: str, said: str) -> None:
        """Remember what was answered to a click."""
        self._connection.execute("insert into clicks values (?, ?, ?)", (click, approval, said))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = int(connection.execute("pragma user_version").fetchone()[0])
    if version > _VERSION:
        raise LeadlineError(f"{path} was written by a newer leadline", do="use that one")
    if version == _VERSION:
        return
    connection.execute("begin immediate")
    for table in _TABLES:
        connection.execute(table)
    connection.execute(f"pragma user_version = {_VERSION}")
    connection.execute("commit")


def _read(connection: sqlite3.Connection, key: bytes, approval: str) -> ApprovalRecord:
    row = connection.execute("select record, seal from approvals where id = ?", (approval,)).fetchone()
    if row is None:
        raise _unknown(approval)
    try:
        record = ApprovalRecord.model_validate_json(row[0])
    except ValidationError:
        record = None
    if record is None or record.id != approval or not compare_digest(seal_of(key, record), str(row[1])):
        raise ApprovalForged(
            f"approval {approval} does not carry this installation's seal: its record was edited or copied",
            do="go on with the thread: it is asked for anew",
        )
    return record


def _expired_before(text: str, before: datetime) -> bool:
    """Tell whether a stored record expired before a time; one that cannot be read stays, to be seen."""
    try:
        return ApprovalRecord.model_validate_json(text).expires_at < before
    except ValidationError:
        return False


def _unknown(approval: str) -> ApprovalRefused:
    return ApprovalRefused(f"no approval {approval!r}", do="see `leadline approvals list`")
