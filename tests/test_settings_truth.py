"""Our evaluation agrees with what the engines' own argument code made of launch lines."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from agent.config import Settings
from evals.lab import package
from evals.truth import compare, comparing, facts, lines, machines, models, read, table
from evals.truth.compare import Outcome, judged, plain, same
from evals.truth.read import Recorded
from tools.settings.types import Effective, Engine, Evaluation

FILES = sorted((Path(__file__).parent / "data" / "settings_truth").glob("*.json.gz"))
UNKNOWN = 0.10
"""What share of settings x launch lines may stay unknown."""


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[path.name.removesuffix(".json.gz") for path in FILES])
def test_no_setting_is_wrong_and_few_are_unknown(path: Path, tmp_path: Path) -> None:
    held = read.read(path)
    site = package.fetch(held.engine, held.version, Settings().cache_dir)
    (found,) = compare.compare([(held, site)], tmp_path / "models", jobs=1)
    assert found.lines == len(held.records) >= 12
    assert found.wrong == [] and found.misjudged == []
    assert found.share("unknown") <= UNKNOWN, found.unknown.most_common(10)


def record(**changes: object) -> Recorded:
    """Return a record of one accepted line."""
    base = Recorded(
        ident="one",
        engine="sglang",
        version="0.5.11",
        argv=("--model-path", "{M}/llama-8b"),
        environment={},
        hardware={},
        fields={"pp_size": 8, "model_path": "{M}/llama-8b", "random_seed": 7},
        accepted=True,
        refusal="",
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def evaluation(accepted: bool | None, **settings: object) -> Evaluation:
    """Return an evaluation that knows these settings and no other."""
    return Evaluation({name: Effective(name, True, value) for name, value in settings.items()}, accepted)


def test_each_setting_is_right_wrong_or_unknown() -> None:
    found = judged(record(), evaluation(True, pp_size=4, model_path="/m/llama-8b"), "/m")
    assert dict(found.pairs) == {"wrong": 1, "agree": 2} and found.drawn == 1
    assert [(one.name, one.recorded, one.ours) for one in found.wrong] == [("pp_size", 8, 4)]
    assert dict(judged(record(), evaluation(True), "/m").pairs) == {"unknown": 2, "agree": 1}


def test_a_value_drawn_at_random_cannot_be_known() -> None:
    drawn = record(fields={"random_seed": 7})
    given = record(fields={"random_seed": 7}, argv=("--random-seed", "7"))
    assert judged(drawn, evaluation(True, random_seed=7), "/m").pairs["wrong"] == 1
    assert judged(given, evaluation(True, random_seed=7), "/m").pairs["agree"] == 1
    assert judged(given, evaluation(True), "/m").pairs["unknown"] == 1


@pytest.mark.parametrize(
    ("accepted", "ours", "mark"),
    [
        (True, True, "agree"),
        (False, False, "agree"),
        (True, False, "wrong"),
        (False, True, "wrong"),
        (True, None, "unknown"),
    ],
)
def test_a_refusal_is_judged_by_the_line(accepted: bool, ours: bool | None, mark: str) -> None:
    found = judged(record(accepted=accepted, fields={}), evaluation(ours), "/m")
    assert dict(found.refusals) == {mark: 1} and len(found.misjudged) == (mark == "wrong")


def test_few_alternatives_without_the_recorded_value_are_counted() -> None:
    for options, missed in (((1, 8), 0), ((1, 4), 1), ((), 0)):
        ours = Evaluation({"pp_size": Effective("pp_size", False, alternatives=options)}, True)
        assert judged(record(fields={"pp_size": 8}), ours, "/m").missed == missed


def test_values_compare_as_json_would_hold_them() -> None:
    assert same(plain({"sizes": (1, 2), "share": 1.0}), {"sizes": [1, 2], "share": 1})
    assert (
        not same(True, 1) and not same([True], [1]) and not same({"a": 1}, {"b": 1}) and not same([1], [1, 2])
    )


def test_random_lines_follow_the_seed_and_the_options_a_version_knows() -> None:
    known = {"--pp-size": None, "--attention-backend": ["fa3", "triton"], "--disable-radix-cache": None}
    drawn = lines.drawn("sglang", "a", 40, known)
    assert drawn == lines.drawn("sglang", "a", 40, known) != lines.drawn("sglang", "b", 40, known)
    words = [word for one in drawn for word in one.argv]
    assert {word for word in words if word.startswith("-")} == set(known)
    assert {"fa3", "triton"} <= set(words) and "flashinfer" not in words


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_chosen_lines_name_models_and_machines_that_there_are(engine: Engine, tmp_path: Path) -> None:
    models.write(tmp_path)
    folders = {path.name for path in tmp_path.iterdir()}
    for one in lines.chosen(engine):
        named = {name for word in one.full(engine) for name in re.findall(r"\{M\}/([\w.-]+)", word)}
        assert named <= folders and one.machine in machines.MACHINES


def test_model_folders_are_read_and_nothing_else_is_said(tmp_path: Path) -> None:
    models.write(tmp_path)
    reader = facts.from_folder(tmp_path)
    config = reader(str(tmp_path / "llama-8b" / "config.json"))
    assert config is not None and json.loads(config)["num_hidden_layers"] == 32
    assert reader(str(tmp_path / "llama-8b" / "hf_quant_config.json")) is None
    with pytest.raises(OSError, match="outside"):
        reader("/etc/hostname")


def test_the_table_goes_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Head\n\n<!-- written by `make truth` -->\nold\n<!-- end -->\n\nFoot\n")
    one = judged(record(), evaluation(True, pp_size=4, model_path="/m/llama-8b"), "/m")
    newer = Outcome("sglang", "0.5.2")
    newer.add(one)
    comparing.write([one, newer], page)
    text = page.read_text()
    assert text.startswith("# Head\n") and text.endswith("<!-- end -->\n\nFoot\n") and "old" not in text
    assert (
        text.index("| sglang | 0.5.2 |") < text.index("| sglang | 0.5.11 |") < text.index("| sglang | all |")
    )
    assert table.as_json([one])[0]["wrong"][0]["setting"] == "pp_size"


def test_a_file_without_records_is_told(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    with pytest.raises(read.RecordError, match=re.escape(f"{path}: no records")):
        read.read(path)
