"""Choose launch lines: some for every version, and random ones that a fresh seed gives."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from evals.truth import machines, models
from tools.settings.types import Engine

_FILE: Final = Path(__file__).with_name("lines.yaml")
_OFTEN: Final = 5
"""How much likelier an option of the first table is drawn than one of the second."""
_DRAFTED: Final = ("EAGLE", "EAGLE3", "STANDALONE")
_WITH_VARIABLE: Final = 0.08
_PAIRED: Final = 0.75
"""Share of lines whose sizes are made to divide each other, so that they get past the first refusal."""


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one launch line; ``{M}`` in it stands for the models' folder."""

    model: str
    argv: tuple[str, ...]
    machine: str = machines.DEFAULT
    environment: Mapping[str, str] = field(default_factory=dict)

    def full(self, engine: Engine) -> list[str]:
        """Return the engine's options, the model's path first."""
        return ["--model-path" if engine == "sglang" else "--model", f"{{M}}/{self.model}", *self.argv]


@cache
def _tables(engine: Engine) -> Any:
    return yaml.safe_load(_FILE.read_text("utf-8"))[engine]


def chosen(engine: Engine) -> list[Line]:
    """Return the lines that every version gets; a refusal is a result too."""
    return [_read(text) for text in _tables(engine)["chosen"]]


def _read(text: str) -> Line:
    model, *words = text.split(" ")
    machine, environment = machines.DEFAULT, {}
    while words and not words[0].startswith("-"):
        word = words.pop(0)
        if word.startswith("@"):
            machine = word[1:]
        else:
            name, _, value = word.partition("=")
            environment[name] = value
    return Line(model, tuple(words), machine, environment)


def drawn(engine: Engine, seed: str, count: int, options: Mapping[str, Sequence[str] | None]) -> list[Line]:
    """Return random lines of options that a version knows; the same seed gives the same lines.

    ``options`` maps option strings to their choices, by the version's own parser.
    """
    dice = random.Random(seed)
    pool = {
        table: _known(_tables(engine)[table], options, open_ended=engine == "vllm")
        for table in ("often", "seldom")
    }
    values = pool["often"] | pool["seldom"]
    weights = {name: _OFTEN if name in pool["often"] else 1 for name in values}
    variables = [dice.choice(_tables(engine)["variables"]) for _ in range(2)]
    return [_draw(engine, dice, values, weights, variables) for _ in range(count)]


def _known(
    table: Mapping[str, Any], options: Mapping[str, Sequence[str] | None], *, open_ended: bool
) -> dict[str, list[str]]:
    """Return the options there are, with the values they take; a switch has none."""
    found: dict[str, list[str]] = {}
    for name, asked in table.items():
        if name not in options and not (open_ended and name.startswith("-O")):
            continue
        choices = options.get(name)
        if asked is None:
            found[name] = []
        elif asked == "choices":
            if choices:
                found[name] = list(choices)
        elif values := [v for v in asked if not choices or set(v.split()) <= set(choices)]:
            found[name] = values
    return found


def _draw(
    engine: Engine,
    dice: random.Random,
    values: Mapping[str, list[str]],
    weights: Mapping[str, int],
    variables: Sequence[Sequence[str]],
) -> Line:
    names = list(values)
    want = min(dice.randint(1, 6), len(names))
    taken: list[str] = []
    while len(taken) < want:
        name = dice.choices(names, [weights[one] for one in names])[0]
        if name not in taken:
            taken.append(name)
    model = dice.choices(list(models.WEIGHTS), list(models.WEIGHTS.values()))[0]
    machine = dice.choices(list(machines.WEIGHTS), list(machines.WEIGHTS.values()))[0]
    fixed = _fitting(dice, taken, values) if engine == "sglang" and dice.random() < _PAIRED else {}
    argv: list[str] = []
    for name in dict.fromkeys([*taken, *fixed]):
        argv.append(name)
        if values[name]:
            argv += (fixed.get(name) or dice.choice(values[name])).split(" ")
        if engine == "sglang":
            argv += _companions(dice, name, argv[-1], model)
    environment: dict[str, str] = {}
    if dice.random() < _WITH_VARIABLE:  # few distinct ones: each costs an import of the engine
        variable, value = dice.choice(variables)
        environment[variable] = value
        machine = machines.DEFAULT
    return Line(model, tuple(argv), machine, environment)


def _fitting(dice: random.Random, taken: Sequence[str], values: Mapping[str, list[str]]) -> dict[str, str]:
    """Return sizes that go together where attention is spread over data-parallel ranks."""
    if "--enable-dp-attention" not in taken or "--dp-size" not in values:
        return {}
    return {"--dp-size": dice.choice(["2", "4", "8"]), "--tp-size": "8"}


def _companions(dice: random.Random, name: str, value: str, model: str) -> list[str]:
    """Return what an option mostly comes with."""
    if name == "--speculative-algorithm" and value in _DRAFTED and dice.random() < _PAIRED:
        draft = "llama-eagle3-draft" if "llama" in model else model
        return ["--speculative-draft-model-path", f"{{M}}/{draft}"]
    if name == "--enable-lora" and dice.random() < _PAIRED:
        return ["--lora-paths", "a={M}/lora-a"]
    return []
