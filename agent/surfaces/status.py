"""Say in one line where a chat stands: host, state of the work, hypotheses, what is used, mode and model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Literal

from agent.events import (
    BudgetUsed,
    HypothesisMoved,
    Live,
    ModelChosen,
    Started,
    ToolFinished,
    ToolStarted,
    TurnTaken,
)
from agent.state import HypothesisStatus
from agent.surfaces.wrapping import cells, cut
from tools.display import printable

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

State = Literal["ready", "working", "held", "needs you"]

_GAP = " · "
_LONGEST_HOST = 28
_SHORTEST_HOST = 8

_STYLES: dict[State, str] = {
    "ready": "class:status.ready",
    "working": "class:status.working",
    "held": "class:status.held",
    "needs you": "class:status.needs",
}


class Status:
    """Fold events into the line; what does not fit is said shorter, then left out, the least wanted first."""

    def __init__(
        self,
        hosts: Sequence[str],
        mode: str,
        model: str,
        *,
        is_production: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self.state: State = "ready"
        self._hosts = list(hosts)
        self._mode = mode
        self._model = model
        self._is_production = is_production
        self._used: BudgetUsed | None = None
        self._hypotheses: dict[str, HypothesisStatus] = {}
        self._running: dict[str, tuple[str, float]] = {}
        self._since = monotonic()

    def feed(self, event: Live) -> None:
        """Take in one event."""
        match event:
            case Started():
                self._hosts, self._mode = list(event.hosts), event.mode
                self._used, self._hypotheses = None, {}
            case ModelChosen(model=model):
                self.take(model)
            case BudgetUsed():
                self._used = event
            case HypothesisMoved(hypothesis=found):
                self._hypotheses[found.id] = found.status
            case ToolStarted():
                self._running[event.tool_call_id] = (f"{event.call} {event.tool}", monotonic())
            case ToolFinished():
                self._running.pop(event.tool_call_id, None)
                self._since = monotonic()
            case TurnTaken():
                self._since = monotonic()
            case _:
                pass

    def forget(self) -> None:
        """Show nothing of the session before."""
        self._used, self._hypotheses = None, {}

    def take(self, model: str) -> None:
        """Name the model that takes the next turn."""
        self._model = model.removeprefix("openai:")

    def allow(self, mode: str) -> None:
        """Name another mode, before a session has begun."""
        self._mode = mode

    def begin(self, state: State) -> None:
        """Say what the chat does from now on."""
        if state in ("ready", "needs you"):
            self._running.clear()
        if state != self.state:
            self.state, self._since = state, monotonic()

    def line(self, width: int) -> StyleAndTextTuples:
        """Return the line in pieces, at most ``width`` cells wide."""
        left = [(style, list(forms)) for style, forms in self._parts() if forms]
        while _width(left) > width:
            shorter = next((forms for _, forms in reversed(left) if len(forms) > 1), None)
            if shorter is not None:
                shorter.pop(0)
            elif len(left) > 1:
                left.pop()
            else:
                style, forms = left[0]
                return [(style, cut(forms[0], width))]
        pieces: StyleAndTextTuples = []
        for style, forms in left:
            pieces += [("class:status", _GAP)] if pieces else []
            pieces.append((style, forms[0]))
        return pieces

    def _parts(self) -> list[tuple[str, Sequence[str]]]:
        """Return each part with its forms, the longest first; the part that is wanted least stands last."""
        used = self._used
        tokens = used.tokens if used else 0
        cost = used.cost_usd if used else 0.0
        return [
            (self._host_style(), _host_forms(self._hosts)),
            (_STYLES[self.state], self._state_forms()),
            ("class:status", self._hypothesis_forms()),
            ("class:status", [f"${cost:.2f}"] if cost else []),
            ("class:status", [f"{tokens:,} tokens", f"{_short(tokens)} tok"] if tokens else []),
            ("class:status", [self._mode]),
            ("class:status", [printable(self._model), cut(printable(self._model), 16)]),
        ]

    def _host_style(self) -> str:
        production = any(self._is_production(name) for name in self._hosts)
        return "class:status.production" if production else "class:status.host"

    def _state_forms(self) -> Sequence[str]:
        seconds = int(monotonic() - self._since)
        if self.state not in ("working", "held"):
            return [self.state]
        head = "held, " if self.state == "held" else ""
        if not self._running:
            doing = "say how to go on" if self.state == "held" else "thinking"
            return [f"{head}{doing} {seconds} s", self.state]
        names = [name for name, _ in self._running.values()]
        longest = int(monotonic() - min(begun for _, begun in self._running.values()))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return [f"{head}{names[0]}{more} {longest} s", f"{head}{names[0].partition(' ')[0]} {longest} s"]

    def _hypothesis_forms(self) -> Sequence[str]:
        if not self._hypotheses:
            return []
        count = Counter(self._hypotheses.values())
        supported = count["supported"] + count["confirmed"]
        told: tuple[HypothesisStatus, ...] = ("open", "supported", "confirmed", "refuted")
        long = ", ".join(f"{count[name]} {name}" for name in told if count[name] or name != "confirmed")
        return [long, f"H {count['open']}?{supported}+{count['refuted']}-"]


def _host_forms(hosts: Sequence[str]) -> list[str]:
    names = [printable(name) for name in hosts] or ["no host"]
    whole = ", ".join(names)
    first = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return list(dict.fromkeys([cut(whole, 60), cut(first, _LONGEST_HOST), cut(first, _SHORTEST_HOST)]))


def _width(parts: Sequence[tuple[str, Sequence[str]]]) -> int:
    return sum(cells(forms[0]) for _, forms in parts) + cells(_GAP) * (len(parts) - 1)


def _short(number: int) -> str:
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
