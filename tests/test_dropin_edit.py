"""A whole drop-in as a change: what it may set, why no more, and that root's helper judges the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.test_leadline_svc import ARGV, ID, MAY, SVC, UNIT, checked, plan_of, refusal
from tools import dropin_edit, service_plan
from tools.contract import ToolError
from tools.service_request import check
from tools.service_types import ChangePlan, ChangeRequest

VALUE = "Nice=-5; LimitNOFILE=1048576"
TEXT = "[Service]\nNice=-5\nLimitNOFILE=1048576\n"


def request(value: str | None, before: str | None = None) -> ChangeRequest:
    return ChangeRequest(unit=UNIT, setting="drop-in", from_value=before, to_value=value)


def dropin_plan(value: str = VALUE, **fields: Any) -> ChangePlan:
    """Return the plan of a drop-in as planning makes it."""
    about = plan_of().model_dump() | {
        "setting": "drop-in",
        "to_value": value,
        "exec_start_after": ARGV,
        "dropin_text": TEXT,
    }
    return ChangePlan.model_validate(about | fields)


def test_a_drop_in_is_written_as_it_was_asked_for() -> None:
    check(request(VALUE))
    assert dropin_edit.text_of(VALUE) == TEXT
    assert dropin_edit.text_of("CPUQuota=200%") == "[Service]\nCPUQuota=200%\n"


REFUSED = {
    "ExecStart=/bin/sh": "decides which programs run",
    "ExecStartPre=/bin/sh": "decides which programs run",
    "ExecStopPost=x": "decides which programs run",
    "Type=oneshot": "decides which programs run",
    "User=root": "changes the account",
    "Group=root": "changes the account",
    "SupplementaryGroups=docker": "changes the account",
    "PAMName=login": "changes the account",
    "NoNewPrivileges=no": "what the service may reach",
    "ProtectSystem=no": "what the service may reach",
    "PrivateTmp=no": "what the service may reach",
    "CapabilityBoundingSet=x": "what the service may reach",
    "AmbientCapabilities=CAP_SYS_ADMIN": "what the service may reach",
    "SystemCallFilter=x": "what the service may reach",
    "ReadWritePaths=x": "what the service may reach",
    "BindPaths=x": "what the service may reach",
    "RootDirectory=x": "what the service may reach",
    "DeviceAllow=x": "what the service may reach",
    "WorkingDirectory=x": "what the service may reach",
    "Environment=A=1": "name the variable itself",
    "EnvironmentFile=x": "name the variable itself",
    "StandardOutput=file:/etc/x": "where the service reads or writes",
    "Restart=no": "how the service is started or ended",
    "KillMode=none": "how the service is started or ended",
    "Nonsense=1": "is not among the directives",
    "nice=1": "is not among the directives",
    "": "is not among the directives",
    "[Install]": "is not among the directives",
    "Nice=1;User=root": "is not one plain KEY=VALUE",
    "Nice=1\nUser=root": "is not one plain KEY=VALUE",
    "Nice=1\\": "is not one plain KEY=VALUE",
    "Nice=": "is not one plain KEY=VALUE",
    "Nice= 1": "is not one plain KEY=VALUE",
    "Nice=%i": "is not one plain KEY=VALUE",
    "Nice=%%": "is not one plain KEY=VALUE",
    'Nice="1"': "is not one plain KEY=VALUE",
    "Nice=1; Nice=2": "stands twice",
    "; ".join(["Nice=1"] * 21): "at most 20",
    "Nice=" + "1" * 200: "is not one plain KEY=VALUE",
}


@pytest.mark.threat(6)
def test_what_a_drop_in_may_not_set_is_refused_with_the_reason(
    record_property: Callable[[str, object], None],
) -> None:
    for value, why in REFUSED.items():
        for both in (value, f"LimitNOFILE=1; {value}") if value.count(";") < 2 else (value,):
            with pytest.raises(ToolError, match=why):
                dropin_edit.read(both)
            with pytest.raises((SVC.Refused, ToolError)):
                checked(dropin_plan(both, dropin_text=f"[Service]\n{both}\n").canonical())
    record_property("cases", len(REFUSED))


def test_a_drop_in_is_added_whole() -> None:
    for wrong in (request(VALUE, "Nice=1"), request(None), request("")):
        with pytest.raises(ToolError, match=r"added as a whole|changes nothing"):
            check(wrong)


def test_roots_helper_knows_the_same_directives() -> None:
    assert SVC.DIRECTIVES == dropin_edit.DIRECTIVES
    assert SVC.DIRECTIVE.pattern == dropin_edit._LINE.pattern
    all_of_them = MAY | {UNIT: MAY[UNIT] | {"service": dict.fromkeys(dropin_edit.DIRECTIVES, ".*")}}
    assert SVC.allowed(json.dumps({"units": all_of_them}).encode())[UNIT]["service"]


@pytest.mark.threat(6)
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"dropin_text": TEXT + "User=root\n"}, "not what the setting and its value give"),
        ({"dropin_text": TEXT.replace("-5", "-6")}, "not what the setting and its value give"),
        ({"exec_start_after": [*ARGV, "--x"]}, "does not change the launch line"),
        ({"to_value": "Nice=fast"}, "does not allow this value of Nice"),
        ({"to_value": "TasksMax=5"}, "'TasksMax' of this unit is not in"),
        ({"to_value": "Nice=1; Nice=1"}, "not Key=Value"),
        ({"to_value": None}, "a value of the plan is not valid"),
    ],
)
def test_roots_helper_works_the_drop_in_out_again(changed: dict[str, Any], why: str) -> None:
    assert b"LimitNOFILE=1048576" in checked(dropin_plan().canonical())
    assert why in refusal(dropin_plan().model_copy(update=changed).canonical())


def test_taking_it_back_names_what_is_taken_away() -> None:
    first = "20260130t101500-0f0f0f"
    path = f"/etc/systemd/system/{UNIT}.d/90-leadline-{first}.conf"
    undo = dropin_plan().model_copy(
        update={"undoes": first, "dropin_path": path, "from_value": VALUE, "to_value": None}
    )
    assert f"undoes='{first}'" in checked(undo.canonical()).decode()
    other = undo.model_copy(update={"from_value": "Nice=-6; LimitNOFILE=1048576"})
    assert "not what the setting" in refusal(other.canonical())
    assert undo.id == ID and undo.created_at < datetime.now(UTC)


def test_it_decides_its_own_directives() -> None:
    assert service_plan.decides("drop-in", TEXT) == {"Service.Nice", "Service.LimitNOFILE"}
    assert service_plan.decides("--x", "") == {"Service.ExecStart"}
    assert service_plan.decides("X", "") == {"Service.Environment"}
