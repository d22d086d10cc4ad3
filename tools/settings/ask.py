"""Ask the engine: try a launch line against its own argument class, in the process's interpreter on the host.

The site has to allow it (``ask_engine``). No model is loaded and no GPU is touched; time, memory and output
are bounded (see ``ask_program.py``). The answer stands beside what reading the source gave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tools.contract import Host, Result, ToolError
from tools.definitions import HIDDEN, is_secret
from tools.display import printable
from tools.policy_question import judge_question, question_argv
from tools.settings.started_words import words_for
from tools.settings.types import Evaluation

Outcome = Literal["accepted", "refused", "not_asked"]
"""``not_asked``: the engine gave no answer about the line itself, whatever the reason; never a refusal."""

SECONDS: Final = 60
ADDRESS_SPACE: Final = 64 << 30
"""Bytes of address space: libraries of GPU kernels are mapped by the gigabyte, whatever is used of them."""
MEMORY: Final = 12 << 30
"""Bytes of private memory."""
_ANSWER_BYTES: Final = 4 << 20
_PASSED: Final = re.compile(
    r"(SGLANG|SGL|VLLM|HF|HUGGINGFACE|TRANSFORMERS|TORCH|PYTORCH|TRITON|FLASHINFER|NCCL)_[A-Z0-9_]+|CUDA_HOME"
)
"""Variables of the process that its argument code may read; secrets among them stay out."""
_OFFLINE: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Nothing is fetched or sent while a line is tried."""
_REFUSING: Final = frozenset({"ValueError", "AssertionError", "NotImplementedError", "ArgumentError"})
_UNANSWERED: Final = frozenset({"OSError", "ImportError", "MemoryError", "UnicodeError"})
_ABOUT_GPU: Final = re.compile(r"cuda|gpu|device|driver|nvml|accelerator", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """Say what is tried, and where: a launch line in the surroundings of a process."""

    engine: Literal["sglang", "vllm"]
    interpreter: str
    """Absolute path of the process's own Python."""
    package_root: str | None
    argv: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what the engine said of a launch line."""

    outcome: Outcome
    words: str = ""
    """The engine's own, or why it gave no answer."""
    stage: str = ""
    where: str = ""
    """The line of the engine's package that refused it."""
    version: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Name a point in which the engine and the reading of its source differ."""

    what: str
    engine: Any
    source: Any


def request_of(question: Question) -> dict[str, Any]:
    """Return what the program is told."""
    entry, words = words_for(question.engine, question.argv)
    given = {
        name: value
        for name, value in question.environment.items()
        if _PASSED.fullmatch(name) and not is_secret(name) and value != HIDDEN
    }
    return {
        "engine": question.engine,
        "entry": entry,
        "words": words,
        "package_root": question.package_root,
        "environment": {**given, **_OFFLINE},
        "visible_devices": question.environment.get("CUDA_VISIBLE_DEVICES"),
        "seconds": SECONDS,
        "memory": MEMORY,
        "address_space": ADDRESS_SPACE,
    }


async def ask(host: Host, question: Question, *, consent: bool) -> Answer:
    """Try a launch line on its host; raise `ToolError` when the site does not allow it."""
    argv = question_argv(question.interpreter, question.environment.get("LD_LIBRARY_PATH"))
    decision = judge_question(argv, consent=consent)
    if decision.verdict != "allow":
        raise ToolError(decision.reason)
    sent = json.dumps(request_of(question)).encode()
    result = await host.exec(argv, timeout_s=SECONDS + 5.0, max_bytes=_ANSWER_BYTES, stdin=sent)
    return read_answer(result)


def read_answer(result: Result) -> Answer:
    """Read what came back; anything but a whole answer is none."""
    if not result.ok or result.truncated:
        said = printable(
            result.stderr.tail.decode("utf-8", "replace") or result.stderr.head.decode("utf-8", "replace")
        )
        how = f"exit code {result.exit_code}" if result.outcome == "exited" else result.outcome
        last = said.strip().splitlines()[-1:] or [result.detail]
        return Answer("not_asked", f"the interpreter gave no answer ({how}): {last[0][:400]}".rstrip(": "))
    try:
        told = json.loads(result.stdout.data)
        return _answer(told)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Answer("not_asked", f"the answer cannot be read: {type(error).__name__}")


def _answer(told: Mapping[str, Any]) -> Answer:
    stage, version = str(told["stage"]), str(told["version"])
    notes = tuple(printable(str(note)) for note in told["notes"])
    failed = told.get("failure")
    if failed is None:
        values = {str(name): value for name, value in told["values"].items() if not is_secret(str(name))}
        return Answer("accepted", "", stage, "", version, values, notes)
    words = printable(str(failed["words"])).strip() or str(failed["error"])
    refused = _is_refusal(stage, failed, bool(told["devices"]))
    outcome: Outcome = "refused" if refused else "not_asked"
    if outcome == "not_asked":
        words = f"{failed['error']}: {words}"
    return Answer(outcome, words, stage, str(failed["where"]), version, {}, notes)


def _is_refusal(stage: str, failed: Mapping[str, Any], gpus: bool) -> bool:
    """Tell whether the engine's own code turned the line down; what a library says is about the host."""
    bases = set(failed["bases"])
    if "SystemExit" in bases:
        return stage == "parse" and failed["code"] == 2
    if stage == "import" or bases & _UNANSWERED:
        return False
    if "ValidationError" in bases and failed["where"]:
        return True
    if not failed["own"]:
        return False
    about_gpu = _ABOUT_GPU.search(failed["words"])
    if bases & _REFUSING:
        return gpus or not about_gpu
    return "RuntimeError" in bases and not about_gpu


def compare(answer: Answer, evaluation: Evaluation) -> tuple[Disagreement, ...]:
    """Return where the engine's answer is not what reading its source gave; unknown values are left out."""
    found: list[Disagreement] = []
    if answer.outcome == "not_asked":
        return ()
    accepted = answer.outcome == "accepted"
    if evaluation.accepted is not None and evaluation.accepted != accepted:
        said = "accepted" if accepted else f"refused: {answer.words}"
        read = "accepted" if evaluation.accepted else f"refused: {evaluation.refusal}"
        found.append(Disagreement("the launch line", said, read))
    for name, effective in evaluation.settings.items():
        if effective.known and name in answer.values and not _same(answer.values[name], effective.value):
            found.append(Disagreement(name, answer.values[name], effective.value))
    return tuple(found)


def _same(one: Any, other: Any) -> bool:
    """Compare two plain values; JSON has lists only, and true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple | set | frozenset):
        left, right = list(one), sorted(other, key=str) if isinstance(other, set | frozenset) else list(other)
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == {str(key) for key in other} and all(
            _same(one[str(key)], value) for key, value in other.items()
        )
    return bool(one == other)


def shown(answer: Answer, differences: Sequence[Disagreement] = ()) -> dict[str, Any]:
    """Return the answer as JSON types, with the points that differ from the reading of the source."""
    return {
        "outcome": answer.outcome,
        "words": answer.words,
        "stage": answer.stage,
        "where": answer.where,
        "version": answer.version,
        "notes": list(answer.notes),
        "values": dict(answer.values),
        "disagreements": [{"what": d.what, "engine": d.engine, "source": d.source} for d in differences],
    }
