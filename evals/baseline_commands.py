"""The command ``leadline baseline``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.surfaces.options import (
    BaseUrlOption,
    HostArgument,
    JsonOption,
    ModeChoice,
    ModelOption,
)

if TYPE_CHECKING:
    from agent.surfaces.open_options import OpenOptions

app = typer.Typer(add_completion=False)


@app.command()
def baseline(
    host: HostArgument,
    symptom: Annotated[str, typer.Argument(help="What is wrong, in your words.")],
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    mode: Annotated[
        ModeChoice,
        typer.Option(
            help="What the agent is told it may do. Nothing but the account's rights holds it back."
        ),
    ] = ModeChoice.PROPOSE,
    max_turns: Annotated[int | None, typer.Option(help="Model turns at most.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Let a plain shell agent work on a host, for comparison: no guards, no policy, no approvals."""
    import asyncio

    from agent.surfaces.open_options import OpenOptions

    options = OpenOptions(host=host, mode=mode.value, model=model, base_url=base_url, max_turns=max_turns)
    row = asyncio.run(_run(options, symptom))
    if as_json:
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{row['outcome']}: {row['summary']}\n{row['folder']}/transcript.jsonl\n")


async def _run(options: OpenOptions, symptom: str) -> dict[str, Any]:
    from contextlib import AsyncExitStack

    from agent.errors import UsageError
    from agent.events import Ended
    from agent.models.select import PLAYBOOK, model_of
    from agent.surfaces.opening import open_hosts, settings_of
    from agent.surfaces.targets import is_fresh, is_lab, release, say
    from agent.surfaces.terminal import Terminal
    from agent.transcript import read_events
    from evals.baselines import run_baseline

    settings = settings_of(options)
    if settings.model == PLAYBOOK:
        raise UsageError(
            "the baseline needs a language model: the built-in one acts only by Leadline's own tools",
            do="name one with --model and --base-url",
        )
    model = model_of(settings)
    scenario = options.host.partition(":")[2].partition("#")[0] if is_lab(options.host) else None
    async with AsyncExitStack() as stack:
        hosts = await open_hosts(options, settings, stack, say)
        [(name, host)] = hosts.items()
        if is_fresh(options.host):
            stack.callback(release, name, settings)
        folder = await run_baseline(
            settings, model, host, symptom, options.mode, scenario, Terminal.on_stderr().show
        )
    ended = next(event for event in read_events(folder / "transcript.jsonl") if isinstance(event, Ended))
    return {
        "session_id": folder.name,
        "outcome": ended.outcome,
        "summary": ended.summary,
        "folder": str(folder),
    }
