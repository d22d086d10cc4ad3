"""The judged conditions of a released engine: the founding case, and launch lines whose outcome is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab.package import PackageError, fetch
from tools.definitions import ENGINES, Definitions, Overwrite, read_definitions
from tools.guards import Guard, branch_test, guards_of
from tools.judge import Judge
from tools.resolvers import inside_resolver, resolver_at
from tools.scopes import use_at
from tools.statements import UNKNOWN
from tools.syntax import Module, parse, steps_to

TRUTH = json.loads((Path(__file__).parent / "data" / "guards_truth.json").read_text())
FOUNDING = TRUTH["records"][0]["argv"]
EFFECTIVE = TRUTH["effective"]
ENGINE = ENGINES["sglang"]

WRITES = {
    1276: "enable_mis is False (default, line 631)",
    2557: "attention_backend is None (default, line 497) or 'triton' (effective)",
    2563: "attention_backend is None (default, line 497) or 'triton' (effective)",
    3058: "moe_a2a_backend is 'none' (default, line 549)",
    3780: "disaggregation_mode is 'null' (default, line 724)",
    4072: "dllm_algorithm is None (default, line 616)",
    4146: "debug_tensor_dump_output_folder is None (default, line 716)",
    4155: "msprobe_dump_config is None (default, line 780)",
}


@pytest.fixture(scope="module")
def package() -> Path:
    try:
        return fetch("sglang", "0.5.11", Settings().cache_dir) / "sglang"
    except PackageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def definitions(package: Path) -> Definitions:
    return read_definitions(ENGINE, parse((package / ENGINE.file).read_bytes()))


def judge_of(definitions: Definitions, effective: bool) -> Judge:
    return Judge.of(definitions, FOUNDING, EFFECTIVE if effective else None)


def verdicts(judge: Judge, module: Module, path: str, line: int, name: str) -> list[tuple[str, str, str]]:
    """Return condition, verdict and reason of every guard of a name on a line."""
    start = module.lines[line - 1].index(name.encode())
    way, _ = use_at(module, line, start, start + len(name))
    resolve, inside = resolver_at(judge.definitions, module, path, way)
    found: list[tuple[str, str, str]] = []
    for guard in guards_of(module, way):
        judgement = judge.judge(guard.condition, resolve, inside=inside)
        found.append((guard.text, judgement.verdict, judgement.because))
    return found


def test_every_assignment_that_turns_graphs_off_is_found(definitions: Definitions) -> None:
    assert [write.line for write in definitions.overwrites["disable_cuda_graph"]] == list(WRITES)
    assert {write.value for write in definitions.overwrites["disable_cuda_graph"]} == {True}


@pytest.mark.parametrize("line", WRITES)
def test_no_assignment_holds_on_the_founding_line(definitions: Definitions, line: int) -> None:
    judge = judge_of(definitions, effective=True)
    found = verdicts(judge, definitions.module, ENGINE.file, line, "disable_cuda_graph")
    reason = next(because for _, verdict, because in found if verdict == "false")
    assert reason.startswith(WRITES[line])


@pytest.mark.parametrize("line", WRITES)
def test_without_the_servers_word_nothing_turns_wrong(definitions: Definitions, line: int) -> None:
    judge = judge_of(definitions, effective=False)
    found = verdicts(judge, definitions.module, ENGINE.file, line, "disable_cuda_graph")
    open_ones = line in (2557, 2563)
    assert ("false" in [verdict for _, verdict, _ in found]) is not open_ones
    assert not (open_ones and all(verdict == "true" for _, verdict, _ in found))


def test_the_early_return_is_the_condition(definitions: Definitions) -> None:
    judge = judge_of(definitions, effective=True)
    found = verdicts(judge, definitions.module, ENGINE.file, 1276, "disable_cuda_graph")
    assert [text for text, _, _ in found] == ["self.enable_mis", "not self.disable_cuda_graph"]


def test_pipeline_parallelism_turns_piecewise_graphs_off(definitions: Definitions) -> None:
    for effective in (True, False):
        judge = judge_of(definitions, effective)
        found = verdicts(judge, definitions.module, ENGINE.file, 1212, "disable_piecewise_cuda_graph")
        assert [(text, verdict) for text, verdict, _ in found] == [
            ("not self.enforce_piecewise_cuda_graph", "true"),
            ("self.pp_size > 1", "true"),
        ]
        assert found[1][2] == "pp_size is 8 (flag)"


def test_the_runner_returns_before_it_captures(package: Path, definitions: Definitions) -> None:
    path = "srt/model_executor/model_runner.py"
    module = parse((package / path).read_bytes())
    judge = judge_of(definitions, effective=True)
    start = module.lines[2760].index(b"disable_cuda_graph")
    way, use = use_at(module, 2761, start, start + 18)
    branch = branch_test(way)
    assert use.kind == "read" and branch is not None
    resolve, inside = resolver_at(definitions, module, path, way)
    judgement = judge.judge(branch.test, resolve, inside=inside)
    assert judgement.verdict == "true"
    assert "device is None (default, line 388) or 'cuda' (effective)" in judgement.because
    assert "disable_cuda_graph is True (flag)" in judgement.because
    after = verdicts(judge, module, path, 2764, "device")
    assert ("false" in [verdict for _, verdict, _ in after]) is True


def test_the_relay_follows_the_depth(package: Path, definitions: Definitions) -> None:
    path = "srt/managers/scheduler_pp_mixin.py"
    module = parse((package / path).read_bytes())
    judge = judge_of(definitions, effective=True)
    before = verdicts(judge, module, path, 103, "next_pp_outputs")[-1]
    after = verdicts(judge, module, path, 118, "next_pp_outputs")[-1]
    assert before[:2] == ("self.server_args.pp_async_batch_depth > 0", "false")
    assert after[:2] == ("self.server_args.pp_async_batch_depth == 0", "true")


@pytest.fixture(scope="module")
def writes(definitions: Definitions) -> list[tuple[str, Overwrite, list[Guard]]]:
    module = definitions.module
    return [
        (name, write, guards_of(module, steps_to(module, write.line, write.column)))
        for name in definitions.fields
        for write in definitions.overwrites.get(name, [])
    ]


def _judged(judge: Judge, guards: list[Guard]) -> str:
    resolve = inside_resolver(judge.definitions)
    found = [judge.judge(guard.condition, resolve, inside=True).verdict for guard in guards]
    return "false" if "false" in found else "unknown" if "unknown" in found else "true"


@pytest.mark.parametrize("record", TRUTH["records"], ids=lambda record: record["id"])
@pytest.mark.parametrize("knows_effective", [False, True])
def test_verdicts_agree_with_what_the_engines_own_code_did(
    definitions: Definitions,
    writes: list[tuple[str, Overwrite, list[Guard]]],
    record: dict[str, Any],
    knows_effective: bool,
) -> None:
    """Two implications hold whatever the order of writes.

    A setting that the engine changed was changed by some assignment: not all that could have done it may be
    judged false. And what an assignment judged true writes is the last value, unless another may follow.
    """
    changed = record["changed"]
    known = {name: final for name, (_, final) in changed.items() if final != "..."}
    judge = Judge.of(definitions, record["argv"], known if knows_effective else None)
    by_name: dict[str, list[tuple[int, Any, str]]] = {}
    for name, write, guards in writes:
        by_name.setdefault(name, []).append((write.line, write.value, _judged(judge, guards)))
    for name, found in by_name.items():
        initial = judge.initial(name)
        final = changed[name][1] if name in changed else getattr(initial, "value", UNKNOWN)
        able = [w for w in found if w[2] != "false" and (w[1] is UNKNOWN or final == "..." or w[1] == final)]
        if name in changed:
            assert able, f"{name} became {final!r}, and every assignment that could do it is judged false"
        for line, value, verdict in found:
            if verdict == "true" and value is not UNKNOWN and final is not UNKNOWN and value != final:
                assert any(other[0] != line for other in able), f"line {line} sets {name}, it is {final!r}"


@pytest.mark.parametrize("record", TRUTH["records"], ids=lambda record: record["id"])
def test_launch_values_are_those_of_the_engines_own_parser(
    definitions: Definitions, record: dict[str, Any]
) -> None:
    judge = Judge.of(definitions, record["argv"])
    for name, (parsed, _) in record["changed"].items():
        initial = judge.initial(name)
        assert isinstance(initial, str) or initial.value == parsed, name


def test_most_settings_have_a_known_default(definitions: Definitions) -> None:
    judge = Judge.of(definitions, FOUNDING)
    unknown = [name for name in definitions.fields if isinstance(judge.initial(name), str)]
    assert len(definitions.fields) > 350
    assert len(unknown) <= 5, unknown
