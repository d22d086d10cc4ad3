"""A log on standard input: taken bounded, kept, shown to the model, cited, and checked."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.errors import UsageError
from agent.events import ConclusionChecked, Event, ToolFinished
from agent.given_log import give, lost
from agent.models.replay import Recording
from agent.models.telling import given, telling_lines
from agent.replay import replay
from agent.session import Session
from agent.surfaces import stdin_log
from agent.surfaces.stdin_log import read_log
from agent.transcript import check_order, read_events
from tests.scripted_parts import (
    STORY,
    TOOLS,
    LocalHost,
    ScriptedModel,
    again,
    begin,
    call,
    make_settings,
    run,
    turn,
)
from tests.terminal_fixtures import environment, typing
from tools.contract import Capture

LEADLINE = str(Path(sys.executable).with_name("leadline"))
LOG = b"loading\ntorch.OutOfMemoryError: CUDA out of memory. Wanted 2.00 GiB\nMain process exited\n"
SECRET = b"password = Gr8-secret-pass-of-ours\n"


def capture(data: bytes) -> Capture:
    return Capture(data, b"", len(data))


def piped(data: bytes, *, closed: bool = True) -> tuple[int, int]:
    reading, writing = os.pipe()
    os.write(writing, data)
    if closed:
        os.close(writing)
    return reading, writing


def test_all_of_a_short_log_is_taken() -> None:
    said: list[str] = []
    reading, _ = piped(LOG)
    log = read_log(said.append, reading)
    assert log is not None and log.captured.data == LOG and log.captured.complete and not said
    os.close(reading)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for() -> None:
    said: list[str] = []
    reading, writing = piped(b"", closed=False)
    assert read_log(said.append, reading, first_s=0.05) is None
    assert said == ["nothing came on standard input within 0.05 s; going on without a log"]
    os.close(reading)
    os.close(writing)


def test_a_log_that_goes_on_for_ever_is_taken_as_far_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin_log, "SILENT_S", 0.05)
    said: list[str] = []
    reading, writing = piped(LOG, closed=False)
    log = read_log(said.append, reading)
    assert log is not None and log.captured.data == LOG and "still open" in log.why_cut
    assert len(said) == 1 and f"{len(LOG)} bytes that came" in said[0]
    os.close(reading)
    os.close(writing)


def test_of_a_long_log_head_and_tail_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin_log, "HEAD", 100)
    monkeypatch.setattr(stdin_log, "TAIL", 100)
    monkeypatch.setattr(stdin_log, "_CHUNK", 10)
    data = b"".join(b"line %04d\n" % number for number in range(1000))
    reading, _ = piped(data)
    log = read_log(lambda text: None, reading)
    assert log is not None and log.captured.total == len(data) and not log.captured.complete
    assert data.startswith(log.captured.head) and data.endswith(log.captured.tail)
    assert len(log.captured.head) == len(log.captured.tail) == 100
    os.close(reading)


def moves(quote: str) -> list[Any]:
    claim = {"type": "log_event", "says": "it had no memory", "cite": {"artifact": "t2.1", "quote": quote}}
    said = {"outcome": "needs_person", "summary": "It ran out of memory.", "next_step": "give it more"}
    return [turn(call("conclude", claims=[claim], **said))]


def checked(events: list[Event] | Any) -> list[str]:
    found = [event for event in events if isinstance(event, ConclusionChecked)]
    return [check.status for check in found[0].checks]


async def test_a_claim_cites_the_log_and_the_verifier_looks_it_up(tmp_path: Path) -> None:
    session = begin(tmp_path, moves("torch.OutOfMemoryError: CUDA out of memory."), thread="one")
    ref = give(session.work, capture(LOG))
    assert (ref.handle, ref.host, ref.complete) == ("t2.1", "stdin", True)
    await run(session)
    assert checked(session.events) == ["verified"]
    check_order(read_events(session.folder / "transcript.jsonl"), session.folder)
    results = [one for one in session.work.messages.list if one["role"] == "tool"][:2]
    assert "flags" in results[0]["content"]
    view = json.loads(results[1]["content"])
    assert view["host"] == "stdin" and "Wanted 2.00" in view["text"] and view["complete"] is True


async def test_what_the_log_does_not_say_is_not_verified(tmp_path: Path) -> None:
    session = begin(tmp_path, [*moves("NCCL error"), *moves("NCCL error")], thread="one")
    give(session.work, capture(LOG))
    await run(session)
    assert checked(session.events) == ["unverified"]


async def test_a_log_is_masked_bounded_and_what_is_missing_is_said(tmp_path: Path) -> None:
    from tools.redact import redact

    session = begin(tmp_path, moves("loading"), thread="one")
    session.work.redact = redact
    big = SECRET + b"x" * 70 + b"\n" + b"".join(b"line %06d\n" % number for number in range(50_000))
    ref = give(session.work, Capture(big[:300_000], big[-300_000:], len(big) + 1_000_000))
    kept = session.work.store.get(ref.sha256)
    assert b"Gr8-secret" not in kept and b"<masked:" in kept and b"bytes left out" in kept
    (view,) = [json.loads(one.view) for one in session.events if isinstance(one, ToolFinished)]
    assert len(json.dumps(view)) <= session.work.settings.tools.view_chars
    assert view["complete"] is False and "too long to keep" in view["left_out"]
    assert "read_file artifact=t2.1" in view["cut"] and view["text"].endswith("line 049999")
    await session.close()


async def test_a_killed_thread_comes_back_with_its_log_and_a_recording_repeats_it(tmp_path: Path) -> None:
    story = [*STORY[:3], *moves("Main process exited")]
    session = begin(tmp_path, story, thread="one")
    assert not lost(session.events), "it has a host to look at"
    give(session.work, capture(LOG))
    assert not lost(session.events)
    cut = [one for one in session.events if not isinstance(one, ToolFinished)]
    assert lost(cut), "killed before it was stored"
    await session.close()
    resumed = again(tmp_path, story, "one")
    await run(resumed)
    names = list(resumed.work.history.names.values())
    assert names == [f"t{number}" for number in range(1, len(names) + 1)]
    assert resumed.ended is not None and checked(resumed.events) == ["verified"]
    report = await replay(
        Recording.load(resumed.folder / "transcript.jsonl"), make_settings(tmp_path / "again"), TOOLS
    )
    assert report.same, report.differences


def test_a_thread_killed_before_its_log_was_stored_is_not_gone_on_with(tmp_path: Path) -> None:
    model, hosts = ScriptedModel(STORY), {"local": LocalHost("local")}
    settings = make_settings(tmp_path)
    session = Session.start(settings, model, hosts, "slow", thread="one", tools=TOOLS, log=True)
    asyncio.run(session.close())
    with pytest.raises(UsageError, match="one ended before its log was stored; ask again, with the log"):
        again(tmp_path, STORY, "one")
    for command in ("ask", "chat"):
        done = subprocess.run(
            [LEADLINE, command, "local", "--resume", "one"],
            env=environment(str(tmp_path)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 2 and b"ended before its log was stored" in done.stderr, done.stderr


def test_the_telling_lines_of_a_log_are_quoted() -> None:
    view: Mapping[str, Any] = {"host": "stdin", "artifact": "t1.1", "text": LOG.decode()}
    assert given([{"host": "a"}, view]) is view and given([{"host": "a"}]) is None
    found = {says: quote.text for says, quote in telling_lines(view)}
    assert found == {
        "a GPU had no memory left": "torch.OutOfMemoryError: CUDA out of memory. Wanted 2.00 GiB",
        "the main process ended": "Main process exited",
    }


def ask(root: Path, *words: str, log: bytes | None = LOG) -> subprocess.CompletedProcess[bytes]:
    argv, own = [LEADLINE, "ask", *words], environment(str(root))
    if log is None:
        none = subprocess.DEVNULL
        return subprocess.run(argv, env=own, stdin=none, capture_output=True, check=False, timeout=60)
    return subprocess.run(argv, env=own, input=log, capture_output=True, check=False, timeout=60)


def test_a_log_alone_is_judged_and_what_cannot_be_known_is_said(tmp_path: Path) -> None:
    done = ask(tmp_path, "-", "why did it die", log=LOG + SECRET)
    said, told = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, told
    assert "needs_person: The log (t1.1, all of it) says: a GPU had no memory left" in said
    assert "No host was looked at." in said and "leadline ask HOST SYMPTOM" in said
    assert "only the log is judged" in told and "2 of 2 claims verified" in told
    (folder,) = (tmp_path / "threads").iterdir()
    assert b"Gr8-secret" not in b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())
    again = ask(tmp_path, "-", "--resume", folder.name, log=None)
    assert again.returncode == 0 and "needs_person" in again.stdout.decode()


@pytest.mark.parametrize(
    ("words", "log", "why"),
    [
        (["-", "why did it die"], b"", "no log comes on standard input"),
        (["-", "why did it die"], None, "no log comes on standard input"),
        (["-", "why", "--mode", "apply"], LOG, "mode apply needs a host"),
        (["-"], LOG, 'say what is wrong; for example: leadline ask - "why did it die" < FILE'),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(
    tmp_path: Path, words: list[str], log: bytes | None, why: str
) -> None:
    done = ask(tmp_path, *words, log=log)
    told = done.stderr.decode()
    assert done.returncode == 2 and why in told and told.count("\n") == 1, told


def test_streams_that_were_closed_before_the_start_are_empty_ones(tmp_path: Path) -> None:
    script = f"{LEADLINE} chat local <&-; exec >&-; {LEADLINE} sessions list <&- 2>&-"
    done = subprocess.run(
        ["sh", "-c", script], env=environment(str(tmp_path)), capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr


def test_at_a_terminal_nothing_is_waited_for(tmp_path: Path) -> None:
    with typing([LEADLINE, "ask", "-", "why did it die"], environment(str(tmp_path))) as terminal:
        terminal.expect("no log comes on standard input; for example: journalctl")
        assert terminal.ends() == 2
