"""Later questions in a Slack thread, by the real bot and the built-in model: after an answer or a finding."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.config import Settings
from agent.models.playbook import PlaybookModel
from agent.session import Session
from agent.slack.desk import symptom
from agent.slack.run import serving
from agent.slack.store import Kept
from tests.fake_slack import FakeSlack
from tests.slack_bot_parts import ME, bot_settings, make_slack
from tests.test_questions import view
from tools import facts
from tools.contract import Host, HostArgs, Tool, ToolContext


async def _facts(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
    """Return facts of a host that runs an engine, with its launch line kept as an output."""
    shown = view(args.host or "here", disable_cuda_graph="true")
    argv = "\n".join(shown["engines"][0]["argv"])
    said, now = f"dist=sglang-0.5.11\n{argv}\n".encode(), datetime.now(UTC)
    kept = ctx.keep(said, host=args.host or "here", label="launch line", taken_at=now)
    return shown | {"artifacts": dict.fromkeys(shown["artifacts"], kept.handle)}


FACTS = Tool(name="facts", description=facts.TOOL.description, args=HostArgs, run=_facts)


def opened(settings: Settings, kept: Kept, hosts: Mapping[str, Host]) -> Session:
    """Open or resume a thread of the built-in model that sees these facts."""
    given: dict[str, Any] = {"tools": {"facts": FACTS}}
    if kept.thread is not None:
        return Session.resume(settings, kept.thread, PlaybookModel(), hosts, **given)
    return Session.start(settings, PlaybookModel(), hosts, symptom(kept), requester=kept.requester, **given)


@asynccontextmanager
async def asked(root: Path, text: str) -> AsyncIterator[tuple[FakeSlack, str]]:
    """Let somebody ask, and yield the workspace and the thread."""
    async with make_slack() as slack:
        settings = bot_settings(root, slack)
        quick = lambda desk: replace(desk, opener=opened, every_s=0.02, look_s=0.05)  # noqa: E731
        async with serving(settings, change=quick) as running:
            await slack.socket.connected()
            said = await (await slack.user("U0ADA").says("C0OPS", f"{ME} {text}")).acked()
            await slack.message("C0OPS", action='"evidence"', thread=said.ts)
            await slack.until(lambda: not running.talks or None)
            yield slack, said.ts


async def test_a_later_question_is_read_by_the_one_before_and_the_line_is_shown(tmp_path: Path) -> None:
    async with asked(tmp_path, "which version is on here?") as (slack, thread):
        await slack.message("C0OPS", containing="sglang 0.5.11 on here.", thread=thread)
        ben = slack.user("U0BEN")
        await ben.says("C0OPS", f"{ME} and since when?", thread=thread)
        await slack.message("C0OPS", containing="s.service on here runs since", thread=thread)
        await ben.says("C0OPS", "restart it?", thread=thread)
        await slack.message("C0OPS", containing="This asks about an action (restart on here)", thread=thread)
        await ben.says("C0OPS", "show me the line", thread=thread)
        await slack.message("C0OPS", containing="The last answer rests on", thread=thread)
        assert "take no advice" not in slack.thread_text("C0OPS", thread)


async def test_after_a_finding_the_line_is_shown_and_what_was_read_is_told(tmp_path: Path) -> None:
    async with asked(tmp_path, "decode is slow") as (slack, thread):
        ada = slack.user("U0ADA")
        await ada.says("C0OPS", "which version is it?", thread=thread)
        await slack.message("C0OPS", containing="not verified: sglang 0.5.11 on here.", thread=thread)
        await ada.says("C0OPS", "thanks a lot", thread=thread)
        await slack.message("C0OPS", containing="take no advice", thread=thread)
