"""Explain settings: of a running engine on a host, or of a launch line by a package in a local folder."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config import load_settings
from agent.errors import LeadlineError, UsageError
from agent.surfaces.targets import is_fresh, open_host, release
from tools.contract import ToolContext, ToolError

if TYPE_CHECKING:
    from tools.settings.tool import Args


@dataclass(frozen=True, slots=True)
class SettingsOptions:
    """Hold what a person asked for."""

    host: str | None = None
    name: str | None = None
    pid: int | None = None
    unit: str | None = None
    stand_in: Path | None = None
    source: Path | None = None
    argv: str = ""
    facts: list[str] = field(default_factory=list)
    environment: list[str] = field(default_factory=list)
    suspects: bool = False
    lint: bool = False
    ask: bool = False
    launch_line: str | None = None
    as_json: bool = False


def run(options: SettingsOptions) -> None:
    """Print the settings as JSON or as text; a `ToolError` becomes one line and exit code 1."""
    _check(options)
    try:
        view = _of_source(options) if options.source is not None else asyncio.run(_of_host(options))
    except ToolError as error:
        raise LeadlineError(f"settings: {error}") from error
    sys.stdout.write(render(view, as_json=options.as_json))


def _check(options: SettingsOptions) -> None:
    if options.source is None and options.host is None:
        raise UsageError("settings: no host", do="name a host, or give --source DIR and --argv '...'")
    if options.source is None and (options.argv or options.facts or options.environment):
        raise UsageError("settings: --argv, --set and --env go with --source", do="leave them out for a host")
    if options.source is not None and (options.pid or options.unit or options.stand_in):
        raise UsageError("settings: --pid, --unit and --stand-in go with a host", do="leave --source out")
    if options.suspects and options.lint:
        raise UsageError("settings: --suspects and --lint are two questions", do="ask one at a time")
    if (options.suspects or options.lint) and (options.name if options.source is None else options.host):
        raise UsageError("settings: a setting's name goes without --suspects and --lint", do="leave it out")
    if options.ask and (options.source is not None or options.suspects or options.lint):
        raise UsageError("settings: --ask goes with a host, and is a question of its own", do="ask it alone")
    proposed = options.launch_line is not None
    if proposed and (not (options.lint or options.ask) or options.source is not None):
        raise UsageError(
            "settings: --launch-line goes with a host and --lint or --ask", do="with --source use --argv"
        )
    if options.pid and options.unit:
        raise UsageError("settings: --pid and --unit name one process twice", do="give one of them")
    if options.source is not None and not options.source.is_dir():
        raise UsageError(f"settings: --source {options.source} is no folder", do="name an unpacked package")


def _of_source(options: SettingsOptions) -> dict[str, Any]:
    from tools.settings import host_facts, view
    from tools.settings.subject import named, of_source, words_of

    environment = {}
    for word in options.environment:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"settings: --env {word}: not a variable", do="write NAME=VALUE")
        environment[name] = value
    try:
        facts = host_facts.of_words(options.facts, host_facts.read_local, host_facts.list_local)
        words = words_of(options.argv)
    except ToolError as error:
        raise UsageError(f"settings: {error}") from error
    # With a source, the one word that may follow is the setting: there is no host.
    setting = options.name or options.host
    subject = of_source(options.source or "", words, environment, facts)
    if options.suspects:
        what = view.suspects_view(subject)
    elif options.lint:
        what = view.lint_view(subject)
    else:
        what = {"settings": view.settings_view(subject, [named(subject, setting)] if setting else [])}
    return {**view.source_head(subject), **what}


async def _of_host(options: SettingsOptions) -> dict[str, Any]:
    from agent.surfaces.by_hand import context_of
    from tools.settings.answer import full_view
    from tools.settings.tool import Args

    settings = load_settings()
    target = options.host or ""
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(open_host(target, settings))
        if is_fresh(target):
            stack.callback(release, host.name, settings)
        context = context_of(host, settings)
        names = [options.name] if options.name else []
        what = "suspects" if options.suspects else "lint" if options.lint else "one" if names else "diff"
        args = Args.model_validate(
            {
                "names": names,
                "what": what,
                "pid": options.pid,
                "unit": options.unit,
                "launch_line": options.launch_line,
            }
        )
        if options.ask:
            return await _asked(context, args, options)
        return await full_view(context, args, options.stand_in)


async def _asked(context: ToolContext, args: Args, options: SettingsOptions) -> dict[str, Any]:
    """Return the setting as it is explained, if one is named, and what the engine itself says."""
    from tools.facts import redacted
    from tools.settings.answer import full_view, subject_of
    from tools.settings.asking import asked_view
    from tools.settings.subject import named
    from tools.settings.view import host_head

    host = context.host(args.host)
    subject = await subject_of(context, host, args, options.stand_in)
    names = [named(subject, name) for name in args.names]
    asked = await asked_view(context, host, subject, names, options.launch_line)
    shown = await full_view(context, args, options.stand_in) if names else host_head(subject)
    return {**shown, "asked": redacted(asked, context.redact)}


def render(view: dict[str, Any], *, as_json: bool) -> str:
    """Return the view as JSON on one line, or as text of 80 columns with control characters made visible."""
    from tools.display import printable
    from tools.settings.text import lines_of

    if as_json:
        return json.dumps(view, ensure_ascii=True) + "\n"
    return "".join(f"{printable(line)}\n" for line in lines_of(view))
