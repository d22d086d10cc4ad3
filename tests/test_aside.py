"""What only computes is done in a thread: the loop of a chat, and of a bot, is held up by none of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.closing import checks_of
from tests.scripted_parts import STORY, begin, run
from tests.sshd_fixtures import FileSettings
from tests.test_journal import log, tools_dir, with_log
from tools import host
from tools.artifacts import ArtifactStore
from tools.aside import aside
from tools.contract import ToolContext, ToolSettings
from tools.facts import TOOL as FACTS
from tools.findings import Findings
from tools.grep import TOOL as GREP
from tools.journal import TOOL as JOURNAL
from tools.local import LocalHost
from tools.redact import redact

__all__ = ["tools_dir"]  # a fixture


class Watched:
    """Redact, and remember in which threads."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def __call__(self, data: bytes) -> bytes:
        self.threads.add(threading.get_ident())
        return redact(data)


def context(root: Path, watched: Watched) -> ToolContext:
    return ToolContext(
        call_id="t1",
        hosts={"here": LocalHost("here")},
        store=ArtifactStore(root / "artifacts"),
        redact=watched,
        settings=ToolSettings(),
    )


async def test_one_after_the_other_in_threads_that_are_not_the_loops(tmp_path: Path) -> None:
    ctx = context(tmp_path, Watched())
    at_work: list[int] = []
    most: list[int] = []

    def work() -> int:
        at_work.append(1)
        most.append(len(at_work))
        threading.Event().wait(0.01)
        at_work.pop()
        return threading.get_ident()

    threads = await asyncio.gather(*(aside(ctx, work) for _ in range(4)))
    assert threading.get_ident() not in threads and max(most) == 1


async def test_tools_mask_and_fold_what_they_read_beside_the_loop(tools_dir: Path, tmp_path: Path) -> None:
    with_log(tools_dir, log(24.1))
    watched = Watched()
    await JOURNAL.run(context(tmp_path, watched), JOURNAL.args.model_validate({"pattern": "Decode"}))
    await FACTS.run(context(tmp_path, watched), FACTS.args())
    assert watched.threads and threading.get_ident() not in watched.threads


async def test_what_a_search_found_is_judged_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    results = Findings.results

    def watched(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return results(*arguments)

    monkeypatch.setattr(Findings, "results", watched)
    (tmp_path / "one.py").write_text("took = 3\n")
    given = GREP.args.model_validate({"path": str(tmp_path), "pattern": "took"})
    assert (await GREP.run(context(tmp_path, Watched()), given))["matches"]
    assert threads and threading.get_ident() not in threads


async def test_claims_are_checked_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def watched(*arguments: object) -> object:
        threads.append(threading.get_ident())
        return checks_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("agent.nodes.checks_of", watched)
    session = begin(tmp_path, STORY)
    await run(session)
    assert session.ended is not None and threads and threading.get_ident() not in threads


def test_what_a_first_turn_needs_is_loaded_while_the_person_types() -> None:
    """What the first request would still load, after that, is nothing of the client nor of its transport."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import asyncio, sys\n"
            "from agent.config import Settings\n"
            "from agent.models.openai import OpenAIModel, _tls\n"
            "from agent.surfaces.talking import _load\n"
            "settings = Settings(model='m', base_url='http://127.0.0.1:9/v1', model_retries=0)\n"
            "_load(settings)\n"
            "before, made = set(sys.modules), _tls.cache_info().misses\n"
            "try: asyncio.run(OpenAIModel(settings).next_turn([], []))\n"
            "except Exception: pass\n"
            "late = [one for one in set(sys.modules) - before if one.split('.')[0] in sys.argv[1].split()]\n"
            "print(sorted(late), _tls.cache_info().misses - made)\n",
            "openai httpx2 httpcore2 anyio h11",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "[] 0\n"


async def test_the_ssh_library_is_loaded_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(host, "import_module", lambda name: threads.append(threading.get_ident()))
    with pytest.raises(host.ConnectError):
        target = host.HostTarget(name="x", address="127.0.0.1", port=1)
        await host.connect(target, FileSettings(tmp_path / "config", tmp_path / "known_hosts"))
    assert threads and threading.get_ident() not in threads
