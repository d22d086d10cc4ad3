"""Everything the change path waits for: one list, which the tests kill and cut at, and hold the code against.

A new ``await`` on the way of a change fails a test until it stands here, with the point at which a death or a
lost link is tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

TrialPoint = Literal[
    "make_plan",
    "make_undo",
    "check_line",
    "lease",
    "give_back",
    "observe",
    "measure",
    "apply",
    "extend",
    "status",
    "confirm",
    "roll_back",
    "wait",
]
"""What a trial waits for outside its process; killed before and after each (tests/killed_trial.py)."""

WirePoint = Literal[
    "begin", "status", "extend", "confirm", "withdraw", "order", "recover", "lease", "release"
]
"""Calls of the program on a host."""

AWAITED: Final[Mapping[str, Mapping[str, TrialPoint | WirePoint | Literal["read"]]]] = {
    "agent/changing.py": {
        "leased": "lease",
        "run": "apply",
        "settle_open": "status",
        "make_plan": "make_plan",
        "check_line": "check_line",
        "plan_undo": "make_undo",
        "load_process": "read",
    },
    "agent/undoing.py": {"make_undo": "make_undo"},
    "agent/leases.py": {
        "take": "lease",
        "give_back": "give_back",
        "timeout": "wait",
        "wait": "wait",
        "sleep": "wait",
    },
    "agent/unsettled.py": {"at_rest": "status"},
    "agent/experiment.py": {
        "observe": "observe",
        "run": "measure",
        "apply": "apply",
        "at_rest": "status",
        "given_up": "roll_back",
        "extend": "extend",
        "confirm": "confirm",
        "roll_back": "roll_back",
        "wait": "wait",
        "passed": "wait",
    },
    "agent/standing.py": {"status": "status", "roll_back": "roll_back", "sleep": "wait"},
    "tools/service.py": {
        "begin": "begin",
        "status": "status",
        "extend": "extend",
        "confirm": "confirm",
        "withdraw": "withdraw",
        "order": "order",
        "recover": "recover",
        "sleep": "wait",
    },
    "tools/lease.py": {"lease": "lease", "release": "release"},
    "tools/transaction.py": {"exec": "begin"},
    "tools/service_plan.py": {"read_unit": "read"},
    "tools/service_undo.py": {"read_unit": "read"},
    "tools/service_standing.py": {"read_unit": "read"},
    "tools/service_unit.py": {"exec": "read"},
}
"""By file of the change path: what is awaited there, and the point that stands for it."""
