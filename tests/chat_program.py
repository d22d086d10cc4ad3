"""Run `leadline chat` with a scripted model on this machine: ``python chat_program.py FOLDER STORY [ID]``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.audit import Audit
from agent.audit_host import AuditedHost
from agent.audit_settings import AuditSettings
from agent.config import Settings
from agent.errors import ModelEndpointError
from agent.models import ToolSchema
from agent.session import Session
from agent.state import AssistantTurn, Message, Mode
from agent.surfaces import chat, opening
from agent.surfaces.open_options import OpenOptions
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import (
    EVIDENCE,
    HYPOTHESIS,
    STORY,
    TOOLS,
    LocalHost,
    Move,
    ScriptedModel,
    call,
    conclusion,
    plain,
    turn,
)
from tests.trial_parts import moves, ports, propose, tools

WORDS = "It is set in the unit, and nothing else reads it."
SLOW = turn(call("look", text="slow", wait_s=3.0), text="I look for long.")
ENDS = (turn(EVIDENCE), turn(conclusion()), turn(text=WORDS))


def fails_once() -> Move:
    """Return a turn for which the endpoint is down the first time, and which then ends the story."""
    asked: list[int] = []

    def move(messages: Sequence[Message]) -> AssistantTurn:
        asked.append(len(messages))
        if len(asked) == 1:
            raise ModelEndpointError("model scripted: no connection", do="start it")
        return ENDS[0]

    return move


STORIES: Mapping[str, Sequence[Move]] = {
    "quick": (*STORY, turn(text=WORDS)),
    "deaf": STORY,
    "slow": (turn(HYPOTHESIS), SLOW, *ENDS),
    "words": (turn(conclusion(outcome="inconclusive"), text=WORDS),),
    "apply": moves(
        propose(),
        propose(setting="--pp-async-batch-depth", from_value=None, to_value="1"),
        outcome="inconclusive",
        changes=(),
    ),
    "fails": (turn(HYPOTHESIS), SLOW, fails_once(), *ENDS),
    "late": (turn(HYPOTHESIS), SLOW, *moves(outcome="inconclusive", changes=())[1:]),
}


class SpeakingModel(ScriptedModel):
    """Say what a turn says word by word."""

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        taken = await super().next_turn(messages, tools)
        for word in taken.text.split(" "):
            on_text(word if word == taken.text.split(" ")[0] else f" {word}")
            await asyncio.sleep(0.15 if taken.text == WORDS else 0)
        return taken


class Stage:
    """Stand in for the opening of sessions; all else is the product's."""

    def __init__(self, root: Path, story: str, host: str) -> None:
        self.model = SpeakingModel(STORIES[story])
        self.begun = 0
        root.mkdir(exist_ok=True)
        self.hosts = {host: AuditedHost(LocalHost(host), Audit(root / "audit", AuditSettings(), plain))}
        service = FakeService(FileHost(root / "host.json"))
        changes = story in ("apply", "late")
        self.more: dict[str, Any] = {"tools": TOOLS, "redact": plain}
        if changes:
            self.more = {"tools": {**TOOLS, **tools(service)}, "redact": plain, "ports": ports(service)}

    async def open_hosts(self, *_: Any) -> Any:
        return self.hosts

    def start(self, options: OpenOptions, settings: Settings, hosts: Any, symptom: str) -> Session:
        self.begun += 1
        thread = ("one", "two")[self.begun - 1]
        return Session.start(settings, self.model, hosts, symptom, options.mode, thread=thread, **self.more)

    def resume(self, thread: str, settings: Settings, hosts: Any) -> Session:
        return Session.resume(settings, thread, self.model, hosts, **self.more)


def main(root: Path, story: str, host: str = "here", resume: str | None = None) -> None:
    """Talk."""
    stage = Stage(root, story, host)
    for name in ("open_hosts", "start", "resume"):
        setattr(opening, name, getattr(stage, name))
    mode: Mode = "apply" if story in ("apply", "late") else "read-only"
    chat.run(
        OpenOptions(
            host=host,
            resume=resume,
            mode=mode,
            model=None if story == "deaf" else "scripted",
            base_url=None if story == "deaf" else "http://127.0.0.1:1/v1",
            allow_load=True,
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
