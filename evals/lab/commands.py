"""The commands ``leadline lab up``, ``list`` and ``down``."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evals.lab.hosts import Lab

app = typer.Typer(help="Simulated hosts reached over real SSH.", no_args_is_help=True, add_completion=False)
_Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _print(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def _fail(error: Exception, code: int) -> typer.Exit:
    _say(f"leadline: {error}")
    return typer.Exit(code)


def _row(lab: Lab) -> dict[str, Any]:
    return {**lab.to_json(), "name": lab.name, "ssh": lab.ssh_argv}


@app.command()
def up(
    name: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario's name, or the path of a YAML file.")
    ],
    idle: Annotated[float, typer.Option(help="Seconds without a connection after which it ends.")] = 1800.0,
    as_json: _Json = False,
) -> None:
    """Start a lab host and say how to reach it; it stays until `down`, or until nobody uses it."""
    from agent.config import Settings
    from agent.errors import LeadlineError
    from evals.lab import hosts

    try:
        lab = hosts.up(name.removeprefix("lab:"), Settings(), progress=_say, idle_s=idle)
    except LeadlineError as error:
        raise _fail(error, error.exit_code) from None
    if as_json:
        _print(_row(lab))
    else:
        typer.echo(f"{lab.id}\n{shlex.join(lab.ssh_argv)}")
    sys.stdout.flush()


@app.command("list")
def list_(as_json: _Json = False) -> None:
    """Show the labs, running and gone, and the scenarios there are."""
    from agent.config import Settings
    from evals.lab import hosts, scenario

    labs = hosts.list_labs(Settings())
    if as_json:
        rows = [
            {**lab.to_json(), "name": lab.name, "running": lab.alive, "ssh": lab.ssh_argv} for lab in labs
        ]
        _print({"labs": rows, "scenarios": scenario.names()})
        return
    for lab in labs:
        typer.echo(f"{lab.id}  {'running' if lab.alive else 'gone':7}  {lab.name}  port {lab.port}")
    typer.echo("scenarios, for `leadline ask lab:NAME SYMPTOM`:")
    width = max(map(len, scenario.names()))
    for name in scenario.names():
        typer.echo(f"  {name:{width}}  {scenario.load(name).description}")


@app.command()
def down(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[LAB...]", help="Ids as `list` shows them.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: _Json = False,
) -> None:
    """End labs and remove what they left in the state folder."""
    from agent.config import Settings
    from agent.errors import ExitCode, LeadlineError
    from evals.lab import hosts

    settings = Settings()
    wanted = [lab.id for lab in hosts.list_labs(settings)] if every else list(ids or [])
    if not wanted and not every:
        raise _fail(ValueError("name the id of a lab, or give --all"), ExitCode.USAGE)
    try:
        for ident in wanted:
            hosts.down(ident, settings)
            if not as_json:
                typer.echo(f"{ident} down")
    except LeadlineError as error:
        raise _fail(error, error.exit_code) from None
    if as_json:
        _print({"down": wanted})
