"""What a slash command is: its line of help, what answers it, and what the chat does after the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from agent.events import ChangeMoved, Event, Started
from agent.state import Change, Mode

if TYPE_CHECKING:
    from agent.config import Settings
    from agent.session import Session
    from tools.contract import Host

NOTHING_YET = "nothing was investigated yet: say first what is wrong"


@dataclass(frozen=True, slots=True)
class Enter:
    """Go on in another thread."""

    thread: str


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Take a kept change back, named as THREAD/C1."""

    change: str


@dataclass(frozen=True, slots=True)
class PutOnClipboard:
    """Give a text to the clipboard of the person's terminal."""

    text: str
    what: str


@dataclass(frozen=True, slots=True)
class ModelTaken:
    """Know which model takes the next turns; ``settings`` name it for a session that has not begun."""

    model: str
    settings: Settings | None = None


@dataclass(frozen=True, slots=True)
class ModeTaken:
    """Let the session that begins with the first message have this mode."""

    mode: Mode


@dataclass(frozen=True, slots=True)
class Share:
    """Share with the model what was last run by hand."""


@dataclass(frozen=True, slots=True)
class Afresh:
    """Let the next message begin another thread, on the hosts of this one."""


Then = Enter | Afresh | TakeBack | PutOnClipboard | ModelTaken | ModeTaken | Share


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold what a command shows; a ``whole`` text is shown as it is, without breaking its lines."""

    text: str
    whole: bool = False
    then: Then | None = None
    newest_last: bool = False
    """Where it is longer than the screen, its end is what is looked at first."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Hold what commands answer from: settings, connected hosts, and the session where one has begun."""

    settings: Settings
    session: Session | None = None
    idle: bool = True
    """Nothing is under way and no decision is waited for."""
    hosts: Mapping[str, Host] = field(default_factory=dict)
    mode: Mode = "read-only"
    """What the session may do that begins with the first message."""
    since: datetime | None = None
    """When this chat began."""

    @property
    def names(self) -> list[str]:
        """Return the hosts of the session, or those that are connected for it."""
        return started(self.session).hosts if self.session is not None else list(self.hosts)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Offer a word that completes what is typed, and say what it is."""

    word: str
    help: str = ""


Complete = Callable[["Session"], Iterable[Candidate]]


def no_argument(session: Session) -> Iterable[Candidate]:
    """Offer nothing: the command takes no argument, or a free one."""
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """Tie a slash command to its line of help and to what answers it from the record of a session."""

    usage: str
    help: str
    answer: Callable[[Session, str], str | Reply]
    complete: Complete = no_argument
    needs_idle: bool = False
    """It does more than look, so it is not for the middle of work or of a decision."""
    reads: bool = False
    """It reads files, which may be long: it is answered beside the loop, and changes no session."""


@dataclass(frozen=True, slots=True)
class DeskCommand:
    """The same for a command that has an answer before anything is investigated."""

    usage: str
    help: str
    answer: Callable[[Desk, str], str | Reply]
    complete: Callable[[Desk], Iterable[Candidate]] = lambda desk: ()
    needs_idle: bool = False
    reads: bool = False


def started(session: Session) -> Started:
    """Return how the session began."""
    first = session.events[0]
    assert isinstance(first, Started)  # every transcript begins so
    return first


def changes_of(events: Sequence[Event]) -> dict[str, Change]:
    """Return every change as it stands."""
    return {event.change.id: event.change for event in events if isinstance(event, ChangeMoved)}


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows in columns; those between the first and the last are figures, right-aligned."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell if place == len(row) - 1 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
