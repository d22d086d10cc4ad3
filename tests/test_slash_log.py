"""The slash command that tells which commands ran: all, the last ones, those of one host, those by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.audit import Audit
from agent.audit_host import AuditedHost
from agent.audit_scope import acting
from agent.audit_settings import AuditSettings
from agent.session import Session
from agent.surfaces import slash
from agent.surfaces.hand_run import BEFORE
from agent.surfaces.slash_types import Desk
from tests.scripted_parts import STORY, TOOLS, LocalHost, ScriptedModel, make_settings, plain


@pytest.fixture
def host(tmp_path: Path) -> AuditedHost:
    """A host each of whose commands is recorded."""
    return AuditedHost(LocalHost(), Audit(tmp_path / "audit", AuditSettings(), plain))


@pytest.fixture
async def session(tmp_path: Path, host: AuditedHost) -> AsyncIterator[Session]:
    """A session that has not begun to work."""
    found = Session.start(
        make_settings(tmp_path),
        ScriptedModel(STORY),
        {"here": host},
        "slow",
        thread="one",
        tools=TOOLS,
        redact=plain,
    )
    yield found
    await found.close()


def rows(at: Desk, line: str) -> list[str]:
    return slash.answer(at, line).text.splitlines()


async def test_log_tells_what_really_ran(session: Session, tmp_path: Path) -> None:
    at = Desk(session.work.settings, session)
    kept = f"each will be kept in {tmp_path / 'audit'}"
    assert rows(at, "/log") == [f"no command ran yet; {kept}"]
    async for _ in session.ask(None):
        pass
    reply = slash.answer(at, "/log")
    found = reply.text.splitlines()
    assert reply.newest_last and len(found) == 3 and all(" UTC  here  exit 0 in 0." in row for row in found)
    assert sorted(row.split("  ")[3] for row in found) == ["echo one", "echo three", "echo two"]
    assert rows(at, "/log 2") == ["... 1 before; /log shows all", *found[1:]]
    assert rows(at, "/log 99") == rows(at, "/log here 3") == rows(at, "/log 3 here") == found
    assert rows(at, "/log elsewhere") == [f"no command ran on elsewhere yet; {kept}"]


async def test_log_tells_what_this_chat_ran_by_hand_before(
    session: Session, host: AuditedHost, tmp_path: Path
) -> None:
    with acting(BEFORE, "by hand: echo old"):
        await host.exec(["echo", "old"])
    began = datetime.now(UTC)
    with acting(BEFORE, "by hand: echo new"):
        await host.exec(["echo", "new"])
    for at in (
        Desk(session.work.settings, hosts={"here": host}, since=began),
        Desk(session.work.settings, session, since=began),
    ):
        (row,) = rows(at, "/log")
        assert row.endswith("  echo new  [by hand]")
