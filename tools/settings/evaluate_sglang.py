"""Follow SGLang's argument code: parse, derive, check, in the order in which its launcher does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.values import MISSING, GuestRaise, Instance, Stopped, Unknown

if TYPE_CHECKING:
    from tools.settings.evaluation import Outcome, Run

_MODULE: Final = "sglang.srt.server_args"
_EAGER: Final = ("sglang.srt.arg_groups",)


def follow(run: Run) -> Outcome:
    """Return the fields of ``ServerArgs`` as the scheduler gets them."""
    from tools.settings.evaluation import Outcome

    machine = run.machine
    machine.tracked_classes = frozenset({"ServerArgs"})
    machine.eager = _EAGER
    module = machine.module_named(_MODULE)
    if module is None:
        return Outcome(accepted=None, stage="parse")
    outcome = Outcome()
    held: Any = None
    parsed: dict[str, Any] = {}
    try:
        outcome.stage = "parse"
        prepare = machine.module_attribute(module, "prepare_server_args")
        machine.store["parsed"] = parsed.update
        held = machine.call(prepare, (list(run.argv),), {})
        if not isinstance(held, Instance):
            return outcome
        outcome.stage = "derive"
        if machine.find(held, "resolve_once") is not MISSING:
            machine.call(machine.get_attribute(held, "resolve_once"), (), {})
        outcome.stage = "check"
        outcome.values = _fields(run, held)
        if machine.find(held, "check_server_args") is not MISSING:
            machine.call(machine.get_attribute(held, "check_server_args"), (), {})
            outcome.values = _fields(run, held)
        outcome.stage = "done"
    except GuestRaise as raised:
        outcome.accepted, outcome.refused = False, raised
        if outcome.stage == "parse" and not isinstance(raised.value, SystemExit):
            outcome.stage = "derive"
    except Stopped as stopped:
        outcome.accepted, run.partial = None, str(stopped)
        outcome.values = untouched(run, parsed) if parsed else {}
        return outcome
    return outcome


def _fields(run: Run, held: Instance) -> dict[str, Any]:
    machine = run.machine
    names = list(held.cls.record.fields) if held.cls.record is not None else list(held.attrs)
    if machine.find(held, "resolved_dict") is not MISSING:
        found = machine.call(machine.get_attribute(held, "resolved_dict"), (), {})
        if isinstance(found, dict):
            return {str(n): v for n, v in found.items()}
        return {n: found if isinstance(found, Unknown) else None for n in names}
    return {n: held.attrs.get(n, Unknown((n,))) for n in names}


_WRITES: Final = re.compile(
    rb"""(?<![\w.])(\w+)=(?!=)|["'](\w+)["']|\.(\w+)\s*(?:[-+*/|&]|//|:)?=(?!=)""",
)
"""A keyword, a quoted name, or an attribute that is bound: the forms in which a setting may be written."""
_DECLARING: Final = ("srt/arg_groups/fields/", "srt/arg_groups/field_order.py", "srt/arg_groups/choices.py")


def untouched(run: Run, parsed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that no line of the argument code may write: they stay what the parser made."""
    written: set[str] = set()
    for path, data in run.tree.mentions(["server_args", "ServerArgs", "declare"]).items():
        if not path.startswith(_DECLARING) and path.startswith("srt/"):
            for found in _WRITES.finditer(data):
                written.update(word.decode() for word in found.groups() if word)
    return {
        name: Unknown(("the evaluation was stopped before its end",)) if name in written else value
        for name, value in parsed.items()
    }
