"""Hosts of the SGLang cases, brought up: what an investigator is to find there is really to be seen."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from agent.config import Settings
from evals.lab.hosts import Lab
from tests.lab_fixtures import lab_settings, running, said

pytestmark = [pytest.mark.lab, pytest.mark.slow]

UNIT = "sglang.service"
RUNNING = re.compile(r"#running-req: (\d+)")


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return lab_settings(tmp_path_factory.mktemp("sglang"))


def server_info(lab: Lab) -> dict[str, Any]:
    """Return what the server reports of itself."""
    info: dict[str, Any] = json.loads(said(lab, "curl -s -m 10 http://127.0.0.1:30000/server_info"))
    return info


def journal(lab: Lab, pattern: str, unit: str = UNIT) -> list[str]:
    """Return the lines of the unit's journal that hold a pattern."""
    text = said(lab, f"journalctl -u {unit} --no-pager -o cat | grep -E {shlex.quote(pattern)} || true")
    return text.splitlines()


def ask(lab: Lab, count: int, tokens: int) -> str:
    """Send requests side by side from the host itself and return the answers."""
    body = {"model": "x", "prompt": "drop the lead", "max_tokens": tokens, "ignore_eos": True}
    curl = "curl -s -m 60 -H 'content-type: application/json' http://127.0.0.1:30000/v1/completions -d"
    return said(lab, f"for i in $(seq {count}); do {curl} {shlex.quote(json.dumps(body))} & done; wait")


def test_overlap_is_given_up_by_a_rule_and_comes_back_without_the_prefix_cache(settings: Settings) -> None:
    with running("lfm2-5090", settings) as lab:
        info = server_info(lab)
        assert (info["disable_overlap_schedule"], info["disable_cuda_graph"]) == (True, False)
        assert journal(lab, "Disabling overlap schedule since mamba no_buffer")
        ask(lab, 1, 90)
        assert re.search(
            r"#full token: \d+.*mamba num: 1.*cuda graph: True", journal(lab, "Decode batch")[-1]
        )
        assert "{document}" in said(lab, "cat /srv/extract/prompt.txt")
    with running("lfm2-5090-unshared", settings) as lab:
        info = server_info(lab)
        assert (info["disable_overlap_schedule"], info["disable_radix_cache"]) == (False, True)
        assert journal(lab, "Prefill batch.*#cached-token: 0,")


def test_drafts_leave_six_requests_to_a_worker_and_the_rest_wait(settings: Settings) -> None:
    with running("deepseek-h200-eagle", settings) as lab:
        info = server_info(lab)
        assert (info["max_running_requests"], len(info["internal_states"])) == (48, 8)
        states = info["internal_states"]
        assert {state["effective_max_running_requests_per_dp"] for state in states} == {6}
        assert journal(lab, "Max running requests is reset to 48")
        ask(lab, 60, 300)
        lines = [line for line in journal(lab, "DP[0-9] TP[0-9]. Decode batch") if "accept len: 2.40" in line]
        assert max(int(match[1]) for line in lines if (match := RUNNING.search(line))) == 6
        assert any(re.search(r"#queue-req: [1-9]", line) for line in journal(lab, "(Decode|Prefill) batch"))


def test_a_batch_above_the_captured_range_runs_eagerly(settings: Settings) -> None:
    with running("qwen3-l40", settings) as lab:
        info = server_info(lab)
        assert info["cuda_graph_max_bs"] == max(info["cuda_graph_bs"]) == 32
        assert info["internal_states"][0]["effective_max_running_requests_per_dp"] > 2000
        graphs = {
            int(match[1]) > 32: "cuda graph: True" in line
            for line in journal(lab, "Decode batch")
            if (match := RUNNING.search(line))
        }
        assert graphs == {False: True, True: False}


def test_a_prefill_server_captures_nothing_and_takes_no_stray_request(settings: Settings) -> None:
    with running("kimi-k26-tp8-prefill", settings) as lab:
        info = server_info(lab)
        assert (info["disaggregation_mode"], info["disable_cuda_graph"]) == ("prefill", True)
        unit = "sglang-kimi.service"
        assert journal(lab, "Cuda graph is disabled for prefill server", unit)
        assert "without bootstrap room id" in ask(lab, 1, 4)
        assert not journal(lab, "Decode batch", unit)


def test_the_flag_stands_in_the_dropin_alone(settings: Settings) -> None:
    with running("kimi-k26-pp8-dropin", settings) as lab:
        folder = "/etc/systemd/system/sglang-kimi.service"
        assert "--disable-cuda-graph" not in said(lab, f"cat {folder}")
        assert "--disable-cuda-graph" in said(lab, f"cat {folder}.d/20-site.conf")
        info = server_info(lab)
        assert (info["disable_cuda_graph"], info["pp_async_batch_depth"]) == (True, 1)


def test_only_the_first_work_after_a_start_is_slow(settings: Settings) -> None:
    with running("deepseek-h200", settings) as lab:
        assert not journal(lab, "SGLANG_DG_CACHE_DIR")
        assert "SGLANG_DG_CACHE_DIR=/tmp/" in said(lab, f"systemctl cat {UNIT}")
        before = len(journal(lab, "Entering DeepGEMM JIT"))
        ask(lab, 1, 700)
        assert len(journal(lab, "Entering DeepGEMM JIT")) == before + 1
        rates = [
            float(match[1])
            for line in journal(lab, "Decode batch, #running-req: 1,")
            if (match := re.search(r"gen throughput \(token/s\): ([\d.]+)", line))
        ]
        assert rates[-1] > 1.3 * rates[2]
