"""Follow vLLM's argument code: parse, then make the configuration, as its server does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.library.argument_parsers import REAL
from tools.interpreter.operators import equal
from tools.interpreter.values import (
    MISSING,
    BoundMethod,
    External,
    Function,
    GuestClass,
    GuestRaise,
    Instance,
    Unknown,
)
from tools.settings.vllm_stand_ins import stand_in

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine
    from tools.settings.evaluation import Outcome, Run

_LINES: Final = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
_PARSERS: Final = ("vllm.utils.argparse_utils", "vllm.utils")
_ENTRIES: Final = ("entrypoints/cli/serve.py", "entrypoints/openai/api_server.py")
_CHANGED: Final = re.compile(rb"\bargs\.(\w+)\s*=[^=]")
_ELSEWHERE: Final = "speculative_config"
"""A field of other sections that holds a section of its own."""


def follow(run: Run) -> Outcome:
    """Return ``section.field`` of the finished configuration, and the arguments by their own names."""
    from tools.settings.evaluation import Outcome

    machine = run.machine
    stand_in(run)
    outcome = Outcome(stage="parse")
    held: Any = None
    try:
        machine.tracked_classes = frozenset({"AsyncEngineArgs", *_sections(machine)})
        parsed = _parsed(run, outcome)
        if parsed is None or isinstance(parsed, Unknown):
            return Outcome(accepted=None, stage="parse")
        outcome.stage = "derive"
        module = machine.module_named("vllm.engine.arg_utils")
        arguments = machine.module_attribute(module, "AsyncEngineArgs") if module is not None else MISSING
        if not isinstance(arguments, GuestClass):
            return Outcome(accepted=None, stage="parse")
        server = _of_server(run, parsed)
        outcome.values = server
        held = machine.call(machine.get_attribute(arguments, "from_cli_args"), (parsed,), {})
        outcome.values = {**server, **_arguments(held)}
        config = _configured(machine, held)
        outcome.values = {**server, **_arguments(held), **_values(config)}
        _tell(run, held, config, outcome)
        outcome.stage = "done"
    except GuestRaise as raised:
        outcome.accepted, outcome.refused = False, raised
    return outcome


def _parsed(run: Run, outcome: Outcome) -> Any:
    machine = run.machine
    make = _first(machine, _LINES, "make_arg_parser")
    kind = _first(machine, _PARSERS, "FlexibleArgumentParser")
    if make is MISSING or kind is MISSING:
        return None
    parser = machine.call(make, (machine.call(kind, (), {"prog": "vllm serve"}),), {})
    if isinstance(parser, Instance) and isinstance(parser.attrs.get(REAL), Unknown):
        run.partial = "the parser is handed to code that is not followed: that of the platform"
        return parser.attrs[REAL]
    options = machine.get_attribute(parser, "_option_string_actions")
    actions = machine.get_attribute(parser, "_actions")
    words = _words(run.argv, options, {one.dest for one in actions})
    parsed = machine.call(machine.get_attribute(parser, "parse_args"), (words,), {})
    if isinstance(parsed, Unknown):
        return parsed
    if getattr(parsed, "model_tag", None) is not None:
        parsed.model = parsed.model_tag
    outcome.given = dict(vars(parsed))
    from_file = _beside_default(outcome.given, actions) if "--config" in words else ()
    outcome.explicit = frozenset((*_named(words, options), *from_file))
    return parsed


def _beside_default(given: Mapping[str, Any], actions: Collection[Any]) -> list[str]:
    """Return the settings that have another value than their default: the file of options names them."""
    found = []
    for action in actions:
        value = given.get(action.dest)
        if not isinstance(value, Unknown) and equal(value, action.default) is False:
            found.append(action.dest)
    return found


def _words(argv: Sequence[str], options: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return the words for the parser: a model that leads goes to its option where nothing else takes it."""
    words = list(argv)
    if words and not words[0].startswith("-") and "model_tag" not in known and "--model" in options:
        return ["--model", *words]
    return words


def _named(words: Sequence[str], options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that words name."""
    for word in words:
        option = word.partition("=")[0].partition(".")[0].rstrip("+")
        if option.startswith("--"):
            option = option.replace("_", "-")
        elif option.startswith("-O"):
            option = "--optimization-level" if "--optimization-level" in options else "-O"
        if option in options:
            yield options[option].dest
    if words and not words[0].startswith("-"):
        yield "model"


def _first(machine: Machine, modules: tuple[str, ...], name: str) -> Any:
    for module in modules:
        found = machine.module_named(module)
        value = machine.module_attribute(found, name) if found is not None else MISSING
        if value is not MISSING and not isinstance(value, External):
            return value
    return MISSING


def _sections(machine: Machine) -> tuple[str, ...]:
    module = machine.module_named("vllm.config")
    if module is None:
        return ()
    return tuple(n for n in module.globals if n.endswith("Config"))


def _configured(machine: Machine, held: Any) -> Any:
    if not isinstance(held, Instance):
        return held
    make = machine.get_attribute(held, "create_engine_config")
    usage = machine.module_named("vllm.usage.usage_lib")
    context = machine.module_attribute(usage, "UsageContext") if usage is not None else MISSING
    options = {}
    function = make.function if isinstance(make, BoundMethod) else None
    arguments = machine.read_body(function).args.args if isinstance(function, Function) else []
    named = [argument.arg for argument in arguments]
    if "usage_context" in named and isinstance(context, GuestClass) and context.members is not None:
        options = {"usage_context": context.members.get("OPENAI_API_SERVER")}
    return machine.call(make, (), options)


def _of_server(run: Run, parsed: Any) -> dict[str, Any]:
    """Return the options of the server itself, which stay as parsed unless its entry point changes them."""
    texts = [run.tree.read(path) or b"" for path in _ENTRIES]
    changed = {name.decode() for text in texts for name in _CHANGED.findall(text)}
    return {
        name: Unknown((f"what the server makes of {name}",)) if name in changed else value
        for name, value in vars(parsed).items()
    }


def _arguments(held: Any) -> dict[str, Any]:
    if not isinstance(held, Instance) or held.cls.record is None:
        return {}
    return {name: held.attrs.get(name, Unknown((name,))) for name in held.cls.record.fields}


def _values(config: Any) -> dict[str, Any]:
    """Return ``section.field`` of the configuration; what is no section stands as one value."""
    found: dict[str, Any] = {}
    if not isinstance(config, Instance) or config.cls.record is None:
        return found
    for section in config.cls.record.fields:
        value = config.attrs.get(section, Unknown((section,)))
        if not isinstance(value, Instance) or value.cls.members is not None:
            found[section] = value
            continue
        record = value.cls.record
        if record is None:
            found[section] = value
        for name in record.fields if record is not None else list(value.attrs):
            if not name.startswith("hf_") and name != _ELSEWHERE:
                found[f"{section}.{name}"] = value.attrs.get(name)
    return found


def _tell(run: Run, held: Any, config: Any, outcome: Outcome) -> None:
    """Give each ``section.field`` what was bound in its section and before in the argument of its name."""
    writes, given, explicit = dict(run.writes), dict(outcome.given), set(outcome.explicit)
    run.writes = {name: [w for w in found if w.owner is held] for name, found in writes.items()}
    for section in config.cls.record.fields if isinstance(config, Instance) and config.cls.record else ():
        value = config.attrs.get(section)
        if not isinstance(value, Instance):
            continue
        for name in value.attrs:
            key = f"{section}.{name}"
            run.writes[key] = [w for w in writes.get(name, ()) if w.owner is held or w.owner is value]
            if name in outcome.given and isinstance(held, Instance) and name in held.attrs:
                given[key] = outcome.given[name]
                if name in explicit:
                    explicit.add(key)
    outcome.given, outcome.explicit = given, frozenset(explicit)
