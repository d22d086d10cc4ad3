"""``leadline init`` and ``leadline doctor``: from nothing to a setup that works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.surfaces.options import BaseUrlOption, JsonOption, ModelOption


def init(
    base_url: BaseUrlOption = None,
    model: ModelOption = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="An alias of ~/.ssh/config, or \\[user@]address, to take; repeat for more."),
    ] = None,
    slack: Annotated[
        bool | None, typer.Option("--slack/--no-slack", help="Is the Slack bot wanted? Default: no.")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="Where transcripts and case files lie; default: the XDG folder.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: flags and defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Ask a few questions, show one settings file, and write it; nothing is written over without a yes.

    Example: leadline init --yes --base-url http://gpu1:30000/v1 --model NAME --host gpu1
    """
    from agent.surfaces.init import InitOptions, run

    run(
        InitOptions(
            base_url=base_url,
            model=model,
            hosts=host,
            slack=slack,
            state_dir=state_dir,
            yes=yes,
            force=force,
        )
    )


def doctor(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOSTS...]", help="Hosts to look at; default: all of the inventory."),
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask the model anew what it can do; else once a day.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Check settings, endpoint, model, hosts, state, Slack and clock, and say how to mend each; exit 1 then.

    Example: leadline doctor gpu1 --json
    """
    from agent.surfaces.doctor import DoctorOptions, run

    run(DoctorOptions(hosts=hosts or [], model=model, base_url=base_url, fresh=fresh, as_json=json_))


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("init")(init)
    app.command("doctor")(doctor)
