"""Know what a transcript already holds, so that no turn is asked for and no call is done twice."""

from __future__ import annotations

from collections.abc import Iterator

from agent.events import (
    ConclusionChecked,
    Ended,
    Event,
    Started,
    SystemNote,
    ToolFinished,
    ToolStarted,
    TurnTaken,
    UserMessage,
)
from agent.state import ToolCall
from tools.contract import ArtifactRef

CONCLUDE = "conclude"
"""The call that leads to the verifier."""


class History:
    """Fold events into what the nodes ask: turns by number, finished calls, artifacts, what was said."""

    def __init__(self) -> None:
        self.started: Started | None = None
        self.turns: dict[int, TurnTaken] = {}
        self.begun: set[str] = set()
        """Calls that were started, by tool_call_id."""
        self.finished: dict[str, ToolFinished] = {}
        self.artifacts: dict[str, ArtifactRef] = {}
        self.names: dict[str, str] = {}
        """Short name of each call (t1, t2, ...) by its tool_call_id, in the order asked for."""
        self.noted: set[int] = set()
        """Turns that the graph has already commented on."""
        self.checked: dict[int, ConclusionChecked] = {}
        """What the verifier said, by turn."""
        self.ended: Ended | None = None
        """How the investigation ended, if it has since a person last said something."""
        self.ever_ended = False
        self.gave_up: set[int] = set()
        """Turns without a call that follow another such turn."""
        self.unheard = 0
        """How many of a person's messages no turn of the model has heard yet."""
        self._idle = 0
        self.last_turn = 0
        """Number of the last model turn; 0 stands for orientation."""
        self.sent_back = 0
        """Conclusions that came back since a person last said something."""

    def feed(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Started():
                self.started = event
            case UserMessage():
                self.ended = None
                self.sent_back = 0
                self._idle = 0
                self.unheard += 1
            case SystemNote():
                self.noted.add(event.turn)
            case TurnTaken():
                self._feed_turn(event)
            case ToolStarted():
                self.begun.add(event.tool_call_id)
            case ToolFinished():
                self.finished[event.tool_call_id] = event
                self.artifacts.update({ref.handle: ref for ref in event.artifacts})
            case ConclusionChecked():
                self.checked[event.turn] = event
                self.sent_back += not event.accepted
            case Ended():
                self.ended = event
                self.ever_ended = True
            case _:
                pass

    def _feed_turn(self, turn: TurnTaken) -> None:
        self.turns[turn.turn] = turn
        self.last_turn = turn.turn
        if turn.turn:
            self.unheard = turn.unheard
        self._idle = 0 if turn.tool_calls else self._idle + 1
        if self._idle > 1:
            self.gave_up.add(turn.turn)
        for call in turn.tool_calls:
            self.names[call.id] = f"t{len(self.names) + 1}"

    def pending(self) -> Iterator[ToolCall]:
        """Yield the calls of the last turn that have no result yet."""
        last = self.turns.get(self.last_turn)
        for call in last.tool_calls if last else ():
            if call.id not in self.finished:
                yield call
