"""`leadline approvals`: what waits for a person, and the person's decision from any terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.surfaces.options import JsonOption

approvals = typer.Typer(no_args_is_help=True, help="Plans that wait for a decision, and what was decided.")

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The approval, as `leadline approvals list` shows it.")
]
DigestOption = Annotated[
    str | None,
    typer.Option(metavar="HEX", help="The plan you saw: 12 characters of its digest at least, see `show`."),
]
ReasonOption = Annotated[str, typer.Option(help="Words that go into the case file and to the model.")]


@approvals.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also what came to its end.")] = False,
    json_: JsonOption = False,
) -> None:
    """List what waits, and what is approved and not used yet.

    Example: leadline approvals list --all
    """
    from agent.surfaces.approvals_view import list_approvals

    list_approvals(everything=everything, as_json=json_)


@approvals.command()
def show(approval: IdArgument, json_: JsonOption = False) -> None:
    """Print everything that is approved: the whole diff, every field of the plan, who asked, the risk.

    Example: leadline approvals show 3f0c2a9b71de
    """
    from agent.surfaces.approvals_view import show_approval

    show_approval(approval, as_json=json_)


@approvals.command()
def grant(
    approval: IdArgument, digest: DigestOption = None, reason: ReasonOption = "", json_: JsonOption = False
) -> None:
    """Approve one plan, once: at a terminal after it was shown, elsewhere by its digest.

    Example: leadline approvals grant 3f0c2a9b71de --digest 8d4e1f0a9c27
    """
    from agent.surfaces.approvals_view import decide_approval

    decide_approval(approval, grants=True, digest=digest, reason=reason, as_json=json_)


@approvals.command()
def deny(
    approval: IdArgument, digest: DigestOption = None, reason: ReasonOption = "", json_: JsonOption = False
) -> None:
    """Deny a plan that waits, or take an approval back that was not used yet.

    Example: leadline approvals deny 3f0c2a9b71de --reason "not before the weekend"
    """
    from agent.surfaces.approvals_view import decide_approval

    decide_approval(approval, grants=False, digest=digest, reason=reason, as_json=json_)
