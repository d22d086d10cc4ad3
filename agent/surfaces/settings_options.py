"""The options of `leadline settings`, as the command line declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SettingsHost = Annotated[
    str | None, typer.Argument(metavar="[HOST]", help="The host; left out with --source.")
]
SettingName = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="A setting, option or variable; without it, all that differ."),
]
PidOption = Annotated[int | None, typer.Option(help="Engine process; default: the main one.")]
UnitOption = Annotated[str | None, typer.Option(help="Its unit, instead of --pid.")]
StandInOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Unpacked wheel of the same version, where the host has no source."),
]
SourceOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Unpacked package to explain a launch line by.")
]
ArgvOption = Annotated[str, typer.Option(metavar="WORDS", help="The launch line's options.")]
FactsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A fact of the host, such as gpu_arch=sm120."),
]
EnvOption = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable of the process.")]
SuspectsOption = Annotated[
    bool, typer.Option("--suspects", help="List settings that leave an optimisation unused.")
]
LintOption = Annotated[bool, typer.Option("--lint", help="Say what is wrong with the launch line.")]
AskOption = Annotated[
    bool, typer.Option("--ask", help="Try the line in the engine's own interpreter, if that is allowed.")
]
LaunchLineOption = Annotated[
    str | None,
    typer.Option(metavar="WORDS", help="With --lint or --ask: a proposed line, not the process's own."),
]
