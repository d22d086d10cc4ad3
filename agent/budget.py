"""Count what an investigation uses and say when it is spent; checked in code before every turn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from agent.config import Settings
from agent.events import (
    BY_HAND,
    ApprovalGiven,
    BudgetUsed,
    Event,
    Forked,
    Resumed,
    TurnTaken,
    UserMessage,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold what an investigation may use: model turns, tokens in and out, US dollars, working seconds."""

    turns: int
    tokens: int
    cost_usd: float
    wall_s: float

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Take the limits from the settings."""
        return cls(settings.max_turns, settings.max_tokens, settings.max_cost_usd, settings.max_wall_s)

    def record(self) -> dict[str, float]:
        """Return the limits as a transcript keeps them."""
        return asdict(self)


class Budget:
    """Fold events into what is used; time between two runs, and before a person speaks, is free."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turns = 0
        self.tokens = 0
        self.cost_usd = 0.0
        self.wall_s = 0.0
        self._last: datetime | None = None

    def feed(self, event: Event) -> None:
        """Take in one event."""
        if self._last is not None and not _after_idle(event):
            self.wall_s += max(0.0, (event.at - self._last).total_seconds())
        self._last = event.at
        if isinstance(event, TurnTaken) and event.turn > 0 and event.model != BY_HAND:
            self.turns += 1
            self.tokens += event.usage.input_tokens + event.usage.output_tokens
            self.cost_usd += event.usage.cost_usd

    def rested(self) -> None:
        """Let the time since the last event be free: a person thought, and nothing was at work."""
        self._last = datetime.now(UTC)

    @property
    def turns_spent(self) -> bool:
        """Tell whether the last ordinary turn was taken; one more is given to conclude."""
        return self.turns >= self.limits.turns

    def spent(self, now: datetime | None = None) -> str | None:
        """Return what is used up beyond any further turn, as a person reads it; None while work may go on."""
        wall_s = self._wall_at(now or datetime.now(UTC))
        limits = self.limits
        if self.turns > limits.turns:
            return f"{limits.turns} turns"
        if self.tokens >= limits.tokens:
            return f"{self.tokens:,} of {limits.tokens:,} tokens"
        if self.cost_usd >= limits.cost_usd and self.cost_usd > 0:
            return f"${self.cost_usd:.2f} of ${limits.cost_usd:.2f}"
        if wall_s >= limits.wall_s:
            return f"{wall_s:.0f} of {limits.wall_s:.0f} seconds"
        return None

    def used(self, number: int, turn: TurnTaken) -> BudgetUsed:
        """Return what is used once ``turn`` is counted, as the event that is written with it."""
        usage = turn.usage
        return BudgetUsed(
            turn=number,
            turns=self.turns + 1,
            tokens=self.tokens + usage.input_tokens + usage.output_tokens,
            cost_usd=round(self.cost_usd + usage.cost_usd, 6),
            wall_s=round(self._wall_at(datetime.now(UTC)), 3),
        )

    def _wall_at(self, now: datetime) -> float:
        idle = max(0.0, (now - self._last).total_seconds()) if self._last else 0.0
        return self.wall_s + idle


def _after_idle(event: Event) -> bool:
    """Tell whether the time before an event was nobody's work."""
    by_hand = isinstance(event, TurnTaken) and event.model == BY_HAND
    return by_hand or isinstance(event, Resumed | UserMessage | ApprovalGiven | Forked)
