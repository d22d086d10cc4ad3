"""The settings: which are in force, what gave them, and where they are read."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.surfaces.options import BaseUrlOption, JsonOption, ModelOption

config = typer.Typer(no_args_is_help=True, help="Settings, and where they come from.")


@config.command("show")
def config_show(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES...]", help="Only these, such as tools or hosts.gpu1."),
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    json_: JsonOption = False,
) -> None:
    """Print the settings in force, each with what gave it: default, file and line, environment or flag.

    Example: leadline config show tools policy
    """
    from agent.surfaces.config_show import show_config

    show_config(names or [], {"model": model, "base_url": base_url}, as_json=json_)


@config.command("path")
def config_path(json_: JsonOption = False) -> None:
    """Print the files that settings are read from, what counts least first."""
    from agent.surfaces.config_show import show_paths

    show_paths(as_json=json_)
