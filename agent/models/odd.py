"""Launch flags that switch something off and that no playbook names become leads of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import re2

from agent.models.views import Facts
from prompts.playbooks import Playbook

SWITCHES_OFF = re2.compile(r"^(disable|no|skip|enforce)_|_(off|disabled)$|eager")
"""Launch flags whose name says that they switch something off."""


def odd_settings(facts: Facts, covered: set[str]) -> Iterator[Playbook]:
    """Make a lead of every launch flag that switches something off and that no playbook covers."""
    for place, (name, value) in enumerate(sorted(facts.flags.items())):
        if value is True and SWITCHES_OFF.search(name) and name not in covered:
            yield _odd(name, 100 + place, str(facts.engine.get("engine")))


def _odd(name: str, rank: int, engine: str) -> Playbook:
    option = f"--{name.replace('_', '-')}"

    def prediction(number: int, favours: str, says: str, find: str, where: str, kind: str) -> dict[str, Any]:
        check = {"kind": "text", "pattern": find}
        fields = {"id": f"P{number}", "favours": favours, "says": says, "check": check, "find": find}
        return fields | {"probe": where, "kind": kind}

    return Playbook.model_validate(
        {
            "name": f"flag-{name.replace('_', '-')}"[:64],
            "description": f"The launch flag for {name} switches something off.",
            "role": "odd",
            "rank": rank,
            "applies_when": {"engines": [engine]},
            "statement": f"The launch flag {option} switches something off that the "
            "installed version has on by default.",
            "settings": [name],
            "bad_value": "true",
            "effective": [name],
            "probes": {},
            "predictions": [
                prediction(
                    1,
                    "for",
                    "the server has it set",
                    f'"{name}": ?true|^{option}$',
                    "server_info",
                    "configuration",
                ),
                prediction(
                    2, "for", "the installed source branches on it", rf"\bif .*\.{name}\b", "source", "source"
                ),
                prediction(
                    3,
                    "against",
                    "the server reports it as not set",
                    f'"{name}": ?false',
                    "server_info",
                    "configuration",
                ),
            ],
        }
    )
