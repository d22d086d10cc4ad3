"""The execution ledger: which plans were begun on which host, in one file for all threads and processes.

A plan is begun once. Its row is on the disk before the host is asked to begin, with the plan's digest as the
key, so that no second thread, process or resumed run can begin it again. A row without an end says that
nobody knows how it ended: the host is read before anything else is changed there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.whole_file import put_whole
from tools.contract import ToolError
from tools.service_types import ChangePlan

_WAIT_S = 10.0
_TABLE = """
create table if not exists executions (
    digest text primary key, plan text not null, host text not null, host_key text, unit text not null,
    thread text not null, pid integer not null, begun_at text not null, ended_at text, outcome text
) without rowid
"""


@dataclass(frozen=True, slots=True)
class Execution:
    """Say which plan was begun, by whom, and how it ended; no outcome: nobody knows."""

    digest: str
    plan: str
    host: str
    unit: str
    thread: str
    begun_at: str
    outcome: str | None


class BegunBefore(ToolError):
    """Report a plan that was begun already, by this thread or another."""


class Executions:
    """Read and write the ledger of one installation."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "executions.sqlite"

    def begin(self, plan: ChangePlan, thread: str) -> None:
        """Note that a plan is about to be begun; raise `BegunBefore` when it ever was."""
        with self._opened() as ledger:
            try:
                ledger.execute(
                    "insert into executions values (?, ?, ?, ?, ?, ?, ?, ?, null, null)",
                    (
                        plan.digest(),
                        plan.id,
                        plan.host,
                        plan.host_key,
                        plan.unit,
                        thread,
                        os.getpid(),
                        _now(),
                    ),
                )
            except sqlite3.IntegrityError as error:
                raise BegunBefore(self._refusal(ledger, plan)) from error

    def ended(self, digest: str, outcome: str) -> None:
        """Note how a plan ended, once."""
        with self._opened() as ledger:
            ledger.execute(
                "update executions set outcome = ?, ended_at = ? where digest = ? and outcome is null",
                (outcome, _now(), digest),
            )

    def open_on(self, host: str, host_key: str | None) -> list[Execution]:
        """Return what was begun on a host and has no known end, oldest first."""
        where = "host_key = ?" if host_key else "host_key is null and host = ?"
        return self._rows(f"where outcome is null and {where} order by begun_at", (host_key or host,))

    def all(self) -> list[Execution]:
        """Return every execution, oldest first."""
        return self._rows("order by begun_at", ())

    def _rows(self, rest: str, values: tuple[str, ...]) -> list[Execution]:
        with self._opened() as ledger:
            columns = "digest, plan, host, unit, thread, begun_at, outcome"
            found = ledger.execute(f"select {columns} from executions {rest}", values)
            return [Execution(*row) for row in found]

    def _refusal(self, ledger: sqlite3.Connection, plan: ChangePlan) -> str:
        row = ledger.execute(
            "select thread, begun_at, outcome from executions where digest = ?", (plan.digest(),)
        ).fetchone()
        ended = f"ended {row[2]}" if row[2] else "has no known end"
        return (
            f"this plan was begun before, by thread {row[0]} at {row[1]}, and {ended}; "
            "no plan is done twice, so propose the change anew"
        )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Give the ledger for one step that is written whole, and is on the disk when it is done."""
        try:
            if not self._path.exists():
                put_whole(self._path, b"")
            with closing(sqlite3.connect(self._path, timeout=_WAIT_S)) as ledger, ledger:
                ledger.execute("pragma synchronous = extra")
                ledger.execute(_TABLE)
                yield ledger
        except (OSError, sqlite3.DatabaseError) as error:
            raise ToolError(
                f"not begun: the execution ledger {self._path} cannot be used ({error}); mend it, or move it "
                "away once no change is under way"
            ) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
