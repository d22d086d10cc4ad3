"""`kill -9` and SIGTERM at every call of the bot to Slack: it goes on, once, and leaves nothing open."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Literal

import pytest

from agent.events import ActionStarted, ApprovalAsked
from agent.transcript import check_order, read_events
from tests import slack_child
from tests.fake_slack import FakeSlack
from tests.fake_slack_faults import Call
from tests.file_host import FileHost
from tests.slack_bot_parts import ME, approval, make_slack, said_settings

Side = Literal["before", "after"]
WRITES = ("chat.postMessage", "chat.update", "chat.startStream", "chat.appendStream", "chat.stopStream")

pytestmark = pytest.mark.slow


class Life:
    """Keep one bot running, and end it once: at the n-th call that says something, before or after it."""

    def __init__(self, slack: FakeSlack, root: Path, number: int, side: Side, how: signal.Signals) -> None:
        self.slack, self.root, self.how = slack, root, how
        self.left, self.side = number, side
        self.ended_at, self.starts = "", 0
        self.child: ForkServerProcess = self.start()
        slack.watchers.append(self.watch)

    def start(self) -> ForkServerProcess:
        self.starts += 1
        return slack_child.start(self.root, said_settings(self.root, self.slack))

    def watch(self, call: Call, when: Side) -> None:
        if when != self.side or call.method not in WRITES or self.left == 0:
            return
        self.left -= 1
        if self.left == 0 and self.child.pid is not None:
            self.ended_at = f"{call.method} {when}"
            os.kill(self.child.pid, self.how)

    def again(self) -> None:
        """Start it anew when it has ended."""
        if not self.child.is_alive():
            wanted = slack_child.DRAINED if self.how == signal.SIGTERM else -signal.SIGKILL
            assert self.child.exitcode == wanted, (self.root / "log").read_text()[-3000:]
            self.child = self.start()

    def is_back(self, text: str) -> bool:
        """Tell whether the bot went on after its end; one that had finished before it promises nothing."""
        finished = self.how == signal.SIGTERM and self.starts > 1 and "I am being restarted" not in text
        return not self.ended_at or finished or "I was restarted" in text

    def close(self) -> None:
        if self.child.pid is not None:
            os.kill(self.child.pid, signal.SIGKILL)
        self.child.join()


async def play(slack: FakeSlack, root: Path, life: Life) -> str:
    """Ask, approve, wait for the answer; a person presses again what did nothing."""
    said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
    pressed: set[str] = set()

    for _ in range(600):
        life.again()
        posts = slack.posts("C0OPS", said.ts)
        answered = any('"hypotheses"' in json.dumps(post) for post in posts)
        if answered and life.is_back(slack.thread_text("C0OPS", said.ts)):
            return said.ts
        for post in posts:
            asking = '"approve"' in json.dumps(post["blocks"])
            if asking and slack.socket.links and f"{life.child.pid}{post['ts']}" not in pressed:
                pressed.add(f"{life.child.pid}{post['ts']}")
                await slack.user("U0BEN").clicks(post, "approve")
        await asyncio.sleep(0.05)
    log = (root / "log").read_text()
    raise AssertionError(f"{life.ended_at}: no answer; {slack.thread_text('C0OPS', said.ts)}\n{log}")


def told(slack: FakeSlack, root: Path, thread: str) -> dict[str, Any]:
    """Return what Slack, the host and the record hold in the end."""
    (transcript,) = root.glob("threads/*/transcript.jsonl")
    events = read_events(transcript)
    check_order(events, transcript)
    posts = slack.posts("C0OPS", thread)
    host = FileHost(root / "host.json").read()
    return {
        "asked": sum(isinstance(event, ApprovalAsked) for event in events),
        "applied": sum(isinstance(event, ActionStarted) and event.step == "apply" for event in events),
        "host": (host["runs"], host["restarts"], len(host["plans"])),
        "buttons": sum('"approve"' in json.dumps(post["blocks"]) for post in posts),
        "open": sum(post.get("streaming_state") == "in_progress" for post in posts),
        "answers": sum('"hypotheses"' in json.dumps(post["blocks"]) for post in posts),
        "state": approval(root).state,
    }


KILLED = [(number, "after", signal.SIGKILL) for number in range(1, 12)]
KILLED += [(number, "before", signal.SIGKILL) for number in (2, 5, 8, 10)]
ASKED_TO_END = [(number, "after", signal.SIGTERM) for number in (1, 3, 5, 7, 9)]


@pytest.mark.parametrize(("number", "side", "how"), [*KILLED, *ASKED_TO_END])
async def test_an_investigation_goes_on_after_the_bot_ended(
    tmp_path: Path, number: int, side: Side, how: signal.Signals
) -> None:
    async with make_slack() as slack:
        life = Life(slack, tmp_path, number, side, how)
        try:
            thread = await play(slack, tmp_path, life)
        finally:
            life.close()
        found = told(slack, tmp_path, thread)
        shown = slack.thread_text("C0OPS", thread)
    assert found["host"] == ("graphs", 1, 1) and found["applied"] == 1, (life.ended_at, found, shown)
    assert found["state"] == "used" and found["buttons"] == 0, (life.ended_at, found, shown)
    # A stream whose beginning was never answered is known to Slack alone, which ends it by itself.
    assert found["open"] <= int(life.ended_at.startswith("chat.startStream")), (life.ended_at, found, shown)
    assert found["asked"] == 1 and found["answers"] in (1, 2), (life.ended_at, found, shown)
    if life.starts > 1 and how is signal.SIGTERM:
        promised = "I am being restarted" in shown
        assert promised == ("I was restarted" in shown), (life.ended_at, shown)
        assert promised or number == ASKED_TO_END[-1][0], (life.ended_at, shown)  # by then it may be done
