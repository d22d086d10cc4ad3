from __future__ import annotations

from pathlib import Path

from trial_parts import FakeService, FileHost, go, moves, open_session, results

from agent.events import ChangeMoved


async def test_an_approved_change_is_measured_and_kept(tmp_path: Path) -> None:
    host = FileHost(tmp_path / "host.json")
    session = open_session(tmp_path, FakeService(host), moves())
    await go(session)
    await session.close()
    (result,) = results(session)
    assert result["result"] == "kept" and result["status"] == "verified", result
    assert session.ended is not None and session.ended.outcome == "fixed"
    statuses = [event.change.status for event in session.events if isinstance(event, ChangeMoved)]
    assert statuses == ["proposed", "approved", "applied", "verified"]
    assert host.read()["runs"] == "graphs" and host.read()["restarts"] == 1
