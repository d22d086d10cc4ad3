"""Explain the settings of a running engine to a model: value in force, why, and the line that says so."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tools.contract import HostArgs, Tool, ToolContext

What = Literal["one", "diff", "suspects", "lint"]


class Args(HostArgs):
    """Arguments of `settings`."""

    names: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="Settings, options (--pp-size) or variables to explain in full; for what=one.",
    )
    what: What = Field(
        default="one",
        description="one: the settings named. diff: every setting that is no plain default, and how it came "
        "about. suspects: settings that leave an optimisation unused. lint: what is wrong with a line.",
    )
    pid: int | None = Field(default=None, description="Engine process; default: the main one.")
    unit: str | None = Field(default=None, description="Its unit, instead of pid.")
    launch_line: str | None = Field(
        default=None, description="For what=lint: a proposed launch line; default: that of the process."
    )


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Explain, keep every file that is cited, and return a bounded view."""
    from tools.settings import answer  # what it needs is much, and most investigations never ask

    return await answer.bounded_view(ctx, args)


TOOL = Tool(
    name="settings",
    description=(
        "Explain settings of the running engine from its installed source, several in one call: the value in "
        "force, how it came about (default, flag, drop-in, environment, silent or logged override), every "
        "assignment with the guard and the values that decide it, the lines that read it. Places are "
        "HANDLE:LINE with the text there, to be cited as they are. For a setting use this instead of `grep`. "
        "`what=diff` lists everything that is no plain default; `suspects` what leaves an optimisation "
        "unused; `lint` checks a launch line."
    ),
    args=Args,
    run=run,
)
