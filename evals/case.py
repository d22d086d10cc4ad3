"""Cases: what a right answer to one symptom holds, as one YAML file each in ``evals/cases/``.

A scenario says what a host is and nothing of answers; a case names a scenario, or a recording and the turn to
go on from, and holds the answers. Scorers read both; models never see a case.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from agent.errors import UsageError
from agent.state import EvidenceKind, Mode, Outcome
from evals.case_question import DOWN, Earlier, Part, Wanted, all_patterns
from evals.nearest import hint
from tools.wrong_fields import first_wrong

FOLDER = Path(__file__).parent / "cases"

Scorer = Literal[
    "outcome",
    "cause",
    "fix",
    "evidence",
    "hypothesis_first",
    "reading_first",
    "prediction",
    "abstention",
    "answer",
    "safety",
]
"""What a run is rated by, each from 0 (missed) to 1 (right)."""

Value = str | int | float | bool | None


class Cause(Part):
    """Name a true cause and how it is recognised in what a run asserts."""

    id: str
    says: str
    any: list[str] = Field(
        min_length=1, description="Patterns, case ignored; one must stand in the asserted statement."
    )
    none: list[str] = Field(default_factory=list, description="None of these may stand in it.")
    settings: list[str] = Field(
        default_factory=list,
        description="It is also this cause when the run bases a change of one of these on it.",
    )
    required: bool = Field(
        default=True, description="False: true as well, but a run that does not name it misses nothing."
    )

    _valid = field_validator("any", "none")(all_patterns)


class Fix(Part):
    """Name a change that cures, by its setting and the values it may be given."""

    id: str
    setting: str = Field(description="A flag, a variable or a unit's directive, in any usual spelling.")
    to: list[Value] = Field(default_factory=list, description="Accepted values; null: it is left out.")
    least: float | None = Field(default=None, description="Accepted from here, when it is a number.")
    most: float | None = Field(default=None, description="Accepted up to here.")
    group: str = Field(default="", description="Of fixes with the same group, one is enough.")
    required: bool = True

    @model_validator(mode="after")
    def _has_values(self) -> Fix:
        if not self.to and self.least is None and self.most is None:
            raise ValueError("give `to`, `least` or `most`")
        return self


class Proof(Part):
    """Name evidence that a right answer must cite: a region of source, a log event, a setting, a figure."""

    id: str
    kind: EvidenceKind
    package: str = Field(default="", description="The package that the file belongs to, for `path`.")
    path: str = Field(default="", description="End of the path of the cited file.")
    symbol: str = Field(default="", description="The citation lies inside it, such as ServerArgs._handle_pp.")
    lines: tuple[int, int] | None = Field(default=None, description="The citation overlaps these lines.")
    label: str = Field(default="", description="Pattern for the label of the cited output.")
    quote: str = Field(default="", description="Pattern for the quote, where no region tells it apart.")
    group: str = Field(default="", description="Of proofs with the same group, one is enough.")

    _valid = field_validator("label", "quote")(lambda value: all_patterns([value])[0])

    @model_validator(mode="after")
    def _is_some_place(self) -> Proof:
        if not (self.path or self.label or self.quote):
            raise ValueError("give `path`, `label` or `quote`")
        if (self.symbol or self.lines) and not self.path:
            raise ValueError("`symbol` and `lines` need a `path`")
        return self


class Distractor(Part):
    """Name a popular wrong cause; to assert it is wrong, to refute it is expected where said."""

    id: str
    any: list[str] = Field(min_length=1)
    refuted: bool = Field(default=False, description="The run is expected to list it and rule it out.")

    _valid = field_validator("any")(all_patterns)


class Forbidden(Part):
    """Name an action that a run must not take: a command, or a setting it must not propose."""

    id: str
    command: str = Field(default="", description="Pattern for a command that is run or tried.")
    setting: str = ""
    to: list[Value] = Field(default_factory=list, description="Empty: whatever the value.")

    _valid = field_validator("command")(lambda value: all_patterns([value])[0])

    @model_validator(mode="after")
    def _one_of(self) -> Forbidden:
        if bool(self.command) == bool(self.setting):
            raise ValueError("give exactly one of `command` and `setting`")
        return self


class Continue(Part):
    """Go on from a recording: its turns before ``turn`` are given, the model takes that one."""

    transcript: str = Field(description="Name of a recording in transcripts/.")
    turn: int = Field(ge=1, description="First turn that the model takes itself.")


class Case(Part):
    """Hold one eval case."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str
    source: str = Field(
        description="Where the facts come from: a public thread, a release, or our own story."
    )
    difficulty: int = Field(ge=1, le=3)
    scenario: str = ""
    hosts: dict[str, str] = Field(
        default_factory=dict,
        description="For a question of several hosts: name to scenario; `down`: nothing is there.",
    )
    earlier: dict[str, list[Earlier]] = Field(
        default_factory=dict, description="By host: earlier looks that are kept of it."
    )
    answer: Wanted | None = Field(default=None, description="What the answer to a question must hold.")
    go_on: Continue | None = Field(default=None, alias="continue")
    symptom: str = ""
    mode: Mode = "propose"
    playbook: str | None = Field(default=None, description="The playbook written for this very cause.")
    causes: list[Cause] = Field(default_factory=list)
    fixes: list[Fix] = Field(default_factory=list)
    evidence: list[Proof] = Field(default_factory=list)
    outcomes: list[Outcome] = Field(min_length=1)
    distractors: list[Distractor] = Field(default_factory=list)
    forbidden: list[Forbidden] = Field(default_factory=list)
    success: list[Scorer] = Field(
        default=["outcome", "cause", "fix", "safety"], min_length=1, description="Must be 1 for success."
    )
    expect: list[Scorer] = Field(
        default=["evidence", "hypothesis_first", "reading_first"], description="Reported when below 1."
    )

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="after")
    def _complete(self) -> Case:
        if [bool(self.scenario), bool(self.hosts), self.go_on is not None].count(True) != 1:
            raise ValueError("give exactly one of `scenario`, `hosts` and `continue`")
        if bool(self.hosts) != (self.answer is not None):
            raise ValueError("`hosts` and `answer` belong together")
        if unknown := set(self.earlier) - set(self.hosts):
            raise ValueError(f"`earlier` names {sorted(unknown)[0]}, which is no host of the case")
        if not self.evidence and self.answer is None:
            raise ValueError("`evidence` is missing")
        if not self.go_on and not self.symptom:
            raise ValueError("`symptom` is missing")
        groups = (self.causes, self.fixes, self.evidence, self.distractors, self.forbidden)
        for items in groups:
            ids = [item.id for item in items]
            if len(set(ids)) < len(ids):
                raise ValueError(f"an id stands twice: {', '.join(ids)}")
        return self

    @property
    def scenarios(self) -> list[str]:
        """Return the scenarios of its hosts, each once; none for a case that goes on from a recording."""
        named = [self.scenario] if self.scenario else [one for one in self.hosts.values() if one != DOWN]
        return list(dict.fromkeys(named))

    @property
    def nothing_to_fix(self) -> bool:
        """Tell whether to propose no change is the right answer."""
        return not any(fix.required for fix in self.fixes)


def names(folder: Path = FOLDER) -> list[str]:
    """Return the names of the cases that come with Leadline."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """Return the file of a case that exists, by its name or its path."""
    path = Path(name) if "/" in name or name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.is_file():
        raise UsageError(f"no case {name!r}", do=hint(name, names(folder), "leadline case list"))
    return path


def line_of(path: Path, place: tuple[int | str, ...]) -> int:
    """Return the line of a case's file on which a field stands, such as ``("fixes", 0, "setting")``."""
    from prompts.strict_yaml import line_in

    return line_in(_read(path)[1], place)


def line_with(path: Path, text: str) -> int:
    """Return the line of a case's file on which a value stands; 1 when it is not there."""
    nodes = [_read(path)[1]]
    while nodes:
        node = nodes.pop()
        if node.value == text:
            return int(node.start_mark.line) + 1
        if isinstance(node.value, list):
            nodes += [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    return 1


def load(name: str, folder: Path = FOLDER) -> Case:
    """Read a case by name or by path; raise `UsageError` naming file, line and field of what is wrong.

    A scenario that is given as ``./`` or ``../`` lies there as seen from the case's own file.
    """
    from prompts.strict_yaml import line_in

    path = path_of(name, folder)
    raw, lines = _read(path)
    raw.setdefault("name", path.stem)
    raw["scenario"] = _seen_from(path, raw.get("scenario", ""))
    if isinstance(hosts := raw.get("hosts"), dict):
        raw["hosts"] = {name: _seen_from(path, scenario) for name, scenario in hosts.items()}
    try:
        return Case.model_validate(raw)
    except ValidationError as error:
        wrong = first_wrong(error, "case", Case)
        raise UsageError(f"{path}:{line_in(lines, wrong.place)}: {wrong.text}", do=wrong.do) from None


def _seen_from(path: Path, scenario: object) -> object:
    """Return a scenario as a case names it, or where it lies as seen from the case's file."""
    if isinstance(scenario, str) and scenario.startswith(("./", "../")):
        return str((path.parent / scenario).resolve())
    return scenario


def _read(path: Path) -> tuple[dict[str, Any], Any]:
    """Return the parsed file and its YAML nodes, which know their lines."""
    import yaml

    from prompts import strict_yaml

    try:
        text = path.read_text(encoding="utf-8")
        raw, node = strict_yaml.read(text)
    except strict_yaml.RepeatedKey as error:
        raise UsageError(f"{path}:{error.line}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{path}{line}: is not YAML: {error.problem or error.context}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(f"{path}: cannot be read: it is nested too deep") from None
    if not isinstance(raw, dict):
        raise UsageError(f"{path}:1: case: must hold an object with the fields of a case")
    return raw, node
