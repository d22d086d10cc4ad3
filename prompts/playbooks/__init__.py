"""Playbooks: one Markdown file a known cause, with front matter that the built-in model can follow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prompts import strict_yaml

Comparison = Literal["<", "<=", "==", "!=", ">=", ">"]


class PlaybookError(ValueError):
    """Report a playbook file that cannot be used: its path and what is wrong."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FlagCondition(_Strict):
    """Ask for a launch flag: its value compared as a number or a text, or its plain presence."""

    name: str
    op: Comparison | Literal["present", "absent", "is", "is_not"] = "present"
    value: float = 0
    text: str = Field(default="", description="What `is` and `is_not` compare with.")
    value_from: Literal["", "processors"] = Field(
        default="", description="Take the number to compare with from the facts: processors the unit may use."
    )
    default: float | None = Field(default=None, description="Number to compare when the flag is not given.")


class AppliesWhen(_Strict):
    """Say for which engines, symptoms (RE2, ignoring case) and launch flags a playbook is worth running."""

    engines: list[str]
    symptom: str = ""
    flags: list[FlagCondition] = Field(default_factory=list)


class Probe(_Strict):
    """Name one tool call; ``{unit}``, ``{port}``, ``{pid}``, ``{taken_at}`` and flags are filled in."""

    tool: Literal["run", "journal", "grep", "read_file", "benchmark"]
    args: dict[str, Any]
    after: str | None = Field(default=None, description="Run after this probe; skip when it gave nothing.")
    wait_for: str | None = Field(default=None, description="Run after this probe, whatever it gave.")


class Prediction(_Strict):
    """State what would be seen, which probe shows it, and how to find the quote in that probe's result."""

    id: str
    favours: Literal["for", "against"]
    says: str
    check: dict[str, Any]
    probe: str
    find: str = Field(description="RE2 pattern of the text to quote.")
    kind: Literal["source", "log", "configuration", "measurement"]


class ChangeTemplate(_Strict):
    """Describe the change to propose when the hypothesis holds."""

    setting: str
    to_value: str | None = None
    predicted_effect: str
    mechanism: str
    reason: str
    ratio: tuple[float, float] | None = Field(
        default=None,
        description="Published range of throughput after to before; stated on what was measured.",
    )
    at: Literal["one", "slots"] = Field(
        default="one", description="The concurrency that the ratio is for: 1, or the pipeline's slots."
    )


class Limit(_Strict):
    """Say what no setting changes; where it names ``{watts_one}`` or the like, once they are measured."""

    says: str
    where: str = Field(default="", description="RE2 pattern that the model's or a GPU's name must match.")
    ceiling_tok_s: float | None = Field(
        default=None, description="No promise for one request goes above this many tok/s."
    )


class SourceClaim(_Strict):
    """Name a condition in the source that the conclusion should judge, by setting and shape."""

    pattern: str = Field(description="RE2 pattern of the line that carries the condition or the statement.")
    says: str
    judged: bool = Field(
        default=False, description="Claim whether the statement can run, by the guard that decides it."
    )


class Observed(_Strict):
    """Name a value that the running server shows, as a setting claim of the observed layer."""

    probe: str
    name: str
    find: str = Field(description="RE2 pattern of the text to quote.")
    value: str = Field(description="RE2 pattern whose group is the value in the quote.")
    says: str


class Absence(_Strict):
    """Name a search that must find nothing for the claim to hold, and for which side it speaks."""

    probe: str
    says: str
    favours: Literal["for", "against"] = "for"


class Playbook(_Strict):
    """Hold one known cause: when to look, what to predict, what to probe, what to change, what to mind."""

    name: str = Field(pattern=r"^[a-z0-9-]{1,64}$")
    description: str = Field(max_length=1024)
    role: Literal["cause", "inherent", "context", "odd"] = "cause"
    rank: int
    applies_when: AppliesWhen
    statement: str
    settings: list[str] = Field(default_factory=list, description="Settings to read in the source.")
    bad_value: str | None = Field(default=None, description="Value of the first setting that is the cause.")
    needs_any: list[str] = Field(
        default_factory=list, description="Predictions of which one must match before this counts as a cause."
    )
    needs_all: list[str] = Field(
        default_factory=list, description="Predictions that must all match before this counts as a cause."
    )
    keep: list[str] = Field(
        default_factory=list,
        description="Settings that are never changed to undo an override: they are wanted.",
    )
    concerns: str | None = Field(
        default=None,
        description="Name of the playbook whose change these cautions belong to, when this holds.",
    )
    effective: list[str] = Field(default_factory=list, description="Settings to ask the server for.")
    probes: dict[str, Probe]
    predictions: list[Prediction]
    source: list[SourceClaim] = Field(default_factory=list)
    observed: list[Observed] = Field(default_factory=list)
    absences: list[Absence] = Field(default_factory=list)
    change: ChangeTemplate | None = None
    by_design: str = Field(
        default="", description="What to do instead, where what it states is meant to be so."
    )
    person: str = Field(default="", description="What a person has to do, where no setting undoes the cause.")
    inherent: list[Limit] = Field(default_factory=list)
    cautions: list[str] = Field(default_factory=list)
    if_open: str = Field(
        default="", description="Caution for the change it concerns when nothing told whether this holds."
    )
    body: str = Field(default="", description="The text below the front matter, for people and for models.")


def parse(path: Path) -> Playbook:
    """Read one playbook file; raise `PlaybookError` that names file and field."""
    head, _, body = path.read_text().removeprefix("---\n").partition("\n---\n")
    try:
        fields, _ = strict_yaml.read(head)
        playbook = Playbook(**fields, body=body.strip())
    except strict_yaml.RepeatedKey as error:
        # The fence of the front matter is the file's first line.
        raise PlaybookError(f"{path.name}:{error.line + 1}: {error}") from error
    except (ValidationError, yaml.YAMLError, TypeError) as error:
        raise PlaybookError(f"{path.name}: {error}") from error
    _check_references(path, playbook)
    return playbook


def _check_references(path: Path, playbook: Playbook) -> None:
    named = {prediction.probe for prediction in playbook.predictions}
    named |= {absence.probe for absence in playbook.absences}
    named |= {observed.probe for observed in playbook.observed}
    for probe in playbook.probes.values():
        named |= {other for other in (probe.after, probe.wait_for) if other}
    needed = {*playbook.needs_any, *playbook.needs_all} - {one.id for one in playbook.predictions}
    if needed:
        raise PlaybookError(f"{path.name}: needs: no such prediction: {', '.join(sorted(needed))}")
    unknown = named - set(playbook.probes) - {"server_info", "source", "unit"}
    if unknown:
        raise PlaybookError(f"{path.name}: probes: not defined: {', '.join(sorted(unknown))}")
    if playbook.name != path.stem:
        raise PlaybookError(f"{path.name}: name: is {playbook.name}, must be the file's")


def paths() -> Iterator[Path]:
    """Yield the files of all playbooks that ship with the product."""
    yield from sorted(Path(__file__).parent.glob("*.md"))


@cache
def load_all() -> tuple[Playbook, ...]:
    """Return all playbooks, the likeliest cause first."""
    return tuple(sorted((parse(path) for path in paths()), key=lambda playbook: playbook.rank))
