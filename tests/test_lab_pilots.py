"""Hosts of vLLM and of Ollama, as people and tools see them over SSH."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab.described_engine import Engine
from evals.lab.described_rules import Machine
from evals.lab.hosts import Lab
from evals.lab.scenario import Scenario, load
from tests.lab_fixtures import lab_settings, running, said, ssh, tiny
from tests.service_scenarios import change, plan_of
from tools import registry, service
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolSettings
from tools.host import connect

pytestmark = pytest.mark.lab

SITE = "/opt/vllm/venv/lib/python3.11/site-packages"


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running("vllm-enforce-eager", lab_settings(tmp_path_factory.mktemp("vllm"))) as lab:
        yield lab


@pytest.fixture(scope="module")
def ollama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running("ollama-cpu-quota", lab_settings(tmp_path_factory.mktemp("ollama"))) as lab:
        yield lab


def words(lab: Lab, unit: str) -> list[str]:
    pid = said(lab, f"systemctl show -p MainPID --value {unit}").strip()
    return said(lab, f"cat /proc/{pid}/cmdline").rstrip("\0").split("\0")


def launch(scenario: Scenario, unit: str) -> list[str]:
    found = scenario.units[unit].launch
    assert found is not None
    return found.argv


def post(lab: Lab, port: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(body)
    answer: dict[str, Any] = json.loads(said(lab, f"curl -s 127.0.0.1:{port}{path} -d '{text}'"))
    return answer


async def facts(lab: Lab, folder: Path) -> dict[str, Any]:
    host = await connect(lab.target(), Settings(state_dir=folder))
    try:
        store = ArtifactStore(folder / "artifacts")
        context = ToolContext("t1", {host.name: host}, store, lambda data: data, ToolSettings())
        tool = registry.load("facts")
        found: dict[str, Any] = await tool.run(context, tool.args())
        return found
    finally:
        await host.close()


def test_vllm_shows_its_real_command_line_package_and_version(vllm: Lab) -> None:
    argv = words(vllm, "vllm-glm")
    assert argv[0] == "/opt/vllm/venv/bin/python"
    assert argv[1:] == launch(load("vllm-enforce-eager"), "vllm-glm.service")
    assert said(vllm, f"ls -d {SITE}/vllm-*.dist-info").strip() == f"{SITE}/vllm-0.33.0.dist-info"
    source = said(
        vllm, f"grep -n 'if not self.model_config.enforce_eager' {SITE}/vllm/v1/worker/gpu_worker.py"
    )
    assert source.strip()
    assert json.loads(said(vllm, "curl -s 127.0.0.1:8000/version")) == {"version": "0.33.0"}
    assert "vllm:num_requests_running" in said(vllm, "curl -s 127.0.0.1:8000/metrics")
    assert said(vllm, "/opt/vllm/venv/bin/vllm --version") == "0.33.0\n"
    assert "x-leadline-lab: simulated" in said(vllm, "curl -si 127.0.0.1:8000/v1/models")


def test_vllm_answers_and_logs_by_its_rules(vllm: Lab) -> None:
    body = {"model": "glm-5.3-flash", "prompt": "one two", "max_tokens": 8}
    answer = post(vllm, 8000, "/v1/completions", body)
    assert answer["usage"]["completion_tokens"] == 8
    log = said(vllm, "journalctl -u vllm-glm -b --no-pager")
    assert "max_num_scheduled_tokens is set to 2048 based on" in log
    assert "Graph capturing finished" not in log
    assert re.search(r'"POST /v1/completions HTTP/1.1" 200 OK', log)


def test_the_prompt_takes_what_was_published() -> None:
    scenario = load("vllm-enforce-eager")
    described = scenario.services["vllm-glm.service"].model_dump(mode="json", exclude_none=True)
    argv = launch(scenario, "vllm-glm.service")

    def seconds(more: list[str]) -> float:
        from unittest.mock import patch

        with patch.object(Engine, "now", return_value=0.0):
            machine = Machine([*argv, *more], {}, values=described["values"])
            return Engine(described, machine, lambda line: None).prefill_s(32768)

    assert seconds([]) == pytest.approx(20.7, abs=0.1)
    assert seconds(["--max-num-batched-tokens", "4096"]) == pytest.approx(16.4, abs=0.1)


def test_ollama_shows_as_the_program_it_is(ollama: Lab) -> None:
    assert words(ollama, "ollama") == ["/usr/local/bin/ollama", "serve"]
    pid = said(ollama, "systemctl show -p MainPID --value ollama").strip()
    assert said(ollama, f"cat /proc/{pid}/comm") == "ollama\n"
    assert re.search(r"ollama runner .* --threads 8 ", said(ollama, "ps -ef"))
    assert said(ollama, "ollama --version") == "ollama version is 0.32.15\n"
    assert said(ollama, "curl -s 127.0.0.1:11434/") == "Ollama is running"
    assert "llama threadpool init, n_threads = 8" in said(ollama, "journalctl -u ollama -b")


def test_a_host_without_gpus_has_processors_and_a_quota(ollama: Lab) -> None:
    assert said(ollama, "nproc; nproc --all; grep -c ^processor /proc/cpuinfo").split() == ["4", "8", "8"]
    assert said(ollama, "cat /sys/fs/cgroup/system.slice/ollama.service/cpu.max") == "400000 100000\n"
    assert ssh(ollama, "command -v nvidia-smi").returncode != 0


def test_a_request_within_the_quota_is_not_throttled(ollama: Lab) -> None:
    def rate(threads: int, tokens: int) -> float:
        options = {"num_thread": threads, "num_predict": tokens}
        body = {"model": "qwen3:8b", "prompt": "x", "stream": False, "options": options}
        answer = post(ollama, 11434, "/api/generate", body)
        assert answer["eval_count"] == tokens
        return float(1e9 * (tokens - 1) / answer["eval_duration"])

    def throttled() -> int:
        stat = said(ollama, "cat /sys/fs/cgroup/system.slice/ollama.service/cpu.stat")
        return int(re.findall(r"nr_throttled (\d+)", stat)[0])

    fast = rate(4, 6)
    assert throttled() == 0
    slow = rate(8, 2)
    assert throttled() > 0
    assert slow < 1 < fast


async def test_facts_show_the_engine_of_one_and_the_unit_of_the_other(
    vllm: Lab, ollama: Lab, tmp_path: Path
) -> None:
    seen = await facts(vllm, tmp_path)
    (engine,) = seen["engines"]
    assert (engine["engine"], engine["unit"], engine["version"]) == ("vllm", "vllm-glm.service", "0.33.0")
    assert engine["flags"]["enforce_eager"] is True and engine["port"] == 8000
    assert engine["package_root"] == f"{SITE}/vllm"
    assert seen["hardware"]["gpus"][0]["name"] == "NVIDIA GB10"
    other = await facts(ollama, tmp_path)
    (engine,) = other["engines"]
    assert (engine["engine"], engine["unit"]) == ("ollama", "ollama.service")
    assert other["hardware"]["cpus"] == 8
    (unit,) = other["services"]
    assert unit["unit"] == "ollama.service" and unit["exec_start"] == ["/usr/local/bin/ollama", "serve"]
    assert unit["limits"]["AllowedCPUs"] == "0-3"


async def test_a_change_of_ollama_is_applied_and_kept(ollama: Lab, tmp_path: Path) -> None:
    host = await connect(ollama.target(), Settings(state_dir=tmp_path))
    try:
        request = change("ollama.service", "OLLAMA_CONTEXT_LENGTH", None, "8192")
        plan = await plan_of(host, request, 11434, 30)
        applied = await service.apply(host, plan, plan.digest(), lambda line: None)
        assert applied.outcome == "applied", applied
        assert (await service.confirm(host, plan)).outcome == "confirmed"
    finally:
        await host.close()
    assert "OLLAMA_CONTEXT_LENGTH:8192" in said(ollama, "journalctl -u ollama -b")


@pytest.mark.slow
@pytest.mark.timed
def test_a_dropin_without_the_flag_changes_the_pace(tmp_path: Path) -> None:
    scenario = load("vllm-enforce-eager")
    argv = [word for word in launch(scenario, "vllm-glm.service") if word != "--enforce-eager"]
    line = " ".join(f"'{word}'" if "{" in word else word for word in argv)
    text = f"[Service]\nExecStart=\nExecStart={line}\n"
    with running(scenario, lab_settings(tmp_path)) as lab:
        folder = "/etc/systemd/system/vllm-glm.service.d"
        before = pace(lab)
        assert ssh(lab, f"mkdir -p {folder}; cat >{folder}/10-graphs.conf", text.encode()).returncode == 0
        said(lab, "systemctl daemon-reload; systemctl restart vllm-glm")
        said(lab, "until curl -fs 127.0.0.1:8000/health; do sleep 0.1; done")
        assert words(lab, "vllm-glm")[1:] == argv
        assert "Graph capturing finished" in said(lab, "journalctl -u vllm-glm -b")
        assert before / pace(lab) == pytest.approx((203.2 / 3.94) / (82.6 / 4.27), rel=0.25)


def pace(lab: Lab) -> float:
    """Return the seconds of 60 tokens, one request alone."""
    body = json.dumps({"model": "glm-5.3-flash", "prompt": "x", "max_tokens": 60, "ignore_eos": True})
    command = f"curl -s -o /dev/null -w '%{{time_total}}' 127.0.0.1:8000/v1/completions -d '{body}'"
    return float(said(lab, command))


_EXIT = {"text": "Traceback: no {-m}", "code": 3}
FAILS: dict[str, Any] = {
    "units": {
        "web.service": {
            "text": "[Unit]\nDescription=x\n\n[Service]\nExecStart=@LAUNCH@\nRestart=no\n",
            "launch": {"command": "/opt/llama/start.sh", "flags": {"--bind": None, "--directory": None}},
        }
    },
    "ready": None,
    "engine": None,
    "host": {"shm_mib": 64},
    "files": {
        "/opt/llama/start.sh": "#!/bin/sh\nexec /opt/llama/bin/llama-server -m /models/m.gguf --port 8080\n",
        "/root/token": "secret\n",
        "/usr/local/lib/llama/libx.so": "",
    },
    "unreadable": ["/root/token", "/root/.ollama"],
    "services": {
        "web.service": {
            "api": "llamacpp",
            "program": "/opt/llama/bin/llama-server",
            "version": "b9000",
            "model": "m",
            "port": "--port",
            "rules": {
                "always": {"start": "loading {-m}", "ready_s": 0.1},
                "without": {"when": {"/models/m.gguf": False}, "exit": _EXIT},
            },
        }
    },
}


def test_a_wrapper_that_starts_a_program_which_ends_at_start(tmp_path: Path) -> None:
    with running(tiny(FAILS), lab_settings(tmp_path)) as lab:
        said(lab, "until [ $(systemctl show -p SubState --value web) = failed ]; do sleep 0.1; done")
        assert said(lab, "systemctl show -p ExecMainStatus --value web").strip() == "3"
        log = said(lab, "journalctl -u web -b -o cat")
        assert "loading /models/m.gguf\nTraceback: no /models/m.gguf\n" in log
        assert said(lab, "df -h --output=size /dev/shm").split()[1] == "64M"
        assert ssh(lab, "cat /root/token").returncode != 0
        assert ssh(lab, "ls /root/.ollama").returncode != 0
        assert said(lab, "ls /usr/local/lib/llama").strip() == "libx.so"


def test_a_wrapper_that_starts_a_program_which_serves(tmp_path: Path) -> None:
    changes = {**FAILS, "files": {**FAILS["files"], "/models/m.gguf": "GGUF"}}
    ready = {"unit": "web.service", "port": 8080, "path": "/health"}
    with running(tiny({**changes, "ready": ready}), lab_settings(tmp_path)) as lab:
        assert words(lab, "web") == ["/opt/llama/bin/llama-server", "-m", "/models/m.gguf", "--port", "8080"]
        assert json.loads(said(lab, "curl -s 127.0.0.1:8080/props"))["model_path"] == "/models/m.gguf"
        assert ssh(lab, "curl -fs 127.0.0.1:8080/metrics").returncode != 0
        assert said(lab, "/opt/llama/bin/llama-server --version") == "version: b9000\n"
