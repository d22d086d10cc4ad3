from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.events import EvidenceAdded, HypothesisMoved, Started, ToolFinished
from agent.ledger import Ledger
from agent.state import ClaimCheck, Conclusion, Evidence, EvidenceLink, Hypothesis
from agent.verifier import check, problems
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SOURCE = b"""\
class ServerArgs:
    enable_mis: bool = False
    pp_size: int = 1
    disable_cuda_graph: bool = False
    attention_backend: str | None = None

    def _handle_mis(self):
        if not self.enable_mis:
            return
        logger.info("off")
        self.disable_cuda_graph = True

    def _handle_backend(self):
        if self.attention_backend in ["torch_native", "flex"]:
            self.disable_cuda_graph = True
        elif self.pp_size > 1 and not self.enable_mis:
            self.disable_overlap = True
        else:
            self.quiet = is_hip()
"""
CMDLINE = b"python\n-m\nsglang.launch_server\n--pp-size\n8\n--disable-cuda-graph\n--attention-backend\nfa3\n"
LOG = b"a\nDecode batch. #running-req: 1, cuda graph: False, gen throughput (token/s): 24.41\nz\n"
BENCH = b'{\n "users": 1,\n "output_throughput": 24.4\n}\n{\n "users": 8,\n "output_throughput": 97.6\n}\n'


def grep_view(**more: Any) -> dict[str, Any]:
    return {"host": "lab", "pattern": "pp.*cuda_graph", "scope": "/opt/sglang", "files": 900, "matches": 0,
            "complete": True, "not_permitted": [], **more}  # fmt: skip


def run_view(command: str, code: int, stderr: str = "") -> dict[str, Any]:
    return {"command": command, "outcome": "exited", "exit_code": code, "stderr": stderr, "truncated": False}


class Case:
    """An investigation's stored output: artifacts, calls, and a ledger with one supported cause."""

    def __init__(self, root: Path) -> None:
        self.store = ArtifactStore(root)
        self.artifacts: dict[str, ArtifactRef] = {}
        self.calls: dict[str, ToolFinished] = {}
        self.ledger = Ledger()
        self.ledger.apply(
            Started(
                thread="x", product="0", recorded="playbook", symptom="s", hosts=["lab"], mode="read-only"
            )
        )
        self.add("t1", "facts", CMDLINE, label="cmdline of 7", path="/proc/7/cmdline")
        self.add("t2", "grep", SOURCE, path="/opt/sglang/server_args.py", package="sglang", version="0.5.11")
        self.add("t3", "journal", LOG, view={"scope": "journal x", "unit": "x", "pattern": "Capture",
                                             "matches": 0, "complete": True})  # fmt: skip
        self.add("t4", "benchmark", BENCH)
        self.add("t5", "grep", None, view=grep_view())
        self.add("t6", "read_file", b"\n".join(SOURCE.split(b"\n")[6:12]) + b"\n", first_line=7,
                 path="/opt/sglang/server_args.py", package="sglang")  # fmt: skip
        self.add("t7", "run", b"85.0 W\n", view=run_view("nvidia-smi -q", 0))
        self.add("t8", "run", b"", view=run_view("grep -rn Xid /var/log", 1))

    def add(
        self, call: str, tool: str, data: bytes | None, view: dict[str, Any] | None = None, **more: Any
    ) -> None:
        refs = []
        if data is not None:
            fields = {"label": tool, "host": "lab", **more}
            refs = [
                ArtifactRef(
                    handle=f"{call}.1", sha256=self.store.put(data), size=len(data), taken_at=NOW, **fields
                )
            ]
        self.calls[call] = ToolFinished(
            call=call, tool_call_id=call, tool=tool, host="lab", status="ok",
            view=json.dumps(view or {}), artifacts=refs,
        )  # fmt: skip
        self.artifacts.update({ref.handle: ref for ref in refs})

    def conclusion(self, *claims: dict[str, Any], **more: Any) -> Conclusion:
        fields = {"outcome": "diagnosed", "summary": "s", "claims": list(claims), **more}
        return Conclusion.model_validate(fields)

    def check(self, claim: dict[str, Any]) -> ClaimCheck:
        return check(self.conclusion(claim), self.artifacts, self.store, self.calls, self.ledger)[0]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def cite(artifact: str, quote: str, *lines: int) -> dict[str, Any]:
    return {"artifact": artifact, "quote": quote, "lines": lines or None}


def fact(name: str, value: str, artifact: str, quote: str) -> dict[str, Any]:
    return {"name": name, "value": value, "cite": cite(artifact, quote)}


Raw = dict[str, Any]

SETTING: Raw = {"type": "setting", "says": "s", "name": "disable_cuda_graph", "value": "true",
                "layer": "requested", "cite": cite("t1.1", "--disable-cuda-graph")}  # fmt: skip
PP: Raw = {**SETTING, "name": "--pp-size", "value": "8", "cite": cite("t1.1", "--pp-size 8", 4, 5)}
DEFAULT: Raw = {
    **SETTING,
    "value": "False",
    "layer": "default",
    "cite": cite("t2.1", "disable_cuda_graph: bool = False"),
}
GUARD: Raw = {
    "type": "guard", "says": "s", "verdict": "false",
    "statement": cite("t2.1", "self.disable_cuda_graph = True", 11, 11),
    "condition": cite("t2.1", "if not self.enable_mis:", 8, 8),
    "facts": [fact("enable_mis", "False", "t2.1", "enable_mis: bool = False")],
}  # fmt: skip
RANGE_GUARD: Raw = {**GUARD, "statement": cite("t6.1", "self.disable_cuda_graph = True"),
               "condition": cite("t6.1", "if not self.enable_mis: return", 8, 9)}  # fmt: skip
ELIF: Raw = {
    "type": "guard", "says": "s", "verdict": "true",
    "statement": cite("t2.1", "self.disable_overlap = True"),
    "condition": cite("t2.1", "elif self.pp_size > 1 and not self.enable_mis:"),
    "facts": [*GUARD["facts"], fact("pp_size", "8", "t1.1", "--pp-size 8")],
}  # fmt: skip
EVENT: Raw = {
    "type": "log_event",
    "says": "s",
    "cite": cite("t3.1", "#running-req: 1, cuda graph: False", 2, 2),
}
MEASURE: Raw = {
    "type": "measurement", "says": "s", "value": 4.0, "expression": "many / (one * 1)",
    "numbers": {
        "one": {"cite": cite("t4.1", '"output_throughput": 24.4'), "pattern": r"throughput\": (\S+)"},
        "many": {"cite": cite("t4.1", '"output_throughput": 97.6', 7, 7), "pattern": r"(\d+\.\d+)"},
    },
}  # fmt: skip
ABSENCE: Raw = {
    "type": "absence",
    "says": "s",
    "call": "t5",
    "pattern": "pp.*cuda_graph",
    "scope": "/opt/sglang",
}
LOG_ABSENCE: Raw = {**ABSENCE, "call": "t3", "pattern": "Capture", "scope": "x"}
RUN_ABSENCE: Raw = {**ABSENCE, "call": "t7", "pattern": "HW Slowdown", "scope": "nvidia-smi -q"}
GREP_RUN_ABSENCE: Raw = {**ABSENCE, "call": "t8", "pattern": "Xid", "scope": "/var/log"}
VALID: dict[str, Raw] = {
    "setting": SETTING, "pp": PP, "default": DEFAULT, "guard": GUARD, "range": RANGE_GUARD, "elif": ELIF,
    "event": EVENT,
    "measure": MEASURE, "absence": ABSENCE, "log": LOG_ABSENCE, "run": RUN_ABSENCE, "grep": GREP_RUN_ABSENCE,
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_valid_claims_are_verified(case: Case, name: str) -> None:
    found = case.check(VALID[name])
    assert (found.status, found.why) == ("verified", "")
    assert bool(found.citations) == (VALID[name]["type"] != "absence")


MUTATIONS: list[tuple[str, str, Any]] = [
    ("setting", "cite.quote", "--disable-cuda-grapf"),
    ("setting", "cite.lines", [1, 3]),
    ("setting", "cite.artifact", "t3.1"),
    ("setting", "cite.artifact", "t99.1"),
    ("setting", "cite.artifact", "nonsense"),
    ("setting", "value", "false"),
    ("setting", "name", "disable_cuda_graphs"),
    ("setting", "layer", "default"),
    ("pp", "value", "80"),
    ("pp", "value", "true"),
    ("pp", "name", "--tp-size"),
    ("default", "value", "True"),
    ("default", "layer", "requested"),
    ("default", "cite.quote", "disable_cuda_graph: bool"),
    ("guard", "verdict", "true"),
    ("guard", "verdict", "unknown"),
    ("guard", "statement.lines", [15, 15]),
    ("guard", "statement.lines", None),
    ("guard", "statement.quote", "self.disable_cuda_graph = False"),
    ("guard", "condition.quote", "self.enable_mis:"),
    ("guard", "condition.lines", [14, 14]),
    ("guard", "condition.quote", 'if self.attention_backend in ["torch_native", "flex"]:'),
    ("guard", "condition.artifact", "t6.1"),
    ("guard", "facts.0.value", "True"),
    ("guard", "facts.0.name", "pp_size"),
    ("guard", "facts.0.cite.quote", "enable_mis"),
    ("guard", "facts", []),
    ("range", "verdict", "true"),
    ("range", "condition.lines", [10, 11]),
    ("elif", "verdict", "false"),
    ("elif", "facts.1.value", "1"),
    ("elif", "facts.1.cite", cite("t2.1", "pp_size: int = 1")),
    ("elif", "condition.quote", "elif self.pp_size > 1"),
    ("event", "cite.quote", "#running-req: 8, cuda graph: False"),
    ("event", "cite.quote", "#running-req: 1, cuda graph: Fals"),
    ("event", "cite.lines", [3, 3]),
    ("measure", "value", 4.2),
    ("measure", "expression", "one / many"),
    ("measure", "expression", "one - one + 4"),
    ("measure", "expression", "4"),
    ("measure", "expression", "many / two"),
    ("measure", "expression", "__import__('os').getpid()"),
    ("measure", "numbers.one.pattern", r"(\d)"),
    ("measure", "numbers.one.pattern", "throughput"),
    ("measure", "numbers.one.pattern", "("),
    ("measure", "numbers.many.cite.lines", [3, 3]),
    ("absence", "pattern", "pp.*cuda"),
    ("absence", "scope", "/opt"),
    ("absence", "call", "t9"),
    ("absence", "call", "t1"),
    ("log", "pattern", "Decode"),
    ("log", "scope", "y"),
    ("run", "pattern", "W"),
    ("run", "scope", "nvidia-smi"),
    ("grep", "pattern", "AER"),
    ("grep", "scope", "/var"),
]


@pytest.mark.parametrize(("name", "where", "value"), MUTATIONS)
def test_one_altered_thing_makes_a_claim_unverified(case: Case, name: str, where: str, value: Any) -> None:
    claim: Any = copy.deepcopy(VALID[name])
    target = claim
    *way, last = where.split(".")
    for step in way:
        target = target[int(step) if isinstance(target, list) else step]
    target[last] = value
    found = case.check(claim)
    assert found.status == "unverified"
    assert found.why and "\n" not in found.why


@pytest.mark.parametrize("name", [name for name in VALID if name != "absence"])
def test_bytes_changed_on_disk(case: Case, name: str) -> None:
    for ref in case.artifacts.values():
        path = case.store.path(ref.sha256)
        path.write_bytes(path.read_bytes() + b" ")
    assert "changed on disk" in case.check(VALID[name]).why


def test_artifacts_from_elsewhere(case: Case) -> None:
    ref = case.artifacts["t1.1"]
    case.artifacts["t1.1"] = ref.model_copy(update={"host": "other"})
    assert "not a host of this investigation" in case.check(SETTING).why
    case.artifacts["t1.1"] = ref.model_copy(update={"sha256": case.artifacts["t2.1"].sha256})
    assert "no finished call" in case.check(DEFAULT | {"cite": {**DEFAULT["cite"], "artifact": "t1.1"}}).why


@pytest.mark.parametrize(("more", "why"), [
    ({"complete": False}, "cut short"),
    ({"matches": 1}, "found 1 matches"),
    ({"not_permitted": ["/opt/sglang/x"]}, "could not read everything"),
    ({"complete": None}, "cut short"),
])  # fmt: skip
def test_absence_needs_a_whole_search(case: Case, more: dict[str, Any], why: str) -> None:
    case.add("t5", "grep", None, view=grep_view(**more))
    assert why in case.check(ABSENCE).why


@pytest.mark.parametrize("command", [
    "grep -rv Xid /var/log", "grep -rn --include=*.gz Xid /var/log",
    "cat Xid /var/log", "grep -rnm0 Xid /var/log",
])  # fmt: skip
def test_absence_by_a_command_that_is_no_plain_search(case: Case, command: str) -> None:
    case.add("t8", "run", b"", view=run_view(command, 1))
    assert "no plain search" in case.check(GREP_RUN_ABSENCE).why
    case.add("t8", "run", b"", view=run_view("grep -rn Xid /var/log", 1, "denied"))
    assert "did not end cleanly" in case.check(GREP_RUN_ABSENCE).why


def test_a_log_that_was_not_searched_for_it_is_searched_now(case: Case) -> None:
    view = {"scope": "x", "pattern": None, "matches": 3, "complete": True}
    case.add("t3", "journal", LOG, view=view)
    assert case.check(LOG_ABSENCE).status == "verified"
    case.add("t3", "journal", LOG + b"Capture cuda graph begin\n", view=view)
    assert "stands in t3.1" in case.check(LOG_ABSENCE).why
    case.add("t3", "journal", LOG, view=view, complete=False)
    assert "is not complete" in case.check(LOG_ABSENCE).why


def test_unknown_guards_say_unknown(case: Case) -> None:
    claim = {**ELIF, "facts": [], "verdict": "unknown"}
    assert case.check(claim).status == "verified"
    quiet = {**ELIF, "statement": cite("t2.1", "self.quiet = is_hip()")}
    assert "with the cited facts the guard is false" in case.check(quiet).why
    assert case.check({**quiet, "verdict": "false"}).status == "verified"


@pytest.mark.parametrize(("text", "value", "verdict"), [
    ('    mode: str = "null"', "null", "true"),
    ("    mode: str | None = None", "None", "false"),
    ("    mode: str | None = None", "null", "false"),
])  # fmt: skip
def test_a_string_null_is_not_none(case: Case, text: str, value: str, verdict: str) -> None:
    source = (
        f"class A:\n{text}\n    def f(self):\n        if self.mode is not None:\n            self.x = 1\n"
    )
    case.add("t2", "grep", source.encode(), path="/x.py", package="p")
    claim = {**GUARD, "statement": cite("t2.1", "self.x = 1"), "verdict": verdict,
             "condition": cite("t2.1", "if self.mode is not None:"),
             "facts": [fact("mode", value, "t2.1", text.strip())]}  # fmt: skip
    assert case.check(claim).status == "verified"


def test_a_default_is_no_fact_when_the_command_line_says_otherwise(case: Case) -> None:
    claim = {**ELIF, "verdict": "false",
             "facts": [*GUARD["facts"], fact("pp_size", "1", "t2.1", "pp_size: int = 1")]}  # fmt: skip
    assert case.check(claim).why == "pp_size = 1 is a default, but t1.1 sets it to 8"


def test_facts_come_from_the_same_host(case: Case) -> None:
    case.ledger.hosts.append("other")
    case.add("t9", "facts", CMDLINE, label="cmdline of 7", path="/proc/7/cmdline", host="other")
    claim = {**ELIF, "facts": [*GUARD["facts"], fact("pp_size", "8", "t9.1", "--pp-size 8")]}
    assert "is from other, the source from lab" in case.check(claim).why


def test_the_last_flag_counts(case: Case) -> None:
    case.add("t1", "facts", CMDLINE + b"--pp-size=4\n", label="cmdline of 7", path="/proc/7/cmdline")
    assert "gives --pp-size the value 4 in the end" in case.check(PP).why


@pytest.mark.parametrize("source", [
    b"if " + b"not " * 3000 + b"x:\n    y = 1\n",
    b"if x:\n    pass\n" + b"elif x:\n    pass\n" * 3000 + b"y = 1\n",
    b"if x:\n\x00    y = 1\n", b"def (:\n", b"", b"\xff\xfe y = 1", b"    y = 1\nelse:\n  z",
])  # fmt: skip
def test_hostile_source_is_unverified_and_no_crash(case: Case, source: bytes) -> None:
    case.add("t2", "grep", source, path="/opt/sglang/server_args.py", package="sglang")
    claim = {**GUARD, "statement": cite("t2.1", "y = 1"), "condition": cite("t2.1", "x:"), "facts": []}
    assert case.check(claim).status == "unverified"


def test_opinions_are_opinions(case: Case) -> None:
    assert case.check({"type": "opinion", "says": "buy more GPUs"}).status == "opinion"


def test_acceptance_needs_every_claim_and_one_for_each_cause(case: Case) -> None:
    claims = [SETTING, {"type": "opinion", "says": "x"}, EVENT]
    conclusion = case.conclusion(*claims, causes=["H1"])
    checks = check(conclusion, case.artifacts, case.store, case.calls, case.ledger)
    assert problems(conclusion, checks, case.ledger) == [
        "cause H1: no verified claim cites any output that its evidence cites"
    ]
    proof = Evidence(id="E1", kind="log", citation=checks[2].citations[0])
    cause = Hypothesis(id="H1", statement="s", rank=1, predictions=[],
                       links=[EvidenceLink(evidence="E1", prediction="P1", matched=True)])  # fmt: skip
    case.ledger.apply(EvidenceAdded(evidence=proof))
    case.ledger.apply(HypothesisMoved(hypothesis=cause))
    assert problems(conclusion, checks, case.ledger) == []
    broken = case.conclusion(SETTING | {"value": "false"}, EVENT, causes=["H1"])
    checks = check(broken, case.artifacts, case.store, case.calls, case.ledger)
    assert problems(broken, checks, case.ledger) == [
        "claim 0: setting: the quote in t1.1 does not give disable_cuda_graph the value false"
    ]
