"""A change that was measured and not kept is not tried again in the same state."""

from __future__ import annotations

from pathlib import Path

from tests.file_host import FakeService, FileHost
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, turn
from tests.trial_parts import fixed, go, open_session, propose, results


async def test_what_was_measured_in_vain_is_not_tried_again(tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"), "useless")
    script = [turn(HYPOTHESIS), turn(EVIDENCE), turn(propose()), turn(propose()), turn(fixed("inconclusive"))]
    session = open_session(tmp_path, service, script)
    await go(session)
    await session.close()
    first, second = results(session)
    assert first["result"] == "rolled_back" and first["verdict"] == "no_effect"
    assert "C1 was this change and was not kept: no effect" in second["error"]
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 2


async def test_what_came_to_its_end_unmeasured_may_be_tried_again(tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"), "graphs")
    service.timer_fires_at = "confirm"
    script = [turn(HYPOTHESIS), turn(EVIDENCE), turn(propose()), turn(propose()), turn(fixed("inconclusive"))]
    session = open_session(tmp_path, service, script)
    await go(session)
    await session.close()
    first, second = results(session)
    assert first["result"] == "rolled_back" and "timer fired" in first["why"]
    assert second.get("result") == "rolled_back", second


async def test_after_another_change_was_kept_the_same_is_another_question(tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"), "useless")
    other = propose("--depth", from_value=None, to_value="1", mechanism="none can be observed")
    script = [turn(HYPOTHESIS), turn(EVIDENCE), turn(propose()), turn(other), turn(propose()), turn(fixed())]
    session = open_session(tmp_path, service, script)
    async for _ in session.ask():
        pass
    from tests.trial_parts import decision

    while session.waiting is not None:
        service.to = "depth" if session.waiting.change == "C2" else "useless"
        async for _ in session.answer(decision(session)):
            pass
    await session.close()
    told = results(session)
    assert [row.get("result") for row in told[:2]] == ["rolled_back", "kept"], told
    assert "error" not in told[2], told[2]
