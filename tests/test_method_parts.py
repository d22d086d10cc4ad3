"""Parts of the built-in method: where a flag stands, what counts as support, what may be promised."""

from __future__ import annotations

from typing import Any

import pytest

from agent.checks import evaluate
from agent.models.effect import applicable, fill, promise
from agent.models.launch import differences, places, standing, written_reason
from agent.models.method import Case, Lead, select
from agent.models.proposing import demand, plans_of
from agent.models.views import Facts, Quote, find_quote
from agent.models.weighing import check_matches, weigh
from agent.state import RatioCheck
from prompts.playbooks import ChangeTemplate, Limit, Playbook, Prediction, load_all

UNIT = """# /etc/systemd/system/s.service
[Service]
Environment="EXTRA=--disable-overlap-schedule"
# for sm120
ExecStart=/opt/python -m sglang.launch_server \\
    --disable-cuda-graph \\
    --port 1
"""
DROPIN = """
# /etc/systemd/system/s.service.d/10.conf
# ticket 7
[Service]
ExecStart=
ExecStart=/opt/python -m sglang.launch_server --disable-cuda-graph
"""


def facts(**service: Any) -> Facts:
    row = {"unit": "s.service", **service}
    return Facts({"services": [row], "engines": []}, {"unit": "s.service", "pid": 7, "engine": "sglang"})


def test_a_flag_is_found_in_its_file_and_a_reset_undoes_what_stood_before() -> None:
    assert [(place.path, place.line) for place in places("--disable-cuda-graph", UNIT)] == [
        ("/etc/systemd/system/s.service", 5)
    ]
    (last,) = places("--disable-cuda-graph", UNIT + DROPIN)
    assert (last.path, last.line) == ("/etc/systemd/system/s.service.d/10.conf", 4)
    assert [place.line for place in places("--disable-overlap-schedule", UNIT + DROPIN)] == [2]


def test_the_comment_above_the_flag_is_what_may_say_why() -> None:
    first = written_reason("--disable-cuda-graph", "disable_cuda_graph", UNIT)
    second = written_reason("--disable-cuda-graph", "disable_cuda_graph", UNIT + DROPIN)
    assert first is not None and first.text == "# for sm120"
    assert second is not None and second.text == "# ticket 7"
    assert written_reason("--x", "x", "# /a\n[Service]\nExecStart=/b --x\n") is None


def test_a_flag_that_only_the_process_has_is_said_so() -> None:
    stale = standing("--enforce-eager", facts(need_daemon_reload=True), UNIT)
    assert "daemon-reload" in stale
    assert "EnvironmentFile" in standing("--enforce-eager", facts(), UNIT)
    rows = ["disable_overlap_schedule=True in the process, not in the unit", "tp_size=8 in the process"]
    assert differences(facts(differs=rows), UNIT) == rows[1:]


def prediction(name: str, kind: str) -> Prediction:
    check = {"kind": "text", "pattern": "x"}
    return Prediction.model_validate(
        {
            "id": name,
            "favours": "for",
            "says": "s",
            "check": check,
            "probe": "source",
            "find": "x",
            "kind": kind,
        }
    )


def test_source_alone_supports_no_cause_of_a_host() -> None:
    found = {name: Quote("t1.1", "x") for name in ("P1", "P2")}
    source, log = prediction("P1", "source"), prediction("P2", "log")
    assert not weigh([source], found).holds([]) and not weigh([source], found).evidence([])
    assert weigh([source, log], found).holds(["P2"])
    assert not weigh([source, log], found).holds(["P9"])
    assert len(weigh([source, log], found).evidence([])) == 2


def test_a_cause_may_need_all_of_its_predictions() -> None:
    found = {name: Quote("t1.1", "x") for name in ("P1", "P2")}
    one, two = prediction("P1", "log"), prediction("P2", "log")
    assert weigh([one, two], found).holds([], ["P1", "P2"])
    half = weigh([one, two], {"P1": found["P1"]})
    assert half.holds(["P1", "P2"]) and not half.holds([], ["P1", "P2"])
    assert half.evidence([]) and not half.evidence([], ["P1", "P2"])


@pytest.mark.parametrize(
    ("text", "matches"),
    [("offloaded 16/41 layers", True), ("offloaded 41/41 layers", False), ("offloaded 3/0 layers", False)],
)
def test_a_check_may_hold_two_numbers_against_each_other(text: str, *, matches: bool) -> None:
    check = {"kind": "ratio", "pattern": r"offloaded (\d+)/(\d+)", "op": "<", "value": 1.0}
    assert check_matches(check, text) is matches
    assert evaluate(RatioCheck.model_validate(check), text, text, None) is matches, "the ledger agrees"


def test_the_demand_counts_who_runs_and_who_waits_on_every_worker() -> None:
    line = "Decode batch, #running-req: {}, token usage: 0.01, cuda graph: True, #queue-req: {}"
    view = {
        "artifact": "t1.1",
        "stdout": "\n".join([line.format(6, 14), line.format(5, 0), "#queue-req: 99"]),
    }
    case = Case("slow", Facts({}, {"flags": {"dp_size": "8"}}), [], probes={"b.queue": view})
    assert demand(case) == 256
    assert demand(Case("slow", Facts({}, {}), [], probes={"b.queue": view})) == 32
    assert demand(Case("slow", Facts({}, {}), [])) == 1


@pytest.mark.parametrize(
    ("limits", "processors"),
    [
        ({}, None),
        ({"AllowedCPUs": "0-3 8"}, 5),
        ({"CPUQuotaPerSecUSec": "1.500000s"}, 1.5),
        ({"CPUQuotaPerSecUSec": "500ms", "AllowedCPUs": "0"}, 0.5),
        ({"CPUQuotaPerSecUSec": "400%", "AllowedCPUs": "0-15"}, 4),
        ({"TasksMax": "9"}, None),
    ],
)
def test_a_unit_says_how_many_processors_it_may_use(limits: Any, processors: float | None) -> None:
    runner = {"pid": 8, "argv": ["/bin/ollama", "runner", "--threads", "5", "--port", "1"]}
    engine = {"unit": "s.service", "engine": "ollama", "flags": {}, "runners": [runner], "port": 11434}
    seen = Facts({"services": [{"unit": "s.service", "limits": limits}]}, engine)
    assert seen.processors == processors
    assert (seen.flags["threads"], seen.values()["port"]) == ("5", "11434")
    books = [book.name for book in select(load_all(), seen, "seconds for a token")]
    crowded = processors is not None and processors < 5
    assert ("ollama-threads-above-processors" in books) is crowded


def test_a_variable_is_taken_out_where_it_is_set_last() -> None:
    book = next(book for book in load_all() if book.name == "cards-hidden")
    unit = "# /u/s.service\n[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=0,1\n"
    unit += "# /u/s.service.d/o.conf\n[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=1\n"
    engine = {"unit": "s.service", "pid": 7, "environ": {"CUDA_VISIBLE_DEVICES": "1"}}
    case = Case("slow", Facts({}, engine), [], unit_text={"stdout": unit})
    (plan,) = plans_of(case, Lead(book, "H1"), first=True)
    assert (plan["setting"], plan["from_value"], plan["to_value"]) == ("CUDA_VISIBLE_DEVICES", "1", None)
    assert "/u/s.service.d/o.conf line 2" in plan["reason"]
    hidden = Case("slow", Facts({}, {**engine, "environ": None}), [], unit_text={"stdout": unit})
    assert list(plans_of(hidden, Lead(book, "H1"), first=True)) == [], "its value is not known"


@pytest.mark.parametrize("book", load_all(), ids=lambda book: book.name)
def test_every_cause_can_be_told_by_something_of_the_host(book: Playbook) -> None:
    kinds = {one.kind for one in book.predictions if one.favours == "for"}
    assert kinds - {"source"}
    assert {one.favours for one in book.predictions} == {"for", "against"}


def test_a_promise_starts_from_what_was_measured_and_stays_below_the_ceiling() -> None:
    change = {"setting": "--x", "predicted_effect": "", "mechanism": "", "reason": "", "ratio": [1.5, 2.5]}
    template, limit = ChangeTemplate.model_validate(change), Limit(says="", ceiling_tok_s=49)
    assert "from 24 tok/s at one request to 36 to 49 tok/s" in promise(
        template, {"tok_one": "24"}, [limit], first=True
    )
    assert promise(template, {}, [limit], first=True) == ""
    assert promise(template, {"tok_one": "24"}, [limit], first=False) == ""


def test_a_limit_is_about_a_model_and_waits_for_what_it_names() -> None:
    kimi = Facts({}, {"flags": {"model_path": "/models/Kimi-K2.6"}})
    limits = [Limit(says="a", where="kimi[-_]?k2"), Limit(says="b", where="llama")]
    assert [one.says for one in applicable(limits, kimi)] == ["a"]
    assert fill("{watts_one} W", {}) is None and fill("{watts_one} W", {"watts_one": "86"}) == "86 W"


def test_the_engine_that_the_symptom_names_is_looked_at() -> None:
    engines = [
        {"pid": 1, "engine": "vllm", "port": 8000, "unit": "a.service", "flags": {}},
        {"pid": 2, "engine": "sglang", "port": 30001, "unit": "b.service", "flags": {"pp_size": "8"}},
    ]
    assert Facts.of({"engines": engines}, "slow").pid == 1
    assert Facts.of({"engines": engines}, "PP8 is slow").pid == 2
    assert Facts.of({"engines": engines}, "port 30001 is slow").pid == 2
    assert Facts.of({"engines": engines}, "PP8 is slow").others == ["vllm in a.service (pid 1)"]


def test_a_log_file_shows_its_fullest_and_its_newest_line() -> None:
    view = {"artifact": "t1.1", "stdout": "#running-req: 2, a\n#running-req: 12, b\n#running-req: 1, c\n"}
    fullest, newest = find_quote([view], "@highest running"), find_quote([view], "@newest running")
    assert fullest is not None and fullest.text.endswith("b")
    assert newest is not None and newest.text.endswith("c")
