"""Call one tool by hand, outside any investigation, and print what a model would see."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

from pydantic import ValidationError

from agent.config import Settings, load_settings, with_rights
from agent.errors import LeadlineError, UsageError
from agent.surfaces.targets import Say, is_fresh, open_host, release, say
from tools.artifacts import ArtifactStore
from tools.contract import Args, Host, Tool, ToolContext, ToolError
from tools.wrong_fields import first_wrong, near_or_all


def context_of(host: Host, settings: Settings, progress: Say = say) -> ToolContext:
    """Return what a tool works with on one host outside any investigation."""
    from agent.own_secrets import redactor

    return ToolContext(
        call_id="t1",
        hosts={host.name: host},
        store=ArtifactStore(settings.state_dir / "by-hand" / "artifacts"),
        redact=redactor(settings),
        settings=settings.tools,
        cache_dir=settings.cache_dir,
        progress=progress,
    )


def call(host: str, name: str, arguments: str, *, allow_load: bool, send_rg: bool, as_json: bool) -> None:
    """Run the tool and print its view; a `ToolError` becomes one line and exit code 1."""
    from tools import registry

    names = [known for known, _ in registry.TOOLS + registry.FOR_QUESTIONS]
    if name not in names:
        raise UsageError(f"no tool {name}", do=near_or_all(name, names))
    tool = registry.load(name)
    try:
        args = parse_arguments(tool, arguments)
        view = asyncio.run(_call(host, tool, args, allow_load=allow_load, send_rg=send_rg))
    except ToolError as error:
        raise LeadlineError(f"{name}: {error}") from error
    sys.stdout.write(render(view, as_json=as_json))


def parse_arguments(tool: Tool[Any], text: str) -> Args:
    """Return validated arguments; raise `UsageError` that names the field."""
    try:
        raw = json.loads(text)
        arguments: Args = tool.args.model_validate(raw)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{tool.name}: arguments are not JSON: {error}", do="""write '{"key": "value"}'"""
        ) from error
    except ValidationError as error:
        found = first_wrong(error, "arguments", tool.args)
        known = ", ".join(tool.args.model_fields)
        raise UsageError(f"{tool.name}: {found.text}", do=found.do or f"fields are: {known}") from error
    return arguments


async def _call(host: str, tool: Tool[Any], args: Args, *, allow_load: bool, send_rg: bool) -> dict[str, Any]:
    from agent.transcript import OURS, mask

    settings = with_rights(load_settings(), allow_load=allow_load, allow_send_rg=send_rg)
    async with AsyncExitStack() as stack:
        connected = await stack.enter_async_context(open_host(host, settings))
        if is_fresh(host):
            stack.callback(release, connected.name, settings)
        named = (
            args.model_copy(update={"host": connected.name}) if "host" in type(args).model_fields else args
        )
        context = context_of(connected, settings)
        masked: dict[str, Any] = mask(await tool.run(context, named), context.redact, keep=OURS)
        return masked


def render(view: dict[str, Any], *, as_json: bool) -> str:
    """Return the view as JSON, or as indented text with its control characters made visible."""
    from tools.display import printable

    if as_json:
        return json.dumps(view, ensure_ascii=True) + "\n"
    text = json.dumps(view, ensure_ascii=False, indent=1)
    return printable(text.replace("\\n", "\n      ")) + "\n"


def list_tools(*, as_json: bool) -> None:
    """Print every tool with its description, or with its schema."""
    from tools import registry

    tools = registry.load_all()
    if as_json:
        rows = [
            {"name": tool.name, "description": tool.description, "parameters": tool.args.model_json_schema()}
            for tool in tools.values()
        ]
        sys.stdout.write(json.dumps(rows) + "\n")
        return
    for tool in tools.values():
        fields = ", ".join(name for name in tool.args.model_fields)
        sys.stdout.write(f"{tool.name}: {tool.description}\n    fields: {fields}\n")
