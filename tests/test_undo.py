"""Kept changes: found again by their names, taken back like any change, and judged anew from figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent import standing
from agent.errors import UsageError
from agent.events import (
    ChangeMoved,
    UndoAsked,
)
from agent.kept import Kept, find_kept
from agent.session import Session
from agent.state import Level
from agent.still_holding import _judged, _levels, _overruled, look_again
from agent.surfaces.changes_kept import open_undo, text_of
from tests.file_host import FakeService, FileHost, load_tool, observer
from tests.scripted_parts import LocalHost, make_settings
from tests.trial_parts import decision, go, moves, open_session, ports, redact, results, tools
from tools.observe import Observation
from tools.service_standing import Holding
from tools.service_types import ChangePlan


async def kept_change(root: Path, to: str = "graphs") -> tuple[Kept, FakeService]:
    """Keep a change in one process, and find it again as another one does."""
    service = FakeService(FileHost(root / "host.json"), to)
    session = open_session(root, service, moves())
    await go(session)
    await session.close()
    return find_kept(make_settings(root), "one/C1"), service


def undoing(root: Path, kept: Kept, service: FakeService) -> Session:
    more: dict[str, Any] = {"tools": tools(service), "redact": redact, "ports": ports(service)}
    return open_undo(make_settings(root), kept, LocalHost(), **more)


def back(root: Path) -> FakeService:
    """Return the service of a process that was started later."""
    return FakeService(FileHost(root / "host.json"), "old")


async def test_a_kept_change_is_found_by_either_name(tmp_path: Path) -> None:
    kept, _ = await kept_change(tmp_path)
    assert kept.ref == "one/C1" and kept.change.status == "verified"
    again = find_kept(make_settings(tmp_path), kept.plan.id)
    assert (again.thread, again.plan, again.kept_at) == (kept.thread, kept.plan, kept.kept_at)
    assert set(again.measured) == {"baseline", "after"} and again.judged is not None


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        ("one/C2", "has no change C2"),
        ("two/C1", "no thread two"),
        ("20260101t000000-abcdef", "no change with the plan"),
        ("../../etc/passwd", "is no change"),
        ("-x", "is no change"),
        ("", "is no change"),
    ],
)
async def test_what_is_no_kept_change_is_refused(tmp_path: Path, ref: str, why: str) -> None:
    await kept_change(tmp_path)
    with pytest.raises(UsageError, match=why):
        find_kept(make_settings(tmp_path), ref)


async def test_a_change_that_was_rolled_back_cannot_be_taken_back(tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"), "useless")
    session = open_session(tmp_path, service, moves(outcome="inconclusive"))
    await go(session)
    await session.close()
    with pytest.raises(UsageError, match="is rolled back, not kept"):
        find_kept(make_settings(tmp_path), "one/C1")


@pytest.mark.threat(6)
async def test_a_plan_that_was_edited_in_the_record_is_refused(tmp_path: Path) -> None:
    kept, _ = await kept_change(tmp_path)
    path = tmp_path / "threads" / "one" / "transcript.jsonl"
    path.write_text(path.read_text().replace(kept.plan.dropin_path, "/etc/systemd/system/x.service.d/1.conf"))
    with pytest.raises(UsageError, match="not the one that was approved"):
        find_kept(make_settings(tmp_path), "one/C1")


async def test_a_kept_change_is_taken_back_with_its_own_approval(tmp_path: Path) -> None:
    kept, _ = await kept_change(tmp_path)
    service = back(tmp_path)
    session = undoing(tmp_path, kept, service)
    async for _ in session.ask():
        pass
    assert session.waiting is not None and service.calls == []
    plan = session.plan("C1")
    assert plan.undoes == kept.plan.id and plan.digest() == session.waiting.digest != kept.plan.digest()
    async for _ in session.answer(decision(session)):
        pass
    await session.close()
    assert service.calls == ["apply", "confirm"]
    state = FileHost(tmp_path / "host.json").read()
    assert state["runs"] == "old" and state["restarts"] == 2
    assert results(session)[0]["result"] == "kept"
    assert session.ended is not None and "C1 of one was taken back" in session.ended.summary
    kinds = [str(event.type) for event in session.events]
    order = ["undo_asked", "plan_made", "approval_asked", "approval_given", "action_started"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert "measured" not in kinds
    with pytest.raises(UsageError, match=f"took {kept.plan.id} back"):
        find_kept(make_settings(tmp_path), f"{session.thread}/C1")


async def test_a_denied_undo_touches_nothing(tmp_path: Path) -> None:
    kept, _ = await kept_change(tmp_path)
    service = back(tmp_path)
    session = undoing(tmp_path, kept, service)
    await go(session, "denied")
    await session.close()
    assert service.calls == [] and results(session)[0]["result"] == "denied"
    assert FileHost(tmp_path / "host.json").read()["runs"] == "graphs"
    assert session.ended is not None and "was not taken back" in session.ended.summary
    # Asked for again, it is another thread with another plan.
    again = undoing(tmp_path, kept, back(tmp_path))
    await again.close()
    assert again.thread == f"{session.thread}-2"


async def test_an_undo_that_is_refused_says_why(tmp_path: Path) -> None:
    kept, _ = await kept_change(tmp_path)
    service = back(tmp_path)
    service.undo_refused = "90-leadline.conf was edited since"
    session = undoing(tmp_path, kept, service)
    await go(session)
    await session.close()
    (found,) = results(session)
    assert found["result"] == "not_applied" and "was edited since" in found["why"]
    assert session.ended is not None and service.calls == []


async def test_an_undo_that_waits_goes_on_in_another_process(tmp_path: Path) -> None:
    kept, _ = await kept_change(tmp_path)
    first = undoing(tmp_path, kept, back(tmp_path))
    async for _ in first.ask():
        pass
    await first.close()
    service = back(tmp_path)
    second = undoing(tmp_path, kept, service)
    assert second.thread == first.thread
    await go(second)
    await second.close()
    assert results(second)[0]["result"] == "kept" and service.calls == ["apply", "confirm"]
    assert sum(isinstance(event, UndoAsked) for event in second.events) == 1


async def test_an_old_state_that_does_not_come_up_leaves_the_change(tmp_path: Path) -> None:
    kept, _ = await kept_change(tmp_path)
    service = back(tmp_path)
    service.apply_ends = "rolled_back"
    session = undoing(tmp_path, kept, service)
    await go(session)
    await session.close()
    assert results(session)[0]["result"] == "rolled_back"
    assert FileHost(tmp_path / "host.json").read()["runs"] == "graphs"
    assert session.ended is not None and "stands as before" in session.ended.summary


@pytest.mark.parametrize("damage", ["no transcript", "empty", "torn first", "garbage in the middle"])
async def test_a_thread_of_an_undo_that_cannot_be_read_keeps_nobody_from_undoing(
    tmp_path: Path, damage: str
) -> None:
    kept, _ = await kept_change(tmp_path)
    first = undoing(tmp_path, kept, back(tmp_path))
    async for _ in first.ask():
        pass
    await first.close()
    path = first.folder / "transcript.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    if damage == "no transcript":
        path.unlink()
    else:
        torn = {"empty": b"", "torn first": whole[0][:20]}
        path.write_bytes(torn.get(damage, b"".join([whole[0], b"{garbage}\n", *whole[2:]])))
    second = undoing(tmp_path, kept, back(tmp_path))
    assert second.folder.name == f"{first.folder.name}-2"
    await go(second)
    await second.close()
    assert results(second)[0]["result"] == "kept"
    assert FileHost(tmp_path / "host.json").read()["runs"] == "old"


@pytest.mark.threat(14)
async def test_an_undo_whose_end_is_not_known_needs_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "UNKNOWN_S", 0.0)
    kept, _ = await kept_change(tmp_path)
    service = back(tmp_path)
    service.apply_ends = "unknown"
    service.fails = {"status"}
    session = undoing(tmp_path, kept, service)
    await go(session)
    await session.close()
    (found,) = results(session)
    assert found["result"] == "needs_person" and session.ended is not None
    assert session.ended.outcome == "needs_person"
    moved = [event.change.status for event in session.events if isinstance(event, ChangeMoved)]
    assert "verified" not in moved


def test_a_plan_of_before_keeps_its_digest() -> None:
    from tests.test_service_plan import PLAN

    assert b"undoes" not in PLAN.canonical() and b"clock_skew_s" not in PLAN.canonical()
    other = PLAN.model_copy(update={"undoes": "x"})
    assert other.digest() != PLAN.digest()
    assert ChangePlan.model_validate_json(other.model_dump_json()).digest() == other.digest()


async def looked(
    root: Path, kept: Kept, service: FakeService, holding: Holding | None = None, *, load: bool
) -> Any:
    settings = make_settings(root, tools={"allow_load": load})
    return await look_again(
        settings,
        kept,
        LocalHost(),
        holding or Holding(),
        observe=observer(service),
        tool=load_tool(service),
        redact=redact,
    )


async def test_a_change_that_holds_is_measured_as_it_was(tmp_path: Path) -> None:
    kept, service = await kept_change(tmp_path)
    found = await looked(tmp_path, kept, service, load=True)
    assert found.state == "still_holds" and found.measured and found.in_force, found
    assert [(row.concurrency, round(row.now / row.before, 2)) for row in found.levels] == [
        (1, 1.82),
        (8, 1.81),
    ]
    assert "x1.82 over before at concurrency 1 (x1.82 when kept)" in found.why
    assert found.mechanism and all(item.moved for item in found.mechanism)
    assert "before 24.4, after 44.3, now 44.3" in text_of(found)


async def test_a_gain_that_is_gone_has_lapsed(tmp_path: Path) -> None:
    kept, service = await kept_change(tmp_path)
    service.host.write({**service.host.read(), "runs": "useless"})
    found = await looked(tmp_path, kept, service, load=True)
    assert found.state == "lapsed" and found.in_force, found
    found = await looked(tmp_path, kept, service, load=False)
    assert found.state == "lapsed" and not found.measured and "mechanism is gone" in found.why


async def test_without_load_it_says_that_nothing_was_measured(tmp_path: Path) -> None:
    kept, service = await kept_change(tmp_path)
    found = await looked(tmp_path, kept, service, load=False)
    assert found.state == "still_holds" and not found.measured and "not measured: load" in found.notes[0]


async def test_what_the_host_or_the_engine_says_against_it_is_not_in_force(tmp_path: Path) -> None:
    kept, service = await kept_change(tmp_path)
    found = await looked(tmp_path, kept, service, Holding(["the file is gone"]), load=True)
    assert found.state == "not_in_force" and found.why == "the file is gone" and not found.measured
    assert _overruled(kept, Observation({"disable_cuda_graph": True}))
    assert not _overruled(kept, Observation({"disable_cuda_graph": False})) and not _overruled(
        kept, Observation()
    )


async def test_noise_is_told_as_unknown(tmp_path: Path) -> None:
    kept, _ = await kept_change(tmp_path)
    noisy = [Level(concurrency=at, throughput=[20.0, 40.0, 60.0]) for at in (1, 8)]
    assert _judged(kept, [], _levels(kept, noisy))[0] == "unknown"
    assert _judged(kept, [], _levels(kept, [Level(concurrency=1, throughput=[])]))[0] == "unknown"
