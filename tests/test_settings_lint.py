"""The lint of launch lines by the options of released packages, and the engines' own parsers as its judge."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from agent.config import Settings
from evals.lab.package import fetch
from tests.engine_interpreter import build
from tests.engine_parser import parse_all
from tools.settings.counterparts import meanings
from tools.settings.define import Definitions, definitions
from tools.settings.lint import lint
from tools.settings.option_words import spellings_of
from tools.settings.problems import Problem, lines, shown
from tools.settings.source import LocalTree
from tools.settings.started_words import engine_words
from tools.settings.types import Cite, DerivationStep, Effective, Engine, Evaluation

RELEASES: list[tuple[Engine, str]] = [
    ("sglang", "0.5.11"),
    ("sglang", "0.5.23"),
    ("vllm", "0.11.0"),
    ("vllm", "0.33.0"),
]
TRUTH = Settings().cache_dir / "truth-env"


@cache
def package(engine: str, version: str) -> tuple[LocalTree, Definitions]:
    tree = LocalTree(fetch(engine, version, Settings().cache_dir) / engine)
    return tree, definitions(tree)


def found(release: str, line: str, **environment: str) -> list[Problem]:
    engine, _, version = release.partition(" ")
    tree, known = package(engine, version)
    return list(lint(tree, known, shlex.split(line), environment))


def brief(problems: Sequence[Problem]) -> list[tuple[str, str, str | None]]:
    return [(problem.kind, problem.flag, problem.nearest) for problem in problems]


@pytest.mark.parametrize(
    ("release", "line", "expected"),
    [
        ("sglang 0.5.11", "--model-path m --pp-size 8 --disable-cuda-graph", []),
        ("sglang 0.5.11", "--tp 8", [("abbreviated", "--tp", "--tp-size")]),
        ("sglang 0.5.11", "--tensor-parallel-size 8", []),
        ("sglang 0.5.11", "--tp_size 8", [("unknown_flag", "--tp_size", "--tp-size")]),
        ("vllm 0.33.0", "serve m --tensor_parallel_size=8 --max_num_seqs 4", []),
        (
            "sglang 0.5.11",
            "--gpu-memory-utilization 0.9",
            [("other_engine", "--gpu-memory-utilization", "--mem-fraction-static")],
        ),
        ("vllm 0.33.0", "--tp-size 8", [("other_engine", "--tp-size", "--tensor-parallel-size")]),
        (
            "vllm 0.11.0",
            "--disable-cuda-graph",
            [("other_engine", "--disable-cuda-graph", "--enforce-eager")],
        ),
        ("sglang 0.5.11", "--enable-auto-tool-choice", [("other_engine", "--enable-auto-tool-choice", None)]),
        (
            "sglang 0.5.11",
            "--chunked-prefil-size 2048",
            [("unknown_flag", "--chunked-prefil-size", "--chunked-prefill-size")],
        ),
        ("vllm 0.11.0", "-ep", [("unknown_flag", "-ep", "--enable-expert-parallel")]),
        ("sglang 0.5.11", "--pp-size eight", [("bad_type", "--pp-size", None)]),
        ("sglang 0.5.11", "--pp-size=8 --pp-async-batch-depth -1", []),
        ("sglang 0.5.11", "--pp-size", [("missing_value", "--pp-size", None)]),
        ("sglang 0.5.11", "--pp-size --tp-size 2", [("missing_value", "--pp-size", None)]),
        ("sglang 0.5.11", "--disable-cuda-graph true", [("bad_type", "--disable-cuda-graph", None)]),
        ("sglang 0.5.11", "--disable-cuda-graph=true", [("bad_type", "--disable-cuda-graph", None)]),
        ("sglang 0.5.11", "--cuda-graph-bs 1 2 4", []),
        ("sglang 0.5.11", "--cuda-graph-bs 1 x", [("bad_type", "--cuda-graph-bs", None)]),
        ("sglang 0.5.11", "--schedule-policy lmp", [("bad_choice", "--schedule-policy", "lpm")]),
        ("sglang 0.5.11", "--enable-d", [("ambiguous_prefix", "--enable-d", None)]),
        ("sglang 0.5.23", "--disable-cuda-graph", [("deprecated", "--disable-cuda-graph", None)]),
        ("sglang 0.5.23", "--cuda-graph-max-bs 8", [("ambiguous_prefix", "--cuda-graph-max-bs", None)]),
        (
            "sglang 0.5.11",
            "--tp-size 8 --tensor-parallel-size 4",
            [("duplicate", "--tensor-parallel-size", None)],
        ),
        ("sglang 0.5.11", "--config=x.yaml", [("silently_changed", "--config", "--config FILE")]),
        ("sglang 0.5.11", "a.txt --pp-size 8 b.txt", [("bad_type", "--pp-size", None)]),
        ("vllm 0.33.0", "vllm serve m -tp 8 -O3 --no-enable-chunked-prefill --max-model-len 16k", []),
        ("vllm 0.11.0", "vllm serve m -tp 8 -O3 --no-enable-chunked-prefill --max-model-len 16k", []),
        ("vllm 0.33.0", "m --compilation-config.pass_config.fuse_norm_quant true -cc.mode=3", []),
        (
            "vllm 0.33.0",
            "m --compilation-config '{\"mode\": }'",
            [("bad_type", "--compilation-config", None)],
        ),
        ("vllm 0.33.0", "m --kernel-config 3", [("bad_type", "--kernel-config", None)]),
        ("vllm 0.33.0", "m -cc.mode 3 -cc.mode 0", [("duplicate", "-cc.mode", None)]),
        (
            "vllm 0.33.0",
            "m --chatt-template '{{ x }}'",
            [("unknown_flag", "--chatt-template", "--chat-template")],
        ),
        ("vllm 0.33.0", "m --chat-template '{{ x }}' --dtype bf", [("bad_choice", "--dtype", None)]),
    ],
)
def test_a_launch_line_is_linted_for_its_version(
    release: str, line: str, expected: list[tuple[str, str, str | None]]
) -> None:
    problems = found(release, line)
    got = brief(problems)
    assert [row[:2] for row in got] == [row[:2] for row in expected], lines(problems)
    for (_, _, nearest), (_, _, wanted) in zip(got, expected, strict=True):
        assert wanted is None or nearest == wanted


def test_a_whole_launch_line_has_to_name_the_model() -> None:
    started = "python3 -m sglang.launch_server --pp-size 8"
    assert brief(found("sglang 0.5.11", started)) == [("missing_value", "--model-path", "--model-path")]
    assert found("sglang 0.5.11", f"{started} --model m") == []
    assert found("sglang 0.5.23", "sglang serve m --pp-size 8 --model-type llm") == []


def test_variables_are_looked_up_in_the_source() -> None:
    got = found("sglang 0.5.11", "", SGLANG_ENABLE_SPEC_V3="1", PATH="/bin", SGLANG_ENABLE_SPEC_V2="1")
    assert brief(got) == [("unknown_environment", "SGLANG_ENABLE_SPEC_V3", "SGLANG_ENABLE_SPEC_V2")]
    assert got[0].level == "warning" and got[0].cite is not None
    old = found("sglang 0.5.11", "", SGL_ENABLE_SPEC_V2="1")
    assert brief(old) == [("deprecated", "SGL_ENABLE_SPEC_V2", "SGLANG_ENABLE_SPEC_V2")]
    other = found("sglang 0.5.11", "", VLLM_ATTENTION_BACKEND="x")
    assert brief(other) == [("unknown_environment", "VLLM_ATTENTION_BACKEND", None)]
    assert "a variable of vllm" in other[0].message
    misspelt = found("vllm 0.33.0", "", VLLM_LOGGING_LEVL="INFO", VLLM_LOGGING_LEVEL="INFO")
    assert brief(misspelt) == [("unknown_environment", "VLLM_LOGGING_LEVL", "VLLM_LOGGING_LEVEL")]


def test_options_in_a_file_are_linted_too() -> None:
    tree, known = package("sglang", "0.5.11")
    files = {"/c.yaml": b"model-path: /m\npp-sise: 8\nschedule-policy: nope\ndisable-cuda-graph: true\n"}

    def put(path: str) -> list[Problem]:
        line = ["python3", "-m", "sglang.launch_server", "--config", path]
        return list(lint(tree, known, line, {}, None, files.get))

    assert [problem.kind for problem in put("/c.yaml")] == ["unknown_flag", "bad_choice"]
    assert "does not exist" in put("/absent.yaml")[0].message
    assert "ends in .yaml" in put("/c.json")[0].message
    files["/bad.yaml"] = b"- 1\n"
    assert "no mapping" in put("/bad.yaml")[0].message
    files["/broken.yaml"] = b"{"
    assert "no YAML" in put("/broken.yaml")[0].message


def evaluation(accepted: bool, value: int, logged: str | None = None) -> Evaluation:
    cite = Cite("srt/server_args.py", 1211, 1211, "0.5.11", "ab")
    steps = (
        DerivationStep("default", 1, True, cite, "pp_size: int = 1"),
        DerivationStep("flag", 8, True, None, "--pp-size 8"),
        DerivationStep("overwrite", value, True, cite, "self.pp_size = 1", logged=logged),
    )
    settings = {"pp_size": Effective("pp_size", True, value, steps=steps)}
    refusal = "" if accepted else "PP is not supported with this"
    return Evaluation(settings, accepted, refusal, None if accepted else cite, "check")


def test_what_the_argument_code_does_is_told() -> None:
    tree, known = package("sglang", "0.5.11")
    line = ["--model-path", "m", "--pp-size", "8"]
    silent = lint(tree, known, line, {}, evaluation(True, 1))
    said = "--pp-size asks for 8; the engine makes it 1 and says nothing of it"
    assert [str(problem) for problem in silent] == [f"{said} (srt/server_args.py:1211@0.5.11#ab)"]
    logged = lint(tree, known, line, {}, evaluation(True, 1, "pp is off"))
    assert "and logs 'pp is off'" in logged[0].message
    assert lint(tree, known, line, {}, evaluation(True, 8)) == ()
    refused = lint(tree, known, line, {}, evaluation(False, 1))
    assert [(problem.kind, problem.level) for problem in refused] == [("rejected", "error")]
    assert "PP is not supported" in refused[0].message


def test_problems_are_shown_with_nothing_hidden_in_them() -> None:
    problems = found("sglang 0.5.11", "'--pp\x1b[2J' 8")
    assert "\x1b" not in lines(problems)[0] and shown(problems)[0]["level"] == "error"
    assert lines([]) == ["nothing to say against this launch line"]


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_every_counterpart_is_an_option_of_a_release(engine: Engine) -> None:
    known: set[str] = set()
    for name, version in RELEASES:
        if name == engine:
            known |= spellings_of(package(name, version)[1].fields(), engine).keys()
    unknown = {option for row in meanings() for option in row.options(engine)} - known
    assert unknown == set()
    assert all(row.sglang or row.vllm for row in meanings())


def test_no_counterpart_of_an_engine_is_known_to_the_other_by_the_same_name_and_another_meaning() -> None:
    pairs: list[tuple[Engine, Engine]] = [("sglang", "vllm"), ("vllm", "sglang")]
    for engine, other in pairs:
        for row in meanings():
            shared = set(row.options(engine)) & {
                o for r in meanings() for o in r.options(other) if r is not row
            }
            assert not shared, (row.means, shared)


@pytest.mark.parametrize(
    ("argv", "entry", "words"),
    [
        ("python3 -m sglang.launch_server --a 1", "sglang.launch_server", ["--a", "1"]),
        (
            "/opt/v/bin/python -m vllm.entrypoints.openai.api_server --a",
            "vllm.entrypoints.openai.api_server",
            ["--a"],
        ),
        ("/opt/bin/vllm serve m --a", "serve", ["m", "--a"]),
        ("/usr/bin/python3 /opt/bin/vllm serve m", "serve", ["m"]),
        ("--a serve", "", ["--a", "serve"]),
        ("", "", []),
    ],
)
def test_the_engine_s_own_words_are_found(argv: str, entry: str, words: list[str]) -> None:
    assert engine_words(argv.split()) == (entry, words)


def drawn(rng: random.Random, known: Definitions, engine: str, count: int) -> list[list[str]]:
    """Return launch lines of random options, some of them cut, misspelt, or with words that do not fit."""
    options = [each for each in known.fields().values() if each.flags or each.negative_flags]
    made = []
    for _ in range(count):
        words = ["--model-path", "m"] if engine == "sglang" else ["m"]
        for each in rng.sample(options, rng.randint(1, 4)):
            flag = rng.choice([*each.flags, *each.negative_flags, *each.deprecated_flags])
            chance = rng.random()
            if chance < 0.08 and len(flag) > 4:
                flag = flag[: rng.randint(4, len(flag))]
            elif chance < 0.13:
                flag = "--" + flag.lstrip("-").replace("-", "_")
            elif chance < 0.18 and len(flag) > 4:
                place = rng.randrange(2, len(flag))
                flag = flag[:place] + flag[place + 1 :]
            pool = ["1", "8", "-1", "0.5", "x", "true", "None", "16k", "auto", '{"a": 1}', "a b", "", "-x"]
            if each.choices:
                pool = [*pool[:4], *(str(choice) for choice in each.choices), "nope"]
            number = rng.choices(
                [0, 1, 2], [0.85, 0.13, 0.02] if each.takes == "none" else [0.08, 0.84, 0.08]
            )[0]
            values = [rng.choice(pool) for _ in range(number)]
            words += [f"{flag}={values[0]}", *values[1:]] if values and chance > 0.85 else [flag, *values]
        made.append(words)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "version"), RELEASES)
def test_the_engine_s_own_parser_agrees(engine: Engine, version: str, tmp_path: Path) -> None:
    """No line that the parser takes has an error; most that it refuses have."""
    tree, known = package(engine, version)
    pin = re.search(
        rb"^Requires-Dist: transformers==([\d.]+)", tree.distribution("METADATA") or b"", re.MULTILINE
    )
    own = TRUTH / f"transformers-{pin[1].decode()}" if pin is not None else TRUTH / "none"
    packages = TRUTH / "venv" / "lib" / "python3.11" / "site-packages"
    if not (packages / "torch").is_dir():
        pytest.skip("no interpreter with torch: the ground truth's environment is not installed")
    interpreter = build(tmp_path / "venv", *([own] if own.is_dir() else []), packages)
    seed = random.randrange(1 << 32)
    made = drawn(random.Random(seed), known, engine, 300)
    said = parse_all(interpreter, engine, tree.folder, made)
    refused = missed = 0
    before = ["vllm", "serve"] if engine == "vllm" else ["python3", "-m", "sglang.launch_server"]
    for words, words_of_parser in zip(made, said, strict=True):
        errors = [problem for problem in lint(tree, known, [*before, *words], {}) if problem.level == "error"]
        assert words_of_parser or not errors, (seed, words, lines(errors))
        refused += bool(words_of_parser)
        missed += bool(words_of_parser) and not errors
    assert refused > 50 and missed < refused / 3, (seed, refused, missed)
