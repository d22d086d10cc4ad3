"""The command ``leadline eval``: names, flags and help; bodies are imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.surfaces.options import BaseUrlOption, JsonOption, ModelOption

if TYPE_CHECKING:
    from evals.jobs import Asked

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_EPILOG = (
    "Your own model: leadline eval solve -m NAME --base-url http://gpu1:30000/v1 --samples 3. "
    "Nothing but that endpoint is reached; package sources are fetched once. "
    "Exit codes: 8 when nothing counts, 9 when a gate fails; see docs/cli.md."
)


class WayChoice(StrEnum):
    """How a run comes about."""

    SCORE = "score"
    REPLAY = "replay"
    SOLVE = "solve"
    CONTINUE = "continue"


@app.command(epilog=_EPILOG)
def evaluate(
    ways: Annotated[
        list[WayChoice] | None,
        typer.Argument(
            metavar="[WAY]...",
            help="score rates recordings as they are; replay drives the state machine with them again; "
            "solve works on cases from scratch on their lab host; continue works on from a turn of a "
            "recording. Default: all four.",
        ),
    ] = None,
    case: Annotated[
        str,
        typer.Option("--case", "-c", help="Only cases and recordings whose name matches, such as 'kimi*'."),
    ] = "*",
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    judge_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Let a model say how right each conclusion is: a column of its own, which decides nothing.",
        ),
    ] = None,
    judge_url: Annotated[
        str | None, typer.Option(help="Endpoint of that model. Default: --base-url. Key: LEADLINE_API_KEY.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", "-n", min=1, help="How often each case is solved; a model varies.")
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Labs side by side. Default: one a core.")
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Let a plain shell agent solve the cases, for comparison.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write one HTML page: table, timelines, why each score is what it is.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with a run: what is missing is done, and what did not count.")
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="ID ID", help="Compare two runs on the cases they share, with paired intervals."
        ),
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Fail when a score is below evals/baseline.json, and say which.")
    ] = False,
    save_baseline: Annotated[
        bool, typer.Option("--save-baseline", help="Store the scores of this run as that baseline.")
    ] = False,
    cases: Annotated[
        Path | None, typer.Option(help="Folder of your own cases, one YAML file each, instead of ours.")
    ] = None,
    transcripts: Annotated[
        Path | None, typer.Option(help="Folder of your own recordings, instead of ours.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the runs there are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Rate a model and the workflow on cases with known answers, offline and on simulated hosts."""
    from evals import evaluate as body

    body.run(
        body.Options(
            asked=_asked(
                ways,
                case,
                model,
                base_url,
                samples,
                jobs,
                baseline,
                cases,
                transcripts,
                judge=(judge_model, judge_url),
            ),
            report=report,
            resume=resume,
            compare=compare,
            gate=gate,
            save_baseline=save_baseline,
            list_runs=list_,
            as_json=as_json,
        )
    )


def _asked(
    ways: list[WayChoice] | None,
    case: str,
    model: str | None,
    base_url: str | None,
    samples: int,
    jobs: int | None,
    baseline: bool,
    cases: Path | None,
    transcripts: Path | None,
    *,
    judge: tuple[str | None, str | None],
) -> Asked:
    import os

    from evals.case import FOLDER as CASES
    from evals.jobs import Asked
    from evals.recordings import FOLDER as TRANSCRIPTS

    return Asked(
        ways=list(dict.fromkeys(way.value for way in ways or ())),
        pattern=case,
        samples=samples,
        jobs=jobs or os.cpu_count() or 1,
        model=model,
        base_url=base_url,
        judge_model=judge[0],
        judge_base_url=judge[1],
        baseline=baseline,
        cases=(cases or CASES).resolve(),
        transcripts=(transcripts or TRANSCRIPTS).resolve(),
    )
