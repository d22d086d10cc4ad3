"""Bind what one investigation works with: its record, the folds over it, its hosts, tools and model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agent.actions import ACTION_ARGS, DESCRIPTIONS, ActionName, AnswerArgs
from agent.audit import Audit, NoAudit, audit_of
from agent.audit_events import Recorder
from agent.budget import Budget, Limits
from agent.config import Settings
from agent.errors import ExitCode
from agent.events import Ended, Live
from agent.history import History
from agent.ledger import Ledger
from agent.messages import Messages
from agent.models import Model, ToolSchema
from agent.ports import Ports
from agent.spoken import Gate
from agent.state import Mode, Outcome
from agent.transcript import Transcript
from agent.trials import Trials
from tools.artifacts import ArtifactStore
from tools.contract import Args, Host, Redactor, Tool


@dataclass
class Investigation:
    """Give the nodes all they need; the transcript alone is kept, the rest is folded from it."""

    settings: Settings
    mode: Mode
    model: Model
    hosts: Mapping[str, Host]
    tools: Mapping[str, Tool[Any]]
    transcript: Transcript
    store: ArtifactStore
    redact: Redactor
    messages: Messages
    emit: Callable[[Live], None]
    budget: Budget = field(init=False)
    history: History = field(default_factory=History)
    ledger: Ledger = field(default_factory=Ledger)
    trials: Trials = field(default_factory=Trials)
    ports: Ports = field(default_factory=Ports.real)
    gate: Gate = field(default_factory=Gate)
    lasting: bool = True
    """False: its folder goes when it ends, so checkpoints are kept in memory alone."""
    cache: dict[str, Any] = field(default_factory=dict)
    """Shared by all tool calls of this process (see `ToolContext.cache`)."""
    exit_code: ExitCode = ExitCode.DONE

    def __post_init__(self) -> None:
        """Bring every fold to the end of the transcript."""
        self.budget = Budget(Limits.of(self.settings))
        folds = (self.history.feed, self.messages.feed, self.budget.feed, self.ledger.apply, self.trials.feed)
        for fold in folds:
            self.transcript.follow(fold)
        self.audit: Audit = audit_of(self.settings) if self.lasting else NoAudit()
        self.transcript.follow(Recorder(self).feed, replay=False)
        self.transcript.follow(self.emit, replay=False)
        self.schemas = schemas_of(self.tools, question=self.ledger.question)
        """Every tool as the model sees it."""

    @property
    def thread(self) -> str:
        """Return the id of the thread."""
        return self.transcript.path.parent.name

    def is_last(self, turn: int) -> bool:
        """Tell whether a turn is the one given beyond the limit, to conclude in."""
        return turn > self.budget.limits.turns

    def end(self, outcome: Outcome, summary: str, turn: int, code: ExitCode = ExitCode.DONE) -> None:
        """Close the investigation, once."""
        self.exit_code = code
        if self.history.ended is None:
            self.transcript.append(Ended(turn=turn, outcome=outcome, summary=summary), durable=True)

    def gathered(self) -> str:
        """Say in a sentence or two what the ledger holds, for an end without a conclusion."""
        standing = sorted(self.ledger.hypotheses.values(), key=lambda item: item.rank)
        parts = [f"{item.id} ({item.status}): {item.statement}" for item in standing]
        changes = self.ledger.changes.values()
        parts += [f"{item.id}: {item.setting} on {item.host} ({item.status})" for item in changes]
        return " ".join(parts) or "No hypothesis was stated."


def schemas_of(tools: Mapping[str, Tool[Any]], *, question: bool = False) -> list[ToolSchema]:
    """Return every tool as a model sees it: those of the hosts, then those of the investigation itself."""
    actions: dict[ActionName, type[Args]] = (
        {**ACTION_ARGS, "conclude": AnswerArgs} if question else ACTION_ARGS
    )
    return [
        *(_schema(tool.name, tool.description, tool.args) for tool in tools.values()),
        *(_schema(name, DESCRIPTIONS[name], args) for name, args in actions.items()),
    ]


def _schema(name: str, description: str, args: type[Args]) -> ToolSchema:
    parameters = json.loads(_parameters(args))
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


@cache
def _parameters(args: type[Args]) -> str:
    """Return the JSON schema of arguments: to make it takes a hundred times as long as to read it."""
    parameters = args.model_json_schema()
    parameters.pop("title", None)
    parameters.pop("description", None)
    return json.dumps(parameters)
