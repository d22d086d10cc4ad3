"""The simulated engine as a process: pace, log, API, metrics, hazards and its end."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from evals.lab.engine_facts import Scenario
from evals.lab.simulator_launch import Launch
from evals.lab.simulator_log import EngineLog
from evals.lab.simulator_startup import StartFailed, Startup
from evals.lab.simulator_state import GpuState
from evals.lab.simulator_text import TokenStream
from tests.engine_fixtures import (
    Engines,
    Running,
    eager,
    engines,
    graphs,
    quick,
    rate,
    settings_cache,
    shared,
    single,
    stream,
)

__all__ = ["eager", "engines", "graphs", "quick", "settings_cache", "shared", "single"]

pytestmark = pytest.mark.lab

DECODE = re.compile(
    r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d PP0\] Decode batch, #running-req: (?P<running>\d+), #token: \d+, "
    r"token usage: \d\.\d\d, cuda graph: (?P<graph>True|False), gen throughput \(token/s\): [\d.]+, "
    r"#queue-req: (?P<queued>\d+)$",
    re.MULTILINE,
)


def metrics(engine: Running) -> dict[str, float]:
    status, data, _ = engine.ask("GET", "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(data.decode()):
        for sample in family.samples:
            found[sample.name + (":" + sample.labels["mode"] if "mode" in sample.labels else "")] = (
                sample.value
            )
    return found


async def test_pace_is_that_of_the_calibration_table(engines: Engines, eager: Running) -> None:
    fast = engines.start("--max-running-requests", "8")
    alone = await asyncio.gather(rate(eager.port, 1, 30), rate(fast.port, 1, 54))
    assert list(alone) == [pytest.approx(24.4, rel=0.05), pytest.approx(44.3, rel=0.05)]
    together = await asyncio.gather(rate(eager.port, 8, 16), rate(fast.port, 8, 30))
    assert list(together) == [pytest.approx(97.7, rel=0.05), pytest.approx(177, rel=0.05)]
    lines = list(DECODE.finditer(eager.log))
    assert {(m["running"], m["graph"]) for m in lines} == {("1", "False")}
    assert {m["graph"] for m in DECODE.finditer(fast.log)} == {"True"}


async def test_watts_follow_the_load(eager: Running) -> None:
    engine = eager
    await asyncio.sleep(1.3)
    idle = json.loads(engine.state_file.read_text())
    assert idle["phase"] == "serving" and {gpu["power_w"] for gpu in idle["gpus"]} == {65.0}
    asking = asyncio.create_task(stream(engine.port, "watts", 34))
    await asyncio.sleep(1.25)
    busy = json.loads(engine.state_file.read_text())
    assert [gpu["power_w"] for gpu in busy["gpus"]] == [pytest.approx(86.4, abs=2.5)] * 8
    assert {gpu["utilization"] for gpu in busy["gpus"]} <= {5, 6, 7}
    await asking


async def test_the_twin_decodes_all_in_one_micro_batch(engines: Engines) -> None:
    engine = engines.start("--disable-cuda-graph", "--decode-log-interval", "4")
    speed = await rate(engine.port, 8, 14)
    assert speed == pytest.approx(95.6, rel=0.05)
    assert DECODE.findall(engine.log)[-1][0] == "8"
    (state,) = engine.json("GET", "/server_info")["internal_states"]
    assert (state["pp_max_micro_batch_size"], state["effective_max_running_requests_per_dp"]) == (256, 2048)


def test_the_start_is_logged_rank_by_rank(graphs: Running) -> None:
    engine = graphs
    log = engine.log
    assert "Pipeline parallelism is incompatible with overlap schedule." in log
    assert re.search(
        r"^\[[\d: -]+\] server_args=ServerArgs\(model_path='/models/kimi'.*pp_size=8", log, re.MULTILINE
    )
    assert "disable_cuda_graph=False" in log and "pp_async_batch_depth=0" in log
    for rank in range(8):
        for text in (
            "Load weight begin.",
            "Load weight end.",
            "Capture cuda graph begin.",
            "Capture cuda graph end.",
        ):
            assert f" PP{rank}] {text}" in log
    assert "max_total_num_tokens=400000" in log and "max_running_requests=2048" in log
    assert log.index("Capture cuda graph end") < log.index("The server is fired up and ready to roll!")
    (state,) = engine.json("GET", "/server_info")["internal_states"]
    assert state["memory_usage"]["graph"] == 1.1


def test_without_graphs_nothing_is_captured(quick: Running) -> None:
    assert "Capture cuda graph" not in quick.log
    info = quick.json("GET", "/server_info")
    assert info["disable_cuda_graph"] is True and info["version"] == "0.5.11"
    assert info["internal_states"][0]["memory_usage"]["graph"] == 0
    assert info["internal_states"][0]["disable_overlap_schedule"] is True
    assert "simulated" in info["simulated"] and "simulated" in quick.json("GET", "/model_info")["simulated"]


def test_the_old_name_of_server_info_warns(quick: Running) -> None:
    assert quick.json("GET", "/get_server_info").keys() == quick.json("GET", "/server_info").keys()
    assert quick.log.count("Endpoint '/get_server_info' is deprecated") == 1


async def test_streamed_and_whole_answers_agree(quick: Running) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        got = await stream(quick.port, "drop the lead", 20, path=path)
        assert got.finish == "length" and len(got.at) == 20
        assert got.usage is not None and got.usage["completion_tokens"] == 20
        assert got.usage["total_tokens"] == got.usage["prompt_tokens"] + 20
    assert (await stream(quick.port, "drop the lead", 20)).text == quick.text("drop the lead", 20)
    assert quick.text("drop the lead", 20).startswith(quick.text("drop the lead", 5))
    assert quick.text("drop the lead", 20) != quick.text("raise the lead", 20)


def test_sampled_text_depends_on_the_seed(quick: Running) -> None:

    def sample(seed: int) -> str:
        body = {"prompt": "x", "max_tokens": 12, "temperature": 0.8, "seed": seed}
        return str(quick.json("POST", "/v1/completions", body)["choices"][0]["text"])

    assert sample(1) == sample(1) != sample(2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not valid JSON"),
        ([], "must be a JSON object"),
        ({"prompt": ""}, "prompt must be"),
        ({"prompt": "x", "max_tokens": -1}, "max_tokens must be a number"),
        ({"prompt": "x", "stream": "yes"}, "stream must be true or false"),
        ({"prompt": "x", "temperature": "hot"}, "temperature must be a number"),
        ({"prompt": [1] * 300_000}, "longer than the model's context length"),
    ],
)
def test_nonsense_is_a_400(quick: Running, body: Any, said: str) -> None:
    status, data, _ = quick.ask("POST", "/v1/completions", body)
    assert status == 400 and said in json.loads(data)["message"]


def test_other_requests(quick: Running) -> None:
    assert quick.ask("GET", "/health")[0] == 200
    assert quick.ask("GET", "/health_generate")[0] == 200
    status, data, headers = quick.ask("GET", "/nowhere")
    assert (status, json.loads(data), headers["x-leadline-lab"]) == (
        404,
        {"detail": "Not Found"},
        "simulated",
    )
    assert quick.ask("GET", "/v1/completions")[0] == 405
    (card,) = quick.json("GET", "/v1/models")["data"]
    assert (card["id"], card["max_model_len"]) == ("/models/kimi", 131072)
    assert '"GET /nowhere HTTP/1.1" 404 Not Found' in quick.log


def test_bytes_that_are_no_http_end_the_connection(quick: Running) -> None:
    for junk in (b"\x16\x03\x01\x02\x00" * 9 + b"\r\n\r\n", b"GET / SPDY/3\r\n\r\n", b"A" * 70_000):
        with socket.create_connection(("127.0.0.1", quick.port), timeout=10) as raw:
            raw.sendall(junk)
            assert raw.recv(100).startswith(b"HTTP/1.1 4")
    assert quick.ask("GET", "/health")[0] == 200


def test_metrics_tell_graph_steps_from_eager_ones(graphs: Running) -> None:
    engine = graphs
    engine.text("alone", 10)
    first = metrics(engine)
    assert first["sglang:is_cuda_graph"] == 0.0, "0.5.11 exports the gauge and never sets it"
    assert first["sglang:cuda_graph_passes_total:decode_cuda_graph"] == 9.0
    assert first["sglang:cuda_graph_passes_total:decode_none"] == 0.0
    assert first["sglang:generation_tokens_total"] == 10.0
    assert first["sglang:num_running_reqs"] == first["sglang:num_queue_reqs"] == 0.0

    async def pair() -> None:
        await asyncio.gather(*(stream(engine.port, f"two {n}", 10) for n in range(2)))

    asyncio.run(pair())
    assert metrics(engine)["sglang:cuda_graph_passes_total:decode_none"] > 0


def test_a_key_guards_all_but_health_and_metrics(graphs: Running) -> None:
    assert graphs.ask("GET", "/v1/models", authorization="Bearer guess")[0] == 401
    assert graphs.ask("GET", "/v1/models")[0] == 200
    assert graphs.ask("GET", "/metrics", authorization="")[0] == 200
    assert graphs.ask("GET", "/health", authorization="")[0] == 200


async def test_requests_above_the_limit_wait(single: Running) -> None:
    engine = single
    first, second = await asyncio.gather(stream(engine.port, "one", 20), stream(engine.port, "two", 20))
    early, late = sorted((first, second), key=lambda one: one.at[0])
    assert late.at[0] >= early.at[-1]
    assert any(m["queued"] == "1" for m in DECODE.finditer(engine.log))


def test_a_client_that_hangs_up_frees_its_place(single: Running) -> None:
    engine = single
    before = engine.log.count("Prefill batch")
    gone = http.client.HTTPConnection("127.0.0.1", engine.port)
    gone.request(
        "POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 90_000, "ignore_eos": True})
    )
    while engine.log.count("Prefill batch") == before:
        time.sleep(0.02)
    gone.close()
    assert engine.text("next", 2)
    assert "499 Client Closed Request" in engine.log


def test_greedy_text_changes_only_under_the_hazard(quick: Running) -> None:
    fields = quick.json("GET", "/server_info")
    raw = json.loads(quick.facts_file.read_text())
    raw["hazards"] = {"output_changes": {"when": {"pp_async_batch_depth": {"gt": 1}}}}
    changed = [
        Launch.of(Scenario.from_json(raw), {**fields, "pp_async_batch_depth": depth}).output_changed
        for depth in (0, 1, 2)
    ]
    assert changed == [False, False, True]
    usual, other = (
        [made.next() for _ in range(40)]
        for made in (TokenStream(7, "same", changed=False), TokenStream(7, "same", changed=True))
    )
    assert "".join(usual) == quick.text("same", 40) and usual != other
    assert usual[:3] == other[:3]


async def test_greedy_text_strays_only_beside_others(engines: Engines) -> None:
    drifting = engines.start(hazards={"irreproducible": {"fraction": 1.0}})
    alone = [(await stream(drifting.port, "same", 20)).text for _ in range(2)]
    assert alone[0] == alone[1]
    together = [stream(drifting.port, "same", 20) for _ in range(4)]
    texts = {one.text for one in await asyncio.gather(*together)}
    assert len(texts) > 1


def test_a_failing_capture_ends_the_start(engines: Engines) -> None:
    lines = [
        "Scheduler hit an exception: Traceback (most recent call last):",
        "RuntimeError: out of shared memory",
    ]
    hazard = {"capture_fails": {"when": {"attention_backend": "triton"}, "log": lines, "exit": 3}}
    failed = engines.start("--attention-backend", "triton", hazards=hazard, ready=False)
    assert failed.process.wait(20) == 3
    assert f" PP0] {lines[0]}\n{lines[1]}\n" in failed.log
    assert "Capture cuda graph begin" in failed.log and "Capture cuda graph end" not in failed.log
    assert json.loads(failed.state_file.read_text())["phase"] == "stopped"


def test_an_unknown_flag_ends_with_2(engines: Engines) -> None:
    engine = engines.start("--enable-warp-drive", ready=False)
    assert engine.process.wait(20) == 2
    assert engine.log.startswith("usage: ")
    assert "error: unrecognized arguments: --enable-warp-drive" in engine.log


async def test_more_gpus_than_there_are_is_refused(quick: Running) -> None:
    scenario = Scenario.from_json(json.loads(quick.facts_file.read_text()) | {"state_file": ""})
    launch = Launch.of(scenario, {**quick.json("GET", "/server_info"), "tp_size": 2})
    with pytest.raises(StartFailed, match="invalid device ordinal"):
        await Startup(scenario, launch, EngineLog(), GpuState(scenario)).run()


def test_a_port_in_use_is_told(engines: Engines, quick: Running) -> None:
    second = engines.start("--port", str(quick.port), ready=False)
    assert second.process.wait(20) == 1
    assert "error while attempting to bind on address" in second.log


def test_sigterm_while_loading_ends_it_cleanly(engines: Engines) -> None:
    engine = engines.start(ready=False, startup_s=30.0)
    engine.until("Load weight begin")
    ends_cleanly(engine)


def test_sigterm_with_a_request_running_ends_it_cleanly(engines: Engines) -> None:
    engine = engines.start("--decode-log-interval", "1")
    with socket.create_connection(("127.0.0.1", engine.port), timeout=10) as client:
        body = json.dumps({"prompt": "x", "max_tokens": 5000, "ignore_eos": True, "stream": True})
        client.sendall(f"POST /v1/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        engine.until("Decode batch")
        ends_cleanly(engine)


def ends_cleanly(engine: Running) -> None:
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(60) == 0
    assert "Shutting down" in engine.log and "Traceback" not in engine.log
    state = json.loads(engine.state_file.read_text())
    assert state["phase"] == "stopped" and state["gpus"][0]["power_w"] == 65.0
