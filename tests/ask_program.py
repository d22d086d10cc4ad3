"""Run `leadline ask` with a scripted model on this machine: ``python ask_program.py FOLDER STORY WORDS``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agent.config import Settings
from agent.models.select import PLAYBOOK
from agent.session import Session
from agent.surfaces import ask, main
from tests.chat_program import ENDS, STORIES, SpeakingModel
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import HYPOTHESIS, TOOLS, call, plain, turn
from tests.trial_parts import ports, tools
from tools.contract import HostArgs, Tool, ToolContext
from tools.host import HostTarget, connect

CHANGING = ("apply", "late")


class SleepArgs(HostArgs):
    """Say what the command makes once it runs, and Ctrl-C can no longer catch it while it starts."""

    begun: Path


async def _sleep(ctx: ToolContext, args: SleepArgs) -> dict[str, Any]:
    """Run a command that Ctrl-C would end, were it a child of the terminal."""
    command = ["sh", "-c", ': >"$0"; sleep 3; echo slept', str(args.begun)]
    sleeping = asyncio.create_task(ctx.host(args.host).exec(command))
    while not args.begun.exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    ctx.progress("asleep")
    result = await sleeping
    return {"outcome": result.outcome, "said": result.stdout.data.decode()}


class Stage:
    """Stand in for the opening of sessions; all else is the product's."""

    def __init__(self, root: Path, story: str, *, deaf: bool) -> None:
        root.mkdir(exist_ok=True)
        sleeps = turn(call("sleep", begun=str(root / "begun")), text="I look for long.")
        own_stories = {"sleeps": (turn(HYPOTHESIS), sleeps, *ENDS)}
        self.model = SpeakingModel({**STORIES, **own_stories}[story])
        if deaf:
            self.model.name = PLAYBOOK
        sleep = Tool(name="sleep", description="Sleep.", args=SleepArgs, run=_sleep)
        own: dict[str, Tool[Any]] = {**TOOLS, "sleep": sleep}
        self.more: dict[str, Any] = {"tools": own, "redact": plain}
        if story in CHANGING:
            service = FakeService(FileHost(root / "host.json"))
            self.more = {"tools": own | tools(service), "redact": plain, "ports": ports(service)}

    async def open_hosts(self, options: ask.AskOptions, settings: Settings, *_: Any) -> Any:
        return {"local": await connect(HostTarget.parse("local"), settings)}

    def start(
        self, options: ask.AskOptions, settings: Settings, hosts: Any, symptom: str, log: bool
    ) -> Session:
        return Session.start(settings, self.model, hosts, symptom, options.mode, thread="one", **self.more)

    def resume(self, thread: str, settings: Settings, hosts: Any) -> Session:
        return Session.resume(settings, thread, self.model, hosts, **self.more)


def run(root: Path, story: str, *words: str) -> None:
    """Ask."""
    stage = Stage(root, story, deaf="deaf" in words)
    for name in ("open_hosts", "start", "resume"):
        setattr(ask, name, getattr(stage, name))
    said = ["--resume", "one"] if "again" in words else ["slow: 24 tok/s"]
    mode = "apply" if story in CHANGING else "read-only"
    model = ["--model", "scripted", "--base-url", "http://127.0.0.1:1/v1"]
    sys.argv = ["leadline", "ask", "local", *said, "--mode", mode, "--allow-load", *model]
    main.main()


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:])
