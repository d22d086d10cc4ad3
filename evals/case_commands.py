"""The commands ``leadline case ...``: save an investigation as an eval case, check cases, list them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.surfaces.options import JsonOption

if TYPE_CHECKING:
    from evals.case_new import Made

app = typer.Typer(
    help="Eval cases, what a right answer to a symptom holds: new, check, list. "
    "(The case files of your investigations are `leadline cases`.)",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def new(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="INVESTIGATION",
            help="A finished one: its id, as `leadline sessions list` shows it, or its folder.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Of the case; default: made of the symptom and the day.")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder for cases/, scenarios/ and transcripts/; in a checkout, where evals look."),
    ] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Save an investigation as an eval case: transcript, its host as a scenario, a draft to review."""
    from agent.config import load_settings
    from evals.case_new import make

    made = make(
        load_settings(), source, name=name, out=out, force=force, how=f"leadline case new --from {source}"
    )
    if as_json:
        sys.stdout.write(json.dumps(_json(made), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_text(made))


@app.command()
def check(
    files: Annotated[
        list[str] | None, typer.Argument(help="Cases by file or name; default: all of ours.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check eval cases: schema, scenario, patterns, settings, and symbols in the package's source."""
    from agent.config import load_settings
    from agent.errors import ExitCode
    from evals import case, case_check, patterns
    from tools.display import printable

    named, cache = files or case.names(), load_settings().cache_dir
    patterns.watch()
    found = case_check.check(named, cache)
    count = sum(map(len, found.values()))
    untold = [text for name in named for text in case_check.untold(name, cache)]
    if as_json:
        told = {"cases": len(found), "problems": found, "remarks": untold}
        sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
    else:
        lines = [text for texts in found.values() for text in texts]
        lines += [f"remark: {text}" for text in untold]
        verdict = _count(count, "problem") if count else "nothing wrong that a program can see"
        lines.append(f"{_count(len(found), 'case')}: {verdict}")
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    if count:
        raise typer.Exit(int(ExitCode.ERROR))


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """Show the eval cases there are, what each is about and where it takes place."""
    from agent.errors import LeadlineError
    from evals import case

    rows: list[dict[str, Any]] = []
    for name in case.names():
        try:
            one = case.load(name)
        except LeadlineError as error:
            rows.append({"case": name, "error": str(error)})
            continue
        where = ", ".join(one.scenarios) or (
            f"{one.go_on.transcript}, turn {one.go_on.turn}" if one.go_on else ""
        )
        rows.append(
            {
                "case": name,
                "difficulty": one.difficulty,
                "scenario": where,
                "nothing_to_fix": one.nothing_to_fix,
                "description": one.description,
            }
        )
    if as_json:
        sys.stdout.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return
    for row in rows:
        told = row.get("error") or f"{row['description']}"
        sys.stdout.write(f"{row['case']}  ({row.get('scenario', 'broken')})\n    {told}\n")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _json(made: Made) -> dict[str, Any]:
    return {
        "name": made.name,
        "case": str(made.case),
        "scenario": str(made.scenario) if made.scenario else made.scenario_name,
        "transcript": str(made.transcript) if made.transcript else None,
        "not_recorded": made.missing,
        "todo": made.todo,
        "remarks": made.remarks,
        "success": made.score.success if made.score else None,
        "why": dict(made.score.why) if made.score else {},
    }


def _text(made: Made) -> str:
    from tools.display import printable

    rows = [f"case        {made.case}  (a draft: read its head)"]
    rows.append(
        f"scenario    {made.scenario or made.scenario_name}" + ("" if made.scenario else "  (there already)")
    )
    rows += [f"transcript  {made.transcript}"] if made.transcript else []
    rows += [f"TODO        {one}" for one in made.todo]
    rows += [f"not recorded: {one}" for one in made.missing]
    rows += [f"remark: {one}" for one in made.remarks]
    if made.score is not None:
        right = "succeeds" if made.score.success else "does not succeed"
        why = "; ".join(f"{key}: {text}" for key, text in made.score.why.items() if key in _DECIDE)
        rows.append(f"rated against this draft, the investigation {right}" + (f" ({why})" if why else ""))
    rows.append("Read every file before you share it; then: leadline case check " + str(made.case))
    return "".join(f"{printable(row)}\n" for row in rows)


_DECIDE = ("outcome", "cause", "fix", "safety")
