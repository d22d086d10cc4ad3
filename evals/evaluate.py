"""Carry out ``leadline eval``: run, print, report, compare, gate."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from agent.config import load_settings
from agent.errors import ExitCode, LeadlineError
from evals import gate, runs, table
from evals.compare import compare_runs
from evals.jobs import Asked
from evals.progress import Shown, progress
from evals.run import Done, Run, read
from evals.summary import Summary, summarise


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Hold what the command line asked for."""

    asked: Asked
    report: Path | None
    resume: str | None
    compare: tuple[str, str] | None
    gate: bool
    save_baseline: bool
    list_runs: bool
    as_json: bool


def run(options: Options) -> None:
    """Do what was asked and leave with the exit code of it."""
    code = _list(options) if options.list_runs else _compare(options) if options.compare else _run(options)
    if code is not ExitCode.DONE:
        raise SystemExit(int(code))


def _run(options: Options) -> ExitCode:
    baseline = gate.load() if options.gate else None
    settings = load_settings()
    work = Run.resumed(settings, options.resume) if options.resume else Run.new(options.asked)
    if baseline is not None:
        gate.refuse_other_model(work.file.model, baseline)  # before hours of work
    sys.stderr.write(f"run {work.file.id}: {len(work.due)} of {len(work.file.jobs)} jobs\n")
    with _shown(work) as seen:
        done = work.work(seen.result)
    summary = summarise(done)
    if options.report is not None:
        from evals.report import write

        write(options.report, done)
        sys.stderr.write(f"report: {options.report}\n")
    drops = gate.drops(done, baseline) if baseline is not None else []
    new = gate.new(done, baseline) if baseline is not None else []
    _print(options, done, summary, drops, new)
    if done.stopped is not ExitCode.DONE:
        sys.stderr.write(f"stopped; go on with: leadline eval --resume {done.file.id}\n")
        return done.stopped
    if not summary.counted:
        sys.stderr.write("leadline: no sample counts, so this run says nothing; the reasons are above\n")
        return ExitCode.NOTHING_COUNTED
    if options.save_baseline:
        gate.save(done)
        sys.stderr.write(f"baseline: {gate.FILE}\n")
    return ExitCode.WORSE if drops else ExitCode.DONE


def _shown(work: Run) -> AbstractContextManager[Shown]:
    return progress(sys.stderr, len(work.due))


def _print(options: Options, done: Done, summary: Summary, drops: list[str], new: list[str]) -> None:
    if options.as_json:
        results = [result.model_dump(mode="json") for result in done.results]
        shown = {"summary": summary.model_dump(mode="json"), "results": results, "drops": drops, "new": new}
        sys.stdout.write(json.dumps(shown, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(table.text(summary))
    if options.gate:
        lines = [f"worse than the baseline: {text}" for text in drops] or [
            "nothing is worse than the baseline"
        ]
        if new:
            lines.append(f"not in the baseline: {', '.join(new)}; store them: leadline eval --save-baseline")
        sys.stdout.write("".join(f"{line}\n" for line in lines))


def _compare(options: Options) -> ExitCode:
    assert options.compare is not None
    settings = load_settings()
    both = []
    for name in options.compare:
        file = runs.load(settings, name)
        both.append(read(file, runs.folder_of(settings, name)))
    found = compare_runs(*both)
    if options.as_json:
        sys.stdout.write(found.model_dump_json() + "\n")
    else:
        sys.stdout.write(table.comparison(found))
    if options.report is not None:
        from evals.report import write

        write(options.report, both[1], before=both[0])
        sys.stderr.write(f"report: {options.report}\n")
    return ExitCode.DONE


def _list(options: Options) -> ExitCode:
    settings = load_settings()
    rows = []
    code = ExitCode.DONE
    for name in runs.names(settings):
        try:
            done = read(runs.load(settings, name), runs.folder_of(settings, name))
        except LeadlineError as error:
            sys.stderr.write(f"leadline: {error}\n")
            code = error.exit_code
            continue
        rows.append(
            {"run": name, "model": done.file.model, "jobs": len(done.file.jobs), "done": len(done.results)}
        )
    if options.as_json:
        sys.stdout.write(json.dumps(rows) + "\n")
    elif not rows and code is ExitCode.DONE:
        sys.stdout.write("no eval run yet; start one with: leadline eval\n")
    else:
        sys.stdout.write(
            "".join(f"{row['run']}  {row['done']}/{row['jobs']} jobs  {row['model']}\n" for row in rows)
        )
    return code
