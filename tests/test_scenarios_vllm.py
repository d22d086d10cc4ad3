"""Hosts of the vLLM cases, brought up: what is to be found there is seen, and what the popular changes do."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable

import pytest

from agent.config import Settings
from evals.lab.hosts import Lab
from tests.lab_fixtures import lab_settings, running, said

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return lab_settings(tmp_path_factory.mktemp("vllm"))


def journal(lab: Lab, unit: str) -> str:
    """Return what a unit has said since its last start."""
    text = said(lab, f"journalctl -u {unit} --no-pager -o cat")
    return text[text.rindex(f"Started {unit}") :]


def until(look: Callable[[], bool], limit_s: float = 30.0) -> None:
    """Wait for what must come."""
    deadline = time.monotonic() + limit_s
    while not look():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.3)


def drop_in(lab: Lab, unit: str, text: str) -> None:
    """Restart a unit with lines of a drop-in of our own."""
    folder = f"/etc/systemd/system/{unit}.d"
    put = f"printf '[Service]\\n%b' {shlex.quote(text)} > {folder}/90-test.conf"
    said(lab, f"mkdir -p {folder} && {put} && systemctl daemon-reload && systemctl restart {unit}")


def launch_with(lab: Lab, unit: str, edit: Callable[[str], str]) -> None:
    """Restart a unit with an edited launch line."""
    text = said(lab, f"cat /etc/systemd/system/{unit}")
    line = re.search(r"^ExecStart=(?:.*\\\n)*.*$", text, re.MULTILINE)
    assert line
    plain = re.sub(r"\\\n\s*", "", line[0])
    assert edit(plain) != plain
    drop_in(lab, unit, f"ExecStart=\n{edit(plain)}\n")


def ends(lab: Lab, unit: str, text: str) -> None:
    """Wait until a unit has ended at its start with a text."""
    until(lambda: text in (log := journal(lab, unit)) and "status=1/FAILURE" in log)


def starts(lab: Lab, unit: str) -> str:
    """Wait until a unit serves; return what it said meanwhile."""
    until(lambda: "Application startup complete." in journal(lab, unit))
    return journal(lab, unit)


def test_a_document_as_long_as_the_pool_is_read_for_ever(settings: Settings) -> None:
    unit = "vllm.service"
    with running("vllm-hybrid-5090", settings) as lab:
        metrics = "curl -s http://127.0.0.1:8000/metrics"
        until(lambda: 'reason="capacity"} 1.0' in said(lab, metrics))
        assert "1.01x" in journal(lab, unit)
        until(
            lambda: "generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 1" in journal(lab, unit)
        )
        text = said(lab, metrics)
        assert re.search(r"^vllm:num_preemptions_total\{.*\} 0\.0$", text, re.MULTILINE)
        assert re.search(r"^vllm:generation_tokens_total\{.*\} 0\.0$", text, re.MULTILINE)
        for share, refusal in (("0.955", "To serve at least one request"), ("0.98", "Free memory on device")):
            launch_with(lab, unit, lambda line, share=share: line.replace("0.9585", share))  # type: ignore[misc]
            ends(lab, unit, refusal)
        launch_with(lab, unit, lambda line: line.replace("--max-model-len 262144", "--max-model-len 16384"))
        starts(lab, unit)
        until(lambda: "64 tokens after" in said(lab, "journalctl -u digest.service --no-pager -o cat"))


def test_eight_ranks_do_not_fit_into_the_small_shared_memory(settings: Settings) -> None:
    unit = "vllm.service"
    with running("vllm-rented-tp8", settings) as lab:
        assert re.search(r"^tmpfs\s+64M\s", said(lab, "df -h /dev/shm"), re.MULTILINE)
        ends(lab, unit, "posix_fallocate failed : No space left on device")
        launch_with(lab, unit, lambda line: f"{line} --disable-custom-all-reduce")
        ends(lab, unit, "posix_fallocate failed")
        launch_with(
            lab, unit, lambda line: line.replace("--tensor-parallel-size 8", "--tensor-parallel-size 4")
        )
        starts(lab, unit)
        drop_in(lab, unit, "TemporaryFileSystem=/dev/shm:size=16G\n")
        assert "tensor_parallel_size=8" in starts(lab, unit)


def test_without_the_flag_the_capture_ends_the_start(settings: Settings) -> None:
    unit = "vllm-deepseek.service"
    with running("vllm-deepseek-eager", settings) as lab:
        launch_with(lab, unit, lambda line: line.replace(" --enforce-eager", ""))
        ends(lab, unit, "operation not permitted when stream is capturing")
        launch_with(
            lab,
            unit,
            lambda line: line.replace(" --enforce-eager", " --max-cudagraph-capture-size 1"),
        )
        ends(lab, unit, "operation not permitted when stream is capturing")


def test_a_variable_taken_out_is_gone_from_the_process(settings: Settings) -> None:
    with running("vllm-kimi-k25", settings) as lab:
        unit = "vllm-kimi.service"
        assert "via SHM/direct" in journal(lab, unit)
        drop_in(lab, unit, "UnsetEnvironment=NCCL_P2P_DISABLE\n")
        log = starts(lab, unit)
        assert "via P2P/IPC" in log and "via SHM" not in log
        environ = said(lab, f"tr '\\0' '\\n' < /proc/$(systemctl show -p MainPID --value {unit})/environ")
        assert "HF_HUB_OFFLINE=1" in environ and "NCCL_P2P_DISABLE" not in environ
    with running("vllm-pod-env", settings) as lab:
        ends(lab, "vllm.service", "appears to be a URI")
        launch_with(lab, "vllm.service", lambda line: line.replace("--port 8000", "--port 8001"))
        ends(lab, "vllm.service", "appears to be a URI")
        drop_in(lab, "vllm.service", "UnsetEnvironment=VLLM_PORT\n")
        starts(lab, "vllm.service")
