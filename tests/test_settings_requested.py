"""What was asked for is found with file and line, and set against what is in force and what shows."""

from __future__ import annotations

from typing import Any

import pytest

from tools.process import ProcessFacts
from tools.settings.difference import Difference, contradicts, differences, log_line, same
from tools.settings.evidence import Evidence
from tools.settings.locate import Location
from tools.settings.own_words import Seen, observed, own_words
from tools.settings.requested import Asked, given_flags, requested, unit_lines
from tools.settings.types import Cite, Condition, Definition, DerivationStep, Effective

UNIT = """# /etc/systemd/system/engine.service
[Unit]
Description=Engine

[Service]
Environment=CUDA_DEVICE_ORDER=PCI_BUS_ID
EnvironmentFile=/etc/engine.env
# old work-around, see ticket 12
ExecStart=/venv/bin/python -m sglang.launch_server \\
    --model-path /models/m \\
    --pp-size 8 \\
    --disable-cuda-graph
Restart=always

# /etc/systemd/system/engine.service.d/10-args.conf
[Service]
# Set to limit memory
Environment="SGLANG_X=a b"
"""
DROP_IN = (
    UNIT
    + """ExecStart=
# smaller pipeline
ExecStart=/venv/bin/python -m sglang.launch_server --model-path /models/m --pp-size 4 --page-size 64
"""
)
CITE = Cite("srt/server_args.py", 10, 10, "0.5.11", "ab" * 32)


def definition(name: str, default: Any = False, *flags: str) -> Definition:
    words = flags or (f"--{name.replace('_', '-')}",)
    return Definition(name, "field", "ServerArgs", CITE, "bool", default, flags=words)


DEFINITIONS = {
    "model_path": definition("model_path", None, "--model-path", "--model"),
    "pp_size": definition("pp_size", 1, "--pp-size", "--pipeline-parallel-size"),
    "page_size": definition("page_size", None),
    "disable_cuda_graph": definition("disable_cuda_graph"),
    "disable_overlap_schedule": definition("disable_overlap_schedule"),
    "api_key": definition("api_key", None),
}


def asked_of(argv: str, unit: str = UNIT, environ: dict[str, str] | None = None, **more: Any) -> list[Asked]:
    words = ["/venv/bin/python", "-m", "sglang.launch_server", *argv.split()]
    return requested(words, environ or {}, Evidence(unit_text=unit, **more), DEFINITIONS, 7)


def test_each_option_is_found_on_its_line_of_the_unit() -> None:
    rows = {row.word: row for row in asked_of("--model-path /models/m --pp-size 8 --disable-cuda-graph")}
    assert rows["--pp-size"].where == "/etc/systemd/system/engine.service:10"
    assert rows["--disable-cuda-graph"].where == "/etc/systemd/system/engine.service:11"
    assert (rows["--pp-size"].name, rows["--pp-size"].value, rows["--pp-size"].way) == (
        "pp_size",
        "8",
        "unit",
    )
    assert rows["--disable-cuda-graph"].remark == "old work-around, see ticket 12"


def test_a_drop_in_that_starts_the_engine_anew_is_the_one_in_force() -> None:
    rows = {row.word: row for row in asked_of("--model-path /models/m --pp-size 4 --page-size 64", DROP_IN)}
    assert {row.way for row in rows.values()} == {"drop-in"}
    assert rows["--page-size"].where == "/etc/systemd/system/engine.service.d/10-args.conf:6"
    assert rows["--page-size"].remark == "smaller pipeline"
    assert "--disable-cuda-graph" not in rows


def test_what_the_unit_says_and_the_process_was_not_started_with_is_told_apart() -> None:
    rows = {row.word: row for row in asked_of("--model-path /models/m --pp-size 8")}
    assert rows["--disable-cuda-graph"].in_force is False
    assert rows["--pp-size"].in_force is True


def test_a_script_and_the_bare_command_line_are_the_last_places_looked_at() -> None:
    script = '#!/bin/sh\nexec python -m sglang.launch_server \\\n  --pp-size 8 "$@"\n'
    unit = "# /etc/systemd/system/e.service\n[Service]\nExecStart=/opt/run.sh\n"
    rows = asked_of("--pp-size 8 --page-size=64", unit, script="/opt/run.sh", script_text=script)
    assert [(row.way, row.where) for row in rows] == [
        ("script", "/opt/run.sh:3"),
        ("command line", "/proc/7/cmdline"),
    ]


def test_variables_are_told_with_the_file_that_sets_them() -> None:
    environ = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "SGLANG_X": "a b", "SGLANG_Y": "1", "NCCL_P2P_DISABLE": "1"}
    files = {"/etc/engine.env": "3:SGLANG_Y=1\n4:export NCCL_P2P_DISABLE=0\n"}
    rows = {row.name: row for row in asked_of("", UNIT, environ, environment_files=files)}
    assert (rows["CUDA_DEVICE_ORDER"].way, rows["CUDA_DEVICE_ORDER"].where[-2:]) == ("unit", ":5")
    assert rows["SGLANG_X"].way == "drop-in" and rows["SGLANG_X"].remark == "Set to limit memory"
    assert (rows["SGLANG_Y"].way, rows["SGLANG_Y"].where) == ("environment file", "/etc/engine.env:3")
    assert (rows["NCCL_P2P_DISABLE"].way, rows["NCCL_P2P_DISABLE"].where) == (
        "environment",
        "/proc/7/environ",
    )


def test_secrets_on_a_command_line_are_hidden_and_models_without_an_option_are_seen() -> None:
    assert list(given_flags(["/v/bin/vllm", "serve", "org/m", "--api-key", "s3cr3t", "-tp", "-1"])) == [
        ("MODEL", "org/m"),
        ("--api-key", "[value hidden]"),
        ("-tp", "-1"),
    ]
    assert unit_lines("no unit at all\n").start == []


def location(engine: str = "sglang", effective: dict[str, Any] | None = None) -> Location:
    facts = ProcessFacts(
        host="h", pid=7, start_time=0, engine=engine, argv=(), flags={}, interpreter="", package=engine,
        version="1", package_root="/p", port=1, cwd="/", uid=0, environ={}, effective=effective or {},
    )  # fmt: skip
    return Location(facts)


LOG = (
    "x python[7]: [2026-11-30 00:01:40] Pipeline parallelism is incompatible with overlap schedule.\n"
    "x python[7]: [t] server_args=ServerArgs(model_path='/models/a, b', pp_size=8, page_size=None, "
    "hooks=<Hook: 1>, names=['a', 'b'], mem=0.85)\n"
    "x python[7]: [t PP0] max_total_num_tokens=3, page_size=1, context_len=262144, x=\n"
)


def test_the_engines_own_words_are_read_from_its_answer_before_its_log() -> None:
    names = ["model_path", "pp_size", "page_size", "names", "mem", "hooks"]
    words = own_words(location(effective={"pp_size": 4}), Evidence(log=LOG), names)
    assert {name: word.value for name, word in words.items()} == {
        "model_path": "/models/a, b",
        "pp_size": 4,
        "page_size": None,
        "names": ["a", "b"],
        "mem": 0.85,
    }
    assert words["pp_size"].source == "/server_info"
    assert words["mem"].source == "start-up line server_args"


def test_vllms_line_is_read_by_section() -> None:
    line = "Initializing a V1 LLM engine with config: model='/m', dtype=torch.bfloat16, max_seq_len=4096\n"
    names = ["model_config.model", "model_config.dtype", "model_config.max_model_len"]
    words = own_words(location("vllm"), Evidence(log=line), names)
    assert {name: word.value for name, word in words.items()} == {
        "model_config.model": "/m",
        "model_config.dtype": "bfloat16",
        "model_config.max_model_len": 4096,
    }


METRICS = """sglang:is_cuda_graph{pp_rank="0"} 0.0
sglang:cuda_graph_passes_total{mode="decode_none",x="a}b"} 40.0
vllm:cache_config_info{block_size="16",engine="0",enable_prefix_caching="True"} 1.0
broken
"""


def test_metrics_and_decode_lines_show_how_a_setting_works_out() -> None:
    decode = "".join(f"Decode batch, #running-req: {n}, cuda graph: False, gen\n" for n in (1, 2))
    names = ["disable_cuda_graph", "max_running_requests", "cache_config.block_size", "page_size"]
    seen = observed(Evidence(metrics=METRICS, decode=decode, log=LOG), "sglang", names)
    assert [one.text for one in seen["disable_cuda_graph"]] == [
        "sglang:is_cuda_graph 0.0",
        "decode steps since the start: decode_none 40",
        "last 2 decode lines: cuda graph: False",
    ]
    assert seen["max_running_requests"][0].text == "last 2 decode lines: at most 2 running"
    assert seen["cache_config.block_size"][0].value == 16
    assert [one.text for one in seen["page_size"]] == ["page_size=1"]
    graph = seen["disable_cuda_graph"][-1]
    assert contradicts("disable_cuda_graph", False, graph) and not contradicts(
        "disable_cuda_graph", True, graph
    )


def step(origin: Any, value: Any, *verdicts: Any, logged: str | None = None) -> DerivationStep:
    conditions = tuple(Condition("pp_size > 1", verdict, "pp_size = 8", CITE) for verdict in verdicts)
    return DerivationStep(origin, value, True, CITE, "self.x = ...", conditions, logged=logged)


def row(
    effective: Effective,
    asked: tuple[Asked, ...] = (),
    says: Any = ...,
    seen: tuple[Seen, ...] = (),
) -> Difference:
    from tools.settings.own_words import Word

    words = {} if says is ... else {effective.name: Word(effective.name, says, "/server_info")}
    given = {effective.name: effective}
    (found,) = differences(
        given, DEFINITIONS, asked, words, {effective.name: seen}, Evidence(log=LOG), [effective.name]
    )
    return found


FLAG = Asked("disable_cuda_graph", "--disable-cuda-graph", None, "unit", "/u:1")
DROPPED = Asked("disable_cuda_graph", "--disable-cuda-graph", None, "drop-in", "/d.conf:1")


OVERWRITE, LOGGED = step("overwrite", 2, "true"), step("overwrite", 2, logged="it is 2 now")


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (row(Effective("pp_size", True, 1)), "default"),
        (row(Effective("disable_cuda_graph", True, True), (FLAG,)), "launch flag"),
        (row(Effective("disable_cuda_graph", True, True), (DROPPED,)), "drop-in"),
        (row(Effective("page_size", True, 2, steps=(step("environment", 2),))), "environment"),
        (row(Effective("page_size", True, 2, steps=(OVERWRITE,))), "silent override"),
        (row(Effective("page_size", True, 2, steps=(LOGGED,))), "logged override"),
        (row(Effective("page_size", False)), "unknown"),
        (row(Effective("page_size", False), says=2), "not explained"),
        (row(Effective("page_size", False, steps=(OVERWRITE,)), says=2), "silent override"),
    ],
)
def test_every_difference_has_a_class(found: Difference, kind: str) -> None:
    assert found.kind == kind
    assert found.differs is (kind not in ("default", "unknown"))


def test_the_step_that_surely_happened_gives_the_value() -> None:
    sure, perhaps = (
        step("overwrite", True, "true"),
        step("overwrite", True, "unknown", logged="it is perhaps so"),
    )
    found = row(Effective("disable_overlap_schedule", True, True, steps=(sure, perhaps)))
    assert found.step is sure and found.kind == "silent override"
    said = step(
        "overwrite", True, "true", logged="Pipeline parallelism is incompatible with overlap schedule."
    )
    found = row(Effective("disable_overlap_schedule", True, True, steps=(perhaps, said)))
    assert found.log.endswith("incompatible with overlap schedule.")


def test_of_steps_that_write_the_same_value_the_first_made_it_so() -> None:
    first, again = step("overwrite", 2, "true"), step("overwrite", 2, "true")
    other, perhaps = step("overwrite", 4, "true"), step("overwrite", 4, "unknown")
    assert row(Effective("page_size", True, 2, steps=(other, first, again))).step is first
    assert row(Effective("page_size", True, 2, steps=(first, perhaps, again))).step is again


def test_a_step_that_only_may_have_happened_is_named_when_no_other_can_give_the_value() -> None:
    first, second = step("overwrite", 2, "unknown"), step("overwrite", 4, "unknown")
    assert row(Effective("page_size", False, steps=(first, second)), says=2).step is first
    both = Effective("page_size", False, steps=(first, step("overwrite", 2, "unknown")))
    assert row(both, says=2).kind == "not explained"
    assert row(Effective("page_size", False, steps=(first, second)), says=8).kind == "not explained"


def test_the_engines_own_word_wins_and_the_disagreement_is_shown() -> None:
    found = row(Effective("pp_size", True, 1), says=8)
    assert (found.value, found.disagrees, found.differs) == (8, True, True)
    assert not row(Effective("pp_size", True, 8), says=8).disagrees
    seen = (Seen("disable_cuda_graph", "last 9 decode lines: cuda graph: False", source="decode lines"),)
    assert row(Effective("disable_cuda_graph", True, False), seen=seen).contradicted


def test_values_are_compared_as_settings() -> None:
    assert (
        same((1, 2), [1.0, 2]) and same({"a": [1]}, {"a": (1,)}) and not same(True, 1) and not same(None, 0)
    )


def test_a_line_of_the_log_is_found_by_the_longest_plain_part_of_its_message() -> None:
    assert log_line("{name} parallelism is incompatible with overlap schedule.", LOG).startswith(
        "x python[7]"
    )
    assert log_line("Pipeline is incompatible with overlap schedule.", LOG).startswith("x python[7]")
    assert log_line("%s", LOG) == "" and log_line("never {x} logged here", LOG) == ""
    assert log_line("Pipeline parallelism is incompatible with schedule. twice", LOG) == ""
