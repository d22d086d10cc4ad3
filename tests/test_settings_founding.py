"""The founding case and newer releases: what overwrites, reads and explains the settings of real engines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config import Settings
from evals.lab import scenario
from evals.lab.package import PackageError, fetch
from tests.settings_small import given
from tools.definitions import ENGINES, read_definitions
from tools.launch_values import launch_values
from tools.settings.define import definitions
from tools.settings.judging import Judging
from tools.settings.outcomes import Outcome
from tools.settings.overwrites import Overwrite, overwrites, overwrites_of
from tools.settings.readers import readers, readers_of
from tools.settings.source import LocalTree
from tools.settings.static_judge import static_fallback
from tools.settings.suspects import Suspect, suspects
from tools.settings.trees import parsed
from tools.settings.types import DerivationStep, Effective, Evaluation
from tools.statements import UNKNOWN

TRUTH = json.loads((Path(__file__).parent / "data" / "guards_truth.json").read_text())
SCENARIOS = Path(scenario.__file__).parent / "scenarios"
ARGUMENTS = "srt/server_args.py"
FIRST_FALSE = {
    1276: (1271, "self.enable_mis"),
    2557: (2553, "self.attention_backend == 'torch_native'"),
    2563: (2559, "self.attention_backend == 'flex_attention'"),
    3058: (3055, "self.moe_a2a_backend == 'deepep'"),
    3780: (3774, "self.disaggregation_mode == 'prefill'"),
    4072: (4064, "self.dllm_algorithm is not None"),
    4146: (4142, "self.debug_tensor_dump_output_folder is not None"),
    4155: (4149, "self.msprobe_dump_config is not None"),
}
WORKERS = {
    "eagle_worker.py": (128, 129, 204),
    "eagle_worker_v2.py": (126, 127, 174),
    "multi_layer_eagle_worker.py": (103, 104, 180),
    "multi_layer_eagle_worker_v2.py": (112, 113, 162),
    "standalone_worker.py": (56, 57, 93),
    "standalone_worker_v2.py": (79, 80, 112),
}
"""Of each worker of speculative decoding: the lines that save, overwrite and restore."""


@cache
def tree_of(name: str, version: str) -> LocalTree:
    try:
        return LocalTree(fetch(name, version, Settings().cache_dir))
    except PackageError as error:
        pytest.skip(str(error))


def flags_of(*names: str) -> dict[str, Any]:
    """Return the flags of a scenario that is made from another one."""
    flags: dict[str, Any] = {}
    for name in names:
        data = yaml.safe_load((SCENARIOS / f"{name}.yaml").read_text())
        flags |= data["units"]["sglang-kimi.service"]["launch"]["flags"]
    return {flag: value for flag, value in flags.items() if value is not None}


def argv_of(flags: Mapping[str, Any]) -> list[str]:
    return [part for flag, v in flags.items() for part in ([flag] if v is True else [flag, str(v)])]


FOUNDING = argv_of(flags_of("kimi-k26-pp8"))
HEALTHY = argv_of(flags_of("kimi-k26-pp8", "kimi-k26-pp8-healthy"))


def evaluation_of(argv: list[str]) -> Evaluation:
    """Return what a launch line and the pipeline's two rules make of the settings."""
    tree = tree_of("sglang", "0.5.11")
    module = parsed(tree, ARGUMENTS)
    assert module is not None
    launched = launch_values(read_definitions(ENGINES["sglang"], module), argv)
    known = {n: d.default for n, d in definitions(tree).items() if d.kind == "field" and d.default_known}
    flags = {name: value for name, value in launched.items() if value is not UNKNOWN}
    settings = dict(given(known, flags).settings)
    for name, line in (("disable_overlap_schedule", 3177), ("disable_piecewise_cuda_graph", 1212)):
        (found,) = (o for o in overwrites(tree, name) if o.line == line)
        step = DerivationStep("overwrite", True, True, found.cite, "= True", logged=found.logged)
        settings[name] = Effective(name, True, True, steps=(*settings[name].steps, step))
    return Evaluation(settings, True)


def outcomes(name: str) -> dict[tuple[str, int], tuple[Overwrite, Outcome]]:
    tree = tree_of("sglang", "0.5.11")
    argv, effective = TRUTH["records"][0]["argv"], TRUTH["effective"]
    unsure = (DerivationStep("overwrite", None, False, None, ""),)
    settings = {n: Effective(n, True, v, steps=unsure) for n, v in effective.items()}
    judging = Judging(tree, Evaluation(settings, True), static_fallback(tree, argv, effective))
    found = overwrites(tree, name)
    return {(o.cite.path, o.line): (o, r) for o, r in zip(found, judging.outcomes(found), strict=True)}


def test_every_assignment_of_disable_cuda_graph_has_its_reason() -> None:
    found = outcomes("disable_cuda_graph")
    inside = {line: (o, r) for (path, line), (o, r) in found.items() if path == ARGUMENTS}
    assert sorted(inside) == sorted(FIRST_FALSE)
    for line, (place, text) in FIRST_FALSE.items():
        overwrite, outcome = inside[line]
        assert (outcome.result, outcome.cite and outcome.cite.line) == ("cannot fire", place), line
        assert outcome.because.startswith(f"{text} is false: "), line
        assert (overwrite.value, overwrite.known) == (True, True)
        (path,) = overwrite.paths
        assert (path.root, path.settled) == ("ServerArgs.__post_init__", True)


def test_workers_of_speculative_decoding_restore_it() -> None:
    found = outcomes("disable_cuda_graph")
    for file, (saved, changed, restored) in WORKERS.items():
        path = f"srt/speculative/{file}"
        for line, role in ((changed, "temporary"), (restored, "restore")):
            pair = found[path, line][0].pair
            assert pair is not None and (pair.role, pair.saved, pair.restored) == (role, saved, restored)
    others = [o for o, _ in found.values() if o.pair is None]
    assert {o.cite.path for o in others} == {ARGUMENTS, "compile_deep_gemm.py"}


def test_the_way_to_a_worker_leads_from_the_scheduler() -> None:
    overwrite, outcome = outcomes("disable_cuda_graph")["srt/speculative/multi_layer_eagle_worker.py", 104]
    calls = [(c.cite.path, c.line) for c in overwrite.paths[0].calls]
    assert ("srt/managers/scheduler.py", 677) in calls and ("srt/speculative/spec_info.py", 90) in calls
    assert outcome.result == "cannot fire" and "enable_multi_layer_eagle" in outcome.because


@pytest.mark.parametrize(
    ("name", "line", "logged"),
    [
        ("disable_piecewise_cuda_graph", 1212, None),
        (
            "disable_overlap_schedule",
            3177,
            "Pipeline parallelism is incompatible with overlap schedule.",
        ),
    ],
)
def test_the_pipeline_overwrites_two(name: str, line: int, logged: str | None) -> None:
    overwrite, outcome = outcomes(name)[ARGUMENTS, line]
    assert outcome.result == "fires" and "self.pp_size > 1 is true: pp_size is 8 (flag)" in outcome.because
    assert (overwrite.logged, [n.line for n in overwrite.conditions][-1]) == (logged, line - 1)


def test_readers_of_the_depth_and_of_graphs() -> None:
    tree = tree_of("sglang", "0.5.11")
    depth = readers(tree, "pp_async_batch_depth")
    mixin = "srt/managers/scheduler_pp_mixin.py"
    assert {reader.cite.path for reader in depth} == {mixin}
    uses = {reader.cite.line: reader.use for reader in depth}
    assert (uses[102], uses[117], uses[523], uses[77]) == ("branch", "branch", "arithmetic", "loop bound")
    assert [reader.cite.line for reader in depth[:2]] == [102, 117]
    graphs = {(r.cite.path, r.cite.line): r for r in readers(tree, "disable_cuda_graph")}
    captured = graphs["srt/model_executor/model_runner.py", 2761]
    assert (captured.use, captured.decides, captured.symbol) == (
        "branch",
        "return",
        "ModelRunner.init_device_graphs",
    )


def suspects_of(argv: list[str]) -> list[Suspect]:
    tree = tree_of("sglang", "0.5.11")
    return list(suspects(tree, definitions(tree), evaluation_of(argv)))


def test_suspects_of_the_founding_host() -> None:
    first, second, *others = suspects_of(FOUNDING)
    assert (first.name, first.kind, first.value) == ("disable_cuda_graph", "off by flag", True)
    assert (second.name, second.kind, second.value) == ("pp_async_batch_depth", "fast path unused", 0)
    places = {(r.cite.path, r.cite.line) for r in first.reasons if r.cite}
    assert ("srt/model_executor/model_runner.py", 2761) in places
    text = " ".join(reason.text for reason in second.reasons)
    assert "from line 104 to line 117, after _pp_launch_batch()" in text
    assert "it matters since pp_size is 8" in text
    piecewise = next(one for one in others if one.name == "disable_piecewise_cuda_graph")
    assert any("without a word" in reason.text for reason in piecewise.reasons)


def test_the_healthy_host_has_neither() -> None:
    found = {one.name: one for one in suspects_of(HEALTHY)}
    assert "disable_cuda_graph" not in found
    depth = found.get("pp_async_batch_depth")
    assert depth is None or depth.kind == "differs from default"
    assert all(one.score < 6 for one in found.values())


def test_a_release_that_declares_what_it_decides() -> None:
    tree = tree_of("sglang", "0.5.23")
    names = ["disable_cuda_graph", "disable_overlap_schedule", "dtype"]
    found = overwrites_of(tree, names)
    rule = next(o for o in found[names[1]] if o.symbol == "_pipeline_parallel_overlap_disable")
    assert (rule.form, rule.value, [n.text for n in rule.conditions]) == (
        "declaration",
        True,
        ["view.pp_size > 1"],
    )
    assert {path.root for path in rule.paths} == {"ServerArgs.resolve_once"}
    assert [call.text for call in rule.paths[0].calls][-1] == (
        "run_post_process_pass(server_args, _pipeline_parallel_overlap_disable)"
    )
    evaluation = Evaluation({"pp_size": Effective("pp_size", True, 1)}, True)
    assert Judging(tree, evaluation).outcome(rule).result == "cannot fire"
    assert {o.form for o in found["disable_cuda_graph"]} == {"declaration", "override"}
    swapped = [o for o in found["disable_cuda_graph"] if o.symbol == "EAGLEWorkerV2._override_worker_state"]
    assert [o.pair and o.pair.role for o in swapped] == ["temporary", "restore"]
    assert "table" in {o.form for o in found["dtype"]}
    depth = readers(tree, "pp_async_batch_depth")
    assert [r.use for r in depth[:2]] == ["branch", "branch"]
    assert {r.cite.path for r in depth if r.serving} == {"srt/managers/scheduler_pp_mixin.py"}


def test_sections_of_vllm() -> None:
    tree = tree_of("vllm", "0.33.0")
    (eager,) = overwrites(tree, "enforce_eager")
    assert (eager.symbol, eager.value) == ("ModelConfig._verify_cuda_graph", True)
    assert [n.text for n in eager.conditions][-1].startswith("unsupported_rocm and ")
    modes = overwrites(tree, "compilation_config.cudagraph_mode")
    (off,) = (o for o in modes if o.cite.path == "config/vllm.py" and o.line == 1768)
    assert off.text == "CUDAGraphMode.NONE"
    assert off.conditions[-1].text == "self.model_config is not None and self.model_config.enforce_eager"
    for eager_value, result in ((True, "unknown"), (False, "cannot fire")):
        settings = {"enforce_eager": Effective("enforce_eager", True, eager_value)}
        assert Judging(tree, Evaluation(settings, True)).outcome(off).result == result
    used = {r.cite.path for r in readers(tree, "enforce_eager")}
    assert used >= {"config/vllm.py", "v1/worker/gpu_worker.py"}


@pytest.mark.parametrize(("name", "version"), [("sglang", "0.5.23"), ("vllm", "0.33.0")])
def test_all_settings_of_other_releases(name: str, version: str) -> None:
    tree = tree_of(name, version)
    defined = definitions(tree)
    fields = [n for n, d in defined.items() if d.kind == "field"]
    written, used = overwrites_of(tree, fields), readers_of(tree, fields)
    assert sum(map(bool, written.values())) > 80 and sum(map(bool, used.values())) > 250
    flags = {"sglang": {"disable_cuda_graph": True}, "vllm": {"enforce_eager": True}}[name]
    defaults = {n: defined[n].default for n in fields if defined[n].default_known}
    found = suspects(tree, defined, given(defaults, flags))
    assert next(iter(flags)) in {one.name for one in found[:3]}
