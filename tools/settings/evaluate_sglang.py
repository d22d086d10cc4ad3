"""Follow SGLang's argument code: parse, derive, check, in the order in which its launcher does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.values import MISSING, GuestRaise, Instance, Unknown

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
    try:
        outcome.stage = "parse"
        prepare = machine.module_attribute(module, "prepare_server_args")
        _watch_parse(run, outcome)
        held = machine.call(prepare, (list(run.argv),), {})
        if not isinstance(held, Instance):
            return outcome
        outcome.stage = "derive"
        if machine.find(held, "resolve_once") is not MISSING:
            machine.call(machine.get_attribute(held, "resolve_once"), (), {})
        outcome.values = _fields(run, held)
        outcome.stage = "check"
        if machine.find(held, "check_server_args") is not MISSING:
            machine.call(machine.get_attribute(held, "check_server_args"), (), {})
            outcome.values = _fields(run, held)
        outcome.stage = "done"
    except GuestRaise as raised:
        outcome.accepted, outcome.refused = False, raised
        if outcome.stage == "parse" and not isinstance(raised.value, SystemExit):
            outcome.stage = "derive"
    return outcome


def _watch_parse(run: Run, outcome: Outcome) -> None:
    """Keep what the parser made of the launch line."""
    machine = run.machine

    def keep(namespace: Any, explicit: frozenset[str]) -> None:
        outcome.given = dict(vars(namespace))
        outcome.explicit = explicit

    machine.store["parsed"] = keep


def _fields(run: Run, held: Instance) -> dict[str, Any]:
    machine = run.machine
    names = list(held.cls.record.fields) if held.cls.record is not None else list(held.attrs)
    if machine.find(held, "resolved_dict") is not MISSING:
        found = machine.call(machine.get_attribute(held, "resolved_dict"), (), {})
        if isinstance(found, dict):
            return {str(n): v for n, v in found.items()}
        return {n: found if isinstance(found, Unknown) else None for n in names}
    return {n: held.attrs.get(n, Unknown((n,))) for n in names}
