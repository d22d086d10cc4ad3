"""Which fixes of a plain shell agent count: what the host has, before and after."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent.events import ChangeMoved
from agent.state import Change
from evals.baseline_state import State, Unit, settle
from tools.contract import ArtifactRef


def state(**units: Unit) -> State:
    ref = ArtifactRef(handle="x.1", sha256="0" * 64, size=1, label="", host="h", taken_at=datetime.now(UTC))
    return State(ref, {f"{name}.service": unit for name, unit in units.items()})


def fix(setting: str, wanted: str | None, unit: str = "web.service") -> Change:
    return Change(
        id="C1",
        host="h",
        unit=unit,
        setting=setting,
        from_value=None,
        to_value=wanted,
        reason="",
        hypotheses=[],
        predicted_effect="",
        mechanism="",
        rollback="",
    )


BEFORE = state(web=Unit(["serve", "--off", "--depth", "0"], {"Environment": "A=1", "LimitNOFILE": "10"}))
AFTER = state(web=Unit(["serve", "--depth=1"], {"Environment": "A=2", "LimitNOFILE": "20"}))


@pytest.mark.parametrize(
    ("change", "applied"),
    [
        (fix("--off", None), True),
        (fix("--off", "false"), True),
        (fix("--depth", "1"), True),
        (fix("depth", "1", unit="web"), True),
        (fix("A", "2"), True),
        (fix("LimitNOFILE", "20"), True),
        (fix("--depth", "2"), False),  # it was changed to something else
        (fix("--new", "1"), False),  # it is not there
        (fix("--new", None), False),  # it never was
        (fix("--depth", "1", unit="other.service"), False),
    ],
)
def test_a_fix_counts_by_what_the_host_has(change: Change, applied: bool) -> None:
    moved = [event.change for event in settle([change], BEFORE, AFTER, "h") if isinstance(event, ChangeMoved)]
    assert [one.status for one in moved if one.id == "C1"] == ["proposed", "applied"][: 1 + applied]


def test_changes_that_the_answer_does_not_name_are_recorded() -> None:
    moved = [
        event.change
        for event in settle([fix("--off", None)], BEFORE, AFTER, "h")
        if isinstance(event, ChangeMoved)
    ]
    found = {
        (one.setting, one.from_value, one.to_value)
        for one in moved
        if one.id != "C1" and one.status == "applied"
    }
    assert found == {("--depth", "0", "1"), ("A", "1", "2")}
    gone = state(
        web=Unit(["serve"], {"UnitFileState": "enabled"}), job=Unit(["job"], {"UnitFileState": "static"})
    )
    [_, down] = settle([], gone, state(), "h")
    assert isinstance(down, ChangeMoved) and down.change.setting == "ActiveState"


def test_nothing_is_applied_where_nothing_could_be_read() -> None:
    [event] = settle([fix("--off", None)], None, AFTER, "h")
    assert isinstance(event, ChangeMoved) and event.change.status == "proposed"
