"""Compare the table of configuration classes with transformers itself, run in a child process.

``python -m evals.model_classes_real --python PYTHON --transformers DIR`` makes configurations of every
model type, bare and with values, and counts the attributes on which both agree.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.interpreter.library.model_classes import Release, table
from tools.interpreter.library.model_classes_made import Made, Refused
from tools.interpreter.library.model_classes_run import Evaluator
from tools.interpreter.values import MISSING, External, Undecided, Unknown

_CHILD: Final = Path(__file__).with_name("model_classes_child.py")
_MARK: Final = "@@@"
_SECONDS: Final = 1200
_FAILURES: Final = (Refused, KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)
_ROPES: Final[tuple[Any, ...]] = (
    None,
    {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    {"rope_type": "linear", "factor": 2.0},
)
_OFTEN: Final[dict[str, Sequence[Any]]] = {
    "rope_theta": [10000.0, 500000.0],
    "rope_scaling": _ROPES,
    "partial_rotary_factor": [0.5],
    "temperature": [0.6],
    "num_labels": [3],
    "quantization_config": [{"quant_method": "fp8"}],
}
Config = dict[str, Any]


@dataclass
class Agreement:
    """Count attributes: the same, unknown to the table, different; ``differences`` holds the last ones."""

    same: int = 0
    unknown: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)


def real(python: Path, transformers: Path, configs: Sequence[Config]) -> list[Any]:
    """Return what a release of transformers makes of configurations; text for one that it refuses."""
    done = subprocess.run(
        [str(python), str(_CHILD), str(transformers)],
        input=json.dumps(configs),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    _, mark, told = done.stdout.partition(_MARK)
    if not mark:
        raise RuntimeError(f"transformers in {transformers} could not be run: {done.stderr.strip()[-300:]}")
    found: list[Any] = json.loads(told)
    return found


def compare(release: Release, configs: Sequence[Config], found: Sequence[Any]) -> Agreement:
    """Compare what a release makes of configurations with what the table says."""
    counted = Agreement()
    for config, one in zip(configs, found, strict=True):
        if isinstance(one, str):
            counted.refused += 1
            continue
        values = json.loads(json.dumps(config))
        early = not release.version.startswith("4.")
        if early:
            values["name_or_path"] = "model"
        if release.traits.get("commit hash"):
            values["_commit_hash"] = None
        evaluator = Evaluator(release)
        try:
            held: Any = evaluator.make(release.types[config["model_type"]], values)
            if not early:
                evaluator.write(held, "name_or_path", "model")
        except (*_FAILURES, Undecided) as error:
            held = Unknown((repr(error),))
        _compare(counted, config["model_type"], one, held, evaluator)
    return counted


def _compare(counted: Agreement, path: str, one: Any, held: Any, evaluator: Evaluator) -> None:
    if isinstance(held, Unknown):
        counted.unknown += 1
    elif isinstance(one, list) and isinstance(held, list) and len(one) == len(held):
        for part, own in zip(one, held, strict=True):
            _compare(counted, path, part, own, evaluator)
    elif not isinstance(one, dict) or "class" not in one:
        ours = plain(held)
        if ours == one and type(ours) is type(one):
            counted.same += 1
        elif "unknown" in json.dumps(ours, default=repr):
            counted.unknown += 1
        else:
            counted.differences.append(f"{path}: {one!r:.80}, not {ours!r:.80}")
    elif not isinstance(held, Made) or held.kind != one["class"]:
        counted.differences.append(f"{path} is a {one['class']}")
    else:
        _attributes(counted, path, one, held, evaluator)


def _attributes(counted: Agreement, path: str, one: dict[str, Any], held: Made, evaluator: Evaluator) -> None:
    for name, value in one["attributes"].items():
        ours = held.attrs.get(name, Unknown(held.vague) if held.vague else MISSING)
        if ours is MISSING:
            counted.differences.append(f"{path}.{name} is missing")
        else:
            _compare(counted, f"{path}.{name}", value, ours, evaluator)
    for name in held.attrs.keys() - one["attributes"].keys():
        if not (held.vague and isinstance(held.attrs[name], Unknown)):
            counted.differences.append(f"{path}.{name} should be absent")
    for name, value in one["seen"].items():
        view = Made(held.kind, dict(held.attrs))
        view.vague = held.vague
        try:
            ours = evaluator.read(view, name)
        except _FAILURES:
            ours = MISSING
        _compare(counted, f"{path}.{name}", value, "absent" if ours is MISSING else ours, evaluator)


def plain(value: Any) -> Any:
    """Return a value as the child process tells it."""
    if isinstance(value, Unknown):
        return "unknown"
    if isinstance(value, Made):
        return {"class": value.kind}
    if isinstance(value, External):
        return {"dtype": value.path}
    if isinstance(value, dict):
        return {"pairs": sorted(([plain(k), plain(v)] for k, v in value.items()), key=repr)}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(map(repr, value))}
    if isinstance(value, tuple):
        return {"tuple": [plain(v) for v in value]}
    return [plain(v) for v in value] if isinstance(value, list) else value


def made_up(release: Release, seed: int, types: Sequence[str] = ()) -> list[Config]:
    """Return for each model type a configuration without values and one with some that fit."""
    chance = random.Random(seed)
    found: list[Config] = []
    for model_type in types or sorted(release.types):
        found.append({"model_type": model_type})
        config = {"model_type": model_type, "architectures": ["Some"], "extra": {"a": [1, 2]}}
        kind = release.types[model_type]
        for name, default in _defaults(release, kind).items():
            if chance.random() < 0.5 and not isinstance(default, list) and name != "dtype":
                config[name] = _changed(name, default, chance)
        config["torch_dtype"] = chance.choice(["bfloat16", "float32"])
        for name, choices in _OFTEN.items():
            if chance.random() < 0.4:
                config[name] = chance.choice(choices)
        found.append(config)
    return found


def _defaults(release: Release, kind: str) -> dict[str, Any]:
    for one in release.order(kind):
        init = release.record(one).get("methods", {}).get("__init__")
        if init is not None:
            return {p[0]: p[1] for p in init["takes"] if len(p) > 1}
    return release.fields(kind)


def _changed(name: str, default: Any, chance: random.Random) -> Any:
    if isinstance(default, bool):
        return chance.random() < 0.5
    if isinstance(default, int) and default > 0 and "token" not in name:
        return default * chance.choice([1, 1, 2])
    if default is None and name in ("num_key_value_heads", "head_dim", "sliding_window"):
        return chance.choice([8, 16])
    return default


def main(argv: Sequence[str] | None = None) -> int:
    """Compare one release and say what differs."""
    parser = argparse.ArgumentParser(prog="python -m evals.model_classes_real", description=__doc__)
    parser.add_argument("--python", type=Path, required=True, help="an interpreter that has torch")
    parser.add_argument("--transformers", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    version = (
        next(options.transformers.glob("transformers-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    )
    known = table()
    if known is None or version not in known.versions:
        sys.stderr.write(f"the table has no transformers {version}; see python -m evals.model_classes\n")
        return 2
    release = known.release(version)
    configs = made_up(release, options.seed)
    counted = compare(release, configs, real(options.python, options.transformers, configs))
    kinds = Counter(line.partition(":")[0].partition(".")[0] for line in counted.differences)
    for line in counted.differences[:60]:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(
        f"transformers {version}: {len(configs)} configurations, {counted.refused} refused by it; "
        f"attributes: {counted.same} the same, {counted.unknown} unknown, "
        f"{len(counted.differences)} different in {len(kinds)} types\n"
    )
    return 1 if counted.differences else 0


if __name__ == "__main__":
    sys.exit(main())
