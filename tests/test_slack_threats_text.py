"""Threats 2 and 3 in Slack: what is posted, uploaded, shown or kept holds no secret and no preview."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.models import ToolSchema
from agent.state import AssistantTurn, Message
from tests import slack_bot_parts
from tests.canaries import OWN, Canary, canaries, shown
from tests.fake_slack import FakeSlack
from tests.file_host import UNIT, FakeService, FileHost
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, Move, ScriptedModel, call, turn
from tests.slack_bot_parts import ME, bot, bot_settings, make_slack
from tests.trial_parts import fixed, propose
from tools.contract import HostArgs, Tool, ToolContext

Record = Callable[[str, object], None]
SPOKEN = [canary for canary in canaries() if "\0" not in canary.text]
FOREIGN = ("https://evil.example/a?q=1", "http://8.8.8.8/x", "www.evil.example", "ftp://evil.example/y")
POSTS = {"chat.postMessage", "chat.postEphemeral", "chat.update", "chat.startStream"}


class Dribbling(ScriptedModel):
    """Say things in pieces, cut anywhere, as models do."""

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> AssistantTurn:
        move = await super().next_turn(messages, tools)
        at, cut = 0, random.Random(len(messages))
        while at < len(move.text):
            size = cut.randint(1, 9)
            on_text(move.text[at : at + size])
            at += size
        return move


def saying(words: str) -> Tool[Any]:
    """Return a tool of facts whose output holds ``words``."""

    async def facts(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
        data = f"--disable-cuda-graph\n{words}\n".encode()
        ref = ctx.keep(data, host="here", label=f"cmdline {words[:60]}", taken_at=datetime.now(UTC))
        engines = [{"unit": UNIT, "port": 30000}]
        return {"host": "here", "engines": engines, "artifacts": {"cmdline:1": ref.handle}}

    return Tool(name="facts", description="Facts.", args=HostArgs, run=facts)


def script(words: str) -> list[Move]:
    """Return an investigation that says ``words`` wherever a model can say something."""
    stated = json.loads(HYPOTHESIS.arguments)
    stated["add"][0]["statement"] += f" {words}"
    for prediction in stated["add"][0]["predictions"]:
        prediction["says"] += f" {words}"
    proposed = json.loads(propose().arguments)
    parts = thirds(words)
    proposed |= dict(zip(("reason", "predicted_effect", "rollback"), parts, strict=True))
    ended = json.loads(fixed("inconclusive").arguments)
    ended |= {"summary": f"Done. {words}", "next_step": words}
    ended["claims"][0]["says"] += f" {words}"
    return [
        turn(call("hypothesis", **stated), text=f"I think so.\n{words}\nand more"),
        turn(EVIDENCE, text=words),
        turn(call("propose_change", **proposed), text=words),
        turn(call("conclude", **ended), text=words),
    ]


def thirds(words: str) -> list[str]:
    """Return a proposal's share of long words: nobody could approve more than 8,000 characters."""
    blocks = words.split("\nEND\n")
    return ["\n".join(blocks[at::3]) if len(blocks) > 3 else words for at in range(3)]


async def everything(slack: FakeSlack, root: Path, words: str) -> None:
    """Let ``words`` come in by every way, and let the bot say and show all that it can."""
    settings = bot_settings(root, slack).model_copy(update={"api_key": SecretStr(OWN)})
    ada, cleo, gus = (slack.user(user) for user in ("U0ADA", "U0CLEO", "U0GUEST"))
    async with bot(slack, root, script(words), more_tools={"facts": saying(words)}, settings=settings):
        alert = await ada.says("C0OPS", f"ALERT {words}")
        await (await gus.says("C0OPS", f"{ME} {words}", thread=alert.ts)).acked()
        said = await (await ada.says("C0OPS", f"{ME} decode is slow {words}", thread=alert.ts)).acked()
        question = await slack.message("C0OPS", action='"approve"', thread=said.thread)
        for word in ("status", "why"):
            await (await ada.says("C0OPS", word, thread=said.thread)).acked()
        await (await gus.clicks(question, "approve")).acked()
        await (await cleo.clicks(question, "deny")).acked()
        view = await slack.until(lambda: next(iter(slack.world.views.values()), None))
        why = {"why": {"reason": {"type": "plain_text_input", "value": words[:900]}}}
        await (await cleo.submits(view, why)).acked()
        answer = await slack.message("C0OPS", containing='"hypotheses"', thread=said.thread, seconds=60)
        for action in ("hypotheses", "evidence", "case"):
            await (await ada.clicks(answer, action)).acked()
        await slack.until(lambda: len(slack.world.uploads) >= 2 or None, 60)
        await (await ada.says("C0OPS", f"and now? {words}", thread=said.thread)).acked()
        await slack.until(
            lambda: len([m for m in slack.posts() if '"hypotheses"' in json.dumps(m)]) > 1 or None
        )


def leaked(planted: Sequence[Canary], sinks: Sequence[tuple[str, str]]) -> list[str]:
    """Return each canary that stands somewhere, with the place."""
    found = []
    for canary in planted:
        for where, text in sinks:
            core = shown(canary, text) or shown(canary, json.dumps(text)[1:-1])
            if core:
                found.append(f"{canary.kind}: {core} in {where}")
    return found


def kept(root: Path) -> list[tuple[str, str]]:
    """Return every file below the state folder as text."""
    return [(str(path), path.read_text("utf-8", "replace")) for path in root.rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.threat(2)
async def test_no_secret_leaves_for_slack_or_stays_on_the_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    record_property: Record,
) -> None:
    monkeypatch.setattr(slack_bot_parts, "ScriptedModel", Dribbling)
    words = "\nEND\n".join(canary.text for canary in SPOKEN)
    async with make_slack() as slack:
        await everything(slack, tmp_path, words)
        sinks = list(slack.sinks())
    assert {"chat.postMessage", "chat.startStream", "chat.postEphemeral"} <= {where for where, _ in sinks}
    assert any(where.startswith("file ") for where, _ in sinks)
    told = capsys.readouterr()
    sinks += [("log", told.err + told.out), *kept(tmp_path)]
    assert leaked(SPOKEN, sinks) == []
    tokens = [Canary("token", token, (token,)) for token in (slack.bot_token, slack.app_token)]
    assert leaked(tokens, sinks) == []
    record_property("cases", len(SPOKEN) + len(tokens))


@pytest.mark.threat(2)
async def test_a_plan_that_holds_a_secret_is_not_decided_in_slack(tmp_path: Path) -> None:
    secret = next(canary for canary in canaries() if canary.kind == "hugging face")
    async with make_slack() as slack:
        service = FakeService(FileHost(tmp_path / "host.json"))
        service.secret = secret.text
        async with bot(slack, tmp_path, service=service):
            said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
            await slack.message("C0OPS", containing='"hypotheses"', thread=said.ts)
        assert all('"approve"' not in json.dumps(post) for post in slack.posts())
        assert leaked([secret], list(slack.sinks())) == []
        assert FileHost(tmp_path / "host.json").read()["restarts"] == 0


@pytest.mark.threat(3)
async def test_nothing_is_previewed_and_no_foreign_host_can_be_followed(
    tmp_path: Path, record_property: Record
) -> None:
    words = " ".join((*FOREIGN, f"[x]({FOREIGN[0]})", f"<{FOREIGN[0]}|here>", f"![i]({FOREIGN[1]})"))
    async with make_slack() as slack:
        await everything(slack, tmp_path, words)
        posts = [one for one in slack.calls if one.method in POSTS]
        assert {one.method for one in posts} == POSTS
        for one in posts:
            flags = (one.args.get("unfurl_links"), one.args.get("unfurl_media"))
            assert flags == (False, False), (one.method, one.args)
        told = [(one.method, text) for one in slack.calls for text in strings(one.args)]
        for where, text in told:
            free = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
            for host in ("evil.example", "8.8.8.8"):
                assert host not in free, (where, text)
        for upload in slack.world.uploads.values():
            assert upload.name.endswith((".md", ".html", ".png", ".diff"))
    record_property("cases", len(posts))


@pytest.mark.threat(3)
async def test_text_of_a_host_mentions_nobody_and_links_nowhere(
    tmp_path: Path, record_property: Record
) -> None:
    signs = (
        "<!channel>",
        "<!here>",
        "<@U0BEN>",
        "<!subteam^S0ONCALL>",
        "<#C0ALERTS>",
        "<mailto:a@evil.example|b>",
    )
    async with make_slack() as slack:
        await everything(slack, tmp_path, " ".join(signs))
        told = [(one.method, text) for one in slack.calls for text in strings(one.args)]
        for where, text in told:
            others = re.sub(r"(?m)^\*Who may decide\*: .*$", "", text)  # of the settings, which call them
            assert not re.search(r"<[!@#a-z][^>]*>", others), (where, text)
    record_property("cases", len(signs))


def strings(value: Any) -> list[str]:
    """Return every text in a value."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]
