"""The command ``leadline eval``: names, flags and help; bodies are imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.surfaces.options import BaseUrlOption, JsonOption, ModelOption
from evals.options import (
    CaseOption,
    CasesOption,
    CompareOption,
    GateOption,
    JobsOption,
    JudgeModelOption,
    JudgeUrlOption,
    ListRunsOption,
    ReportOption,
    ResumeRunOption,
    SamplesOption,
    SaveBaselineOption,
    ShellAgentOption,
    TranscriptsOption,
    WayChoice,
    WaysArgument,
)

if TYPE_CHECKING:
    from evals.jobs import Asked

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_EPILOG = (
    "Your own model: leadline eval solve -m NAME --base-url http://gpu1:30000/v1 --samples 3. "
    "Nothing but that endpoint is reached; package sources are fetched once. "
    "Exit codes: 8 when nothing counts, 9 when a gate fails; see docs/cli.md."
)


@app.command(epilog=_EPILOG)
def evaluate(
    ways: WaysArgument = None,
    case: CaseOption = "*",
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    judge_model: JudgeModelOption = None,
    judge_url: JudgeUrlOption = None,
    samples: SamplesOption = 1,
    jobs: JobsOption = None,
    baseline: ShellAgentOption = False,
    report: ReportOption = None,
    resume: ResumeRunOption = None,
    compare: CompareOption = None,
    gate: GateOption = False,
    save_baseline: SaveBaselineOption = False,
    cases: CasesOption = None,
    transcripts: TranscriptsOption = None,
    list_: ListRunsOption = False,
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
