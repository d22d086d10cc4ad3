"""A thread of the fake Slack as text and as a picture: all markup is shown, none of it runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from tests.fake_slack import FakeSlack
from tests.fake_slack_render import markdown_html, mrkdwn_html
from tests.fake_slack_world import BOT_USER, TEAM, World
from tests.picture import beyond_the_edge, need_chromium, png, screenshot

EVIL = "<script>alert(1)</script> & <https://example.com|here>"


async def a_thread(slack: FakeSlack) -> str:
    """Let every kind of block stand in one thread; return its time stamp."""
    api = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
    said = await slack.user("U0ADA").says("C0OPS", f"<@{BOT_USER}> why? {EVIL}")
    to: dict[str, Any] = {"channel": "C0OPS", "thread_ts": said.ts}
    stream = await api.chat_startStream(**to, recipient_team_id=TEAM, recipient_user_id="U0ADA")
    await api.chat_stopStream(channel="C0OPS", ts=stream["ts"], markdown_text="**Found** `--flag`\n\n- one")
    plain = {"type": "plain_text", "text": "Approval needed"}
    marked = {"type": "mrkdwn", "text": "*C1* ~gone~ _now_\n```\n-old <line>\n+new\n```\n>quoted"}
    go = {"type": "button", "action_id": "go", "style": "primary", "text": plain | {"text": "Approve"}}
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": plain},
        {"type": "section", "text": marked, "fields": [plain | {"text": "a field"}], "accessory": go},
        {"type": "divider"},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "until 12:00"}]},
        {"type": "actions", "elements": [go | {"action_id": "no", "style": "danger", "text": plain}]},
        {"type": "table", "rows": [[{"type": "raw_text", "text": "cell"}]]},
        {"type": "image", "alt_text": "a plot", "image_url": "https://files.example/p.png"},
        {"type": "markdown", "text": "# Whole\n**bold**"},
    ]
    sent = await api.chat_postMessage(**to, text="Approval needed", blocks=blocks)
    await api.reactions_add(channel="C0OPS", timestamp=sent["ts"], name="eyes")
    await api.files_upload_v2(**to, filename="case.md", content="x")
    await api.chat_postEphemeral(**to, user="U0BEN", text="only you")
    return said.ts


async def test_a_thread_reads_as_text() -> None:
    async with FakeSlack() as slack:
        shown = slack.thread_text("C0OPS", await a_thread(slack))
    for part in ("ada:\n", "**Found**", "Approval needed\n", "[Approve]", "a field", "---", "until 12:00"):
        assert part in shown
    for part in ("cell", "[image: a plot]", ":eyes:", "[file: case.md]", "(only ben sees:)\n  only you"):
        assert part in shown


async def test_a_thread_is_a_page_that_runs_nothing() -> None:
    async with FakeSlack() as slack:
        html = slack.thread_html("C0OPS", await a_thread(slack))
    assert "<script" not in html and "&lt;script&gt;" in html
    assert not re.search(r"(?:src|href)=", html)
    for part in ("<b>Found</b>", "<code>--flag</code>", "<s>gone</s>", "<i>now</i>", "<blockquote>quoted"):
        assert part in html
    assert "<pre>-old &lt;line&gt;\n+new</pre>" in html and '<span class="button primary">Approve' in html


@need_chromium
async def test_a_thread_makes_a_picture(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        html = slack.thread_html("C0OPS", await a_thread(slack))
    assert beyond_the_edge(html, 760, tmp_path) == []
    (tmp_path / "thread.html").write_text(html, encoding="utf-8")
    screenshot(tmp_path / "thread.html", tmp_path / "thread.png", (760, 900), scale=1.5)
    width, height, colours = png(tmp_path / "thread.png")
    assert (width, height) == (1140, 1350) and colours > 32


def test_markup_is_that_of_its_kind() -> None:
    world = World()
    assert mrkdwn_html("*a* &lt;b&gt;", world) == "<p><b>a</b> &lt;b&gt;</p>"
    assert markdown_html("**a** \\*b\\*", world) == "<p><b>a</b> *b*</p>"
    assert mrkdwn_html(f"<@{BOT_USER}> <https://a.example/|x>", world) == (
        "<p><span class=mention>@leadline</span> <u>x</u></p>"
    )
    assert "mention" not in mrkdwn_html(f"&lt;@{BOT_USER}&gt;", world), "what is escaped mentions nobody"
