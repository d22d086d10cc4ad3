"""Keep what outlives the bot's process: which Slack thread is which investigation, and what was delivered.

Decisions are not kept here: `agent/approvals_store.py` is the one record of them. This says in which message
an approval is shown, so that its buttons can be taken away whatever process does it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from agent.errors import LeadlineError
from agent.roles import Person
from agent.whole_file import private_folder

STORE: Final = "slack.sqlite"
_VERSION: Final = 1
_KEEP_DELIVERED_S: Final = 3 * 86_400.0
"""Slack delivers an event again for an hour at most."""

_PRUNE_EVERY: Final = 1000

State = Literal["asking", "working", "waiting", "stopped", "failed", "done"]
"""``asking``: for a host; ``waiting``: for an approval; ``stopped`` and ``failed`` can be gone on with."""

UNFINISHED: Final[tuple[State, ...]] = ("working", "waiting")

Kind = Literal["stream", "approval"]

_TABLES: Final = (
    "create table threads (team text, channel text, ts text, state text not null, question text not null,"
    " context text not null, requester text not null, hosts text not null, thread text,"
    " created real not null, primary key (team, channel, ts))",
    "create table messages (channel text, ts text, team text not null, thread_ts text not null,"
    " kind text not null, ref text not null, open integer not null, primary key (channel, ts))",
    "create table delivered (name text primary key, at real not null)",
    "create table inbox (name text primary key, said text not null)",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Name one Slack thread."""

    team: str
    channel: str
    ts: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold what is known of one Slack thread."""

    place: Place
    state: State
    question: str
    context: str
    requester: Person
    hosts: tuple[str, ...]
    thread: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    """Name a message of ours that is still to be closed: a stream, or an approval with buttons."""

    place: Place
    ts: str
    kind: Kind
    ref: str


class SlackStore:
    """Read and write the store of one state folder; one process at a time runs the bot."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / STORE
        self._count = 0
        try:
            private_folder(state_dir)
            self.path.touch(mode=0o600)
            self._connection = sqlite3.connect(self.path, isolation_level=None, timeout=10.0)
            self._prepare()
        except OSError as error:
            raise LeadlineError(
                f"cannot use {self.path}: {error.strerror}", do="give rights there"
            ) from error
        except sqlite3.DatabaseError as error:
            raise LeadlineError(
                f"cannot use {self.path}: {error}", do="make room, or move it away"
            ) from error

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def _prepare(self) -> None:
        version = int(self._connection.execute("pragma user_version").fetchone()[0])
        if version > _VERSION:
            raise LeadlineError(f"{self.path} was written by a newer leadline", do="use that one")
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = normal")
        if version < _VERSION:
            self._connection.execute("begin immediate")
            for table in _TABLES:
                self._connection.execute(table)
            self._connection.execute(f"pragma user_version = {_VERSION}")
            self._connection.execute("commit")

    def first(self, name: str) -> bool:
        """Remember a delivery by its name; return whether it is the first of that name."""
        self._count += 1
        if self._count % _PRUNE_EVERY == 1:
            self._connection.execute("delete from delivered where at < ?", (time.time() - _KEEP_DELIVERED_S,))
        done = self._connection.execute("insert or ignore into delivered values (?, ?)", (name, time.time()))
        return done.rowcount == 1

    def heard(self, name: str) -> bool:
        """Tell whether a delivery of this name came before."""
        found = self._connection.execute("select 1 from delivered where name = ?", (name,))
        return found.fetchone() is not None

    def keep(self, name: str, said: str) -> None:
        """Keep what was said until it is done with: it is acknowledged then, and nobody sends it again."""
        self._connection.execute(
            "insert or ignore into inbox select ?, ?"
            " where not exists (select 1 from delivered where name in (?, 'event:' || ?))",
            (name, said, name, name),
        )

    def done(self, name: str) -> None:
        """Forget what was said, once something came of it."""
        self._connection.execute("delete from inbox where name = ?", (name,))

    def left(self) -> list[str]:
        """Return what was said and not done with when a process ended, as if none of it had come."""
        rows = self._connection.execute("select name, said from inbox order by rowid").fetchall()
        for name, _ in rows:
            self._connection.execute("delete from delivered where name in (?, 'event:' || ?)", (name, name))
        return [said for _, said in rows]

    def add(self, kept: Kept, said: str = "") -> None:
        """Keep a Slack thread, or what was asked in one that asked for a host; ``said`` is done with it."""
        place = kept.place
        row = (
            *(place.team, place.channel, place.ts),
            *(kept.state, kept.question, kept.context, kept.requester.model_dump_json()),
            *(json.dumps(kept.hosts), kept.thread, time.time()),
        )
        self._connection.execute("begin immediate")
        self._connection.execute("insert or replace into threads values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self.done(said)
        self._connection.execute("commit")

    def get(self, place: Place) -> Kept | None:
        """Return a Slack thread; None when nothing was ever asked in it."""
        found = self._select("where team = ? and channel = ? and ts = ?", place.team, place.channel, place.ts)
        return found[0] if found else None

    def unfinished(self) -> list[Kept]:
        """Return the threads that were at work or waited for an approval, oldest first."""
        marks = ", ".join("?" for _ in UNFINISHED)
        return self._select(f"where state in ({marks}) order by created", *UNFINISHED)

    def of_thread(self, thread: str) -> Kept | None:
        """Return the Slack thread of an investigation."""
        found = self._select("where thread = ?", thread)
        return found[0] if found else None

    def move(self, place: Place, state: State) -> None:
        """Keep the state of a thread."""
        where = (state, place.team, place.channel, place.ts)
        self._connection.execute(
            "update threads set state = ? where team = ? and channel = ? and ts = ?", where
        )

    def began(self, place: Place, thread: str, hosts: tuple[str, ...]) -> None:
        """Keep which investigation a Slack thread is, and the hosts as they are called in it."""
        row = (thread, json.dumps(hosts), place.team, place.channel, place.ts)
        self._connection.execute(
            "update threads set thread = ?, hosts = ?, state = 'working'"
            " where team = ? and channel = ? and ts = ?",
            row,
        )

    def started_since(self, since: float, *, channel: str | None = None, person: Person | None = None) -> int:
        """Count the investigations that were started, in a channel or by a person."""
        rows = self._connection.execute(
            "select channel, requester from threads where created >= ? and state != 'asking'", (since,)
        ).fetchall()
        people = [Person.model_validate_json(row[1]).key for row in rows if channel in (None, row[0])]
        return sum(person is None or key == person.key for key in people)

    def show(self, place: Place, ts: str, kind: Kind, ref: str = "") -> None:
        """Keep a message that is to be closed later."""
        row = (place.channel, ts, place.team, place.ts, kind, ref)
        self._connection.execute("insert or replace into messages values (?, ?, ?, ?, ?, ?, 1)", row)

    def shut(self, channel: str, ts: str) -> None:
        """Keep that a message is closed."""
        self._connection.execute("update messages set open = 0 where channel = ? and ts = ?", (channel, ts))

    def open_messages(self, kind: Kind, *, ref: str | None = None) -> list[Shown]:
        """Return the messages of a kind that are not closed."""
        rows = self._connection.execute(
            "select team, channel, thread_ts, ts, ref from messages where open = 1 and kind = ? order by ts",
            (kind,),
        )
        found = [Shown(Place(team, channel, top), ts, kind, name) for team, channel, top, ts, name in rows]
        return [shown for shown in found if ref in (None, shown.ref)]

    def _select(self, where: str, *values: str) -> list[Kept]:
        columns = "team, channel, ts, state, question, context, requester, hosts, thread"
        rows = self._connection.execute(f"select {columns} from threads {where}", values)
        return [
            Kept(
                place=Place(*row[:3]),
                state=row[3],
                question=row[4],
                context=row[5],
                requester=Person.model_validate_json(row[6]),
                hosts=tuple(json.loads(row[7])),
                thread=row[8],
            )
            for row in rows
        ]
