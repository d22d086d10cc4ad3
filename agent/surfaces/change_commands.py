"""Commands on a change that was kept: take it back, and measure it again."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.surfaces.options import ApproveOption, InFlightOption, JsonOption, LoadOption

ChangeArgument = Annotated[
    str,
    typer.Argument(
        metavar="CHANGE", help="The change: THREAD/C1, or its plan's id, as the case file has them."
    ),
]


def undo(
    change: ChangeArgument,
    approve: ApproveOption = False,
    allow_in_flight: InFlightOption = False,
    json_: JsonOption = False,
) -> None:
    """Take a kept change back, weeks later: shown, approved and rolled back on failure like any change.

    Example: leadline undo 20260131t142530-9f3a1c
    """
    from agent.surfaces.changes_kept import UndoOptions, run_undo

    run_undo(UndoOptions(change=change, approve=approve, allow_in_flight=allow_in_flight, as_json=json_))


def verify(change: ChangeArgument, allow_load: LoadOption = None, json_: JsonOption = False) -> None:
    """Measure a kept change again: is it in force, is its mechanism there, is the gain still what it was?

    Example: leadline verify 20260131-142530-9f3a/C1 --allow-load
    """
    from agent.surfaces.changes_kept import run_verify

    run_verify(change, allow_load=allow_load, as_json=json_)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(undo)
    app.command()(verify)
