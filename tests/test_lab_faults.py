"""Faults of hosts in the lab: units that were not loaded, tenants, slowdowns, lost GPUs, full disks."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.lab import tenants
from evals.lab.described_rules import Machine, merged
from evals.lab.hosts import Lab
from evals.lab.inside.limits import numbers
from evals.lab.inside.nvidia_smi import NvidiaSmi
from evals.lab.scenario import Scenario, load
from tests.lab_fixtures import lab_settings, running, said, ssh
from tests.test_lab_standins import HARDWARE, Printed

CARD = {"power_w": 268.0, "utilization": 99, "memory_used_mib": 900, "sm_clock_mhz": 1005, "pstate": "P1"}


async def smi(
    folder: Path, argv: list[str], hardware: Mapping[str, Any], **row: Any
) -> tuple[int, list[str]]:
    """Run the stand-in of nvidia-smi for a host of two GPUs of which this process uses the first."""
    rows = [{"index": 0, **CARD, **row}, {"index": 1, "memory_used_mib": 3}]
    path = folder / "engine.json"
    path.write_text(json.dumps({"pid": os.getpid(), "phase": "serving", "gpus": rows}))
    printed = Printed()
    code = await NvidiaSmi({**HARDWARE, **hardware}, path).run(argv, printed)
    return code, printed.stdout.splitlines()


async def test_reasons_for_lower_clocks_show_in_every_form(tmp_path: Path) -> None:
    row = {
        "reasons": ["hw_power_brake_slowdown", "hw_slowdown"],
        "counted_us": {"hw_power_brake_slowdown": 7},
    }
    ask = ["--query-gpu=clocks_event_reasons.active,clocks_event_reasons.hw_power_brake_slowdown"]
    _, lines = await smi(tmp_path, [*ask, "--format=csv,noheader"], {}, **row)
    assert lines == ["0x0000000000000088, Active", "0x0000000000000001, Not Active"]
    _, lines = await smi(tmp_path, ["-q", "-d", "PERFORMANCE", "-i", "0"], {}, **row)
    text = re.sub(" +", " ", "\n".join(lines))
    assert "HW Power Brake Slowdown : Active" in text
    assert "HW Thermal Slowdown : Not Active" in text
    assert "HW Power Braking : 7 us" in text


async def test_a_lost_gpu_spoils_every_question_but_one_for_another(tmp_path: Path) -> None:
    lost = {"lost": [1]}
    message = "Unable to determine the device handle for GPU 0000:11:00.0: Unknown Error"
    assert await smi(tmp_path, [], lost) == (15, [message])
    code, lines = await smi(tmp_path, ["-L"], lost)
    assert (code, len(lines), lines[1]) == (15, 2, message)
    code, lines = await smi(tmp_path, ["-i", "0", "--query-gpu=index", "--format=csv,noheader"], lost)
    assert (code, lines) == (0, ["0"])


async def test_only_processes_that_hold_memory_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader"]
    assert (await smi(tmp_path, ask, {}))[1] == [f"{os.getpid()}, 896 MiB"]
    other = tenants.Tenant(4242, 1, 500, utilization=64, power_w=120.0)
    monkeypatch.setattr(tenants, "present", lambda hardware: [other])
    assert (await smi(tmp_path, ask, {}))[1] == [f"{os.getpid()}, 896 MiB", "4242, 500 MiB"]
    ask = ["--query-gpu=memory.used,utilization.gpu,power.draw", "--format=csv,noheader", "-i", "1"]
    assert (await smi(tmp_path, ask, {}))[1] == ["503 MiB, 64 %, 120.00 W"]


def test_tenants_are_found_by_their_command_line(tmp_path: Path) -> None:
    for pid, line in (("7", b"python3\0/srv/train.py\0"), ("8", b"sleep\0001\0"), ("x", b"/srv/train.py")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(line)
    wanted = [
        {"process": "train.py", "gpu": 0, "memory_mib": 9},
        {"process": "gone", "gpu": 1, "memory_mib": 9},
    ]
    assert tenants.present({"tenants": wanted}, tmp_path) == [tenants.Tenant(7, 0, 9)]
    assert tenants.present({}, tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("text", "found"), [("0-1", {0, 1}), ("0-2 8,10", {0, 1, 2, 8, 10}), ("", set()), ("all", set())]
)
def test_lists_of_processors(text: str, found: set[int]) -> None:
    assert numbers(text) == found


def test_rules_may_ask_for_processors_and_for_files_in_a_folder_that_is_a_value(tmp_path: Path) -> None:
    def machine(unit: dict[str, str], folder: Path) -> Machine:
        return Machine(["x"], {"CACHE": str(folder)}, unit, {"cpus": 32}, {"folder": ["$CACHE", "~/.nv"]})

    one = machine({"AllowedCPUs": "0-1"}, tmp_path)
    assert (one.of("allowed_cpus"), machine({}, tmp_path).of("allowed_cpus")) == (2, 32)
    assert one.holds({"{folder}/index": False})
    (tmp_path / "index").write_text("there")
    assert machine({}, tmp_path).holds({"{folder}/index": True})
    rules: list[dict[str, Any]] = [
        {"writes": {"{folder}/a": 1}},
        {"writes": {}},
        {"writes": {"{folder}/b": 2}},
    ]
    assert merged(rules, one)["writes"] == {"{folder}/a": 1, "{folder}/b": 2}


ANSWERS = "until curl -sf -o /dev/null 127.0.0.1:{port}/v1/models; do sleep 0.1; done"


def restarted(lab: Lab, unit: str, port: int) -> None:
    """Load the units again, restart one, and return when its server answers."""
    said(lab, f"systemctl daemon-reload && systemctl restart {unit} && {ANSWERS.format(port=port)}")


def crowd(lab: Lab, port: int, model: str, expected: list[str]) -> list[str]:
    """Ask four times at once, and return what the server says of itself: as expected, or at the limit."""
    body = json.dumps({"model": model, "prompt": "Tell of the sea.", "max_tokens": 120, "ignore_eos": True})
    ask = f"curl -s -o /dev/null 127.0.0.1:{port}/v1/completions -d '{body}' & "
    look = f"curl -s 127.0.0.1:{port}/metrics | sed -nE 's/^llamacpp:requests_(processing|deferred) //p'"
    # A request that has arrived waits a moment before a slot takes it: the counts settle first.
    until = f'[ "$seen" = "{" ".join(expected)}" ]'
    rounds = f"for i in $(seq 200); do seen=$(echo $({look})); {until} && break; sleep 0.05; done"
    return said(lab, f'{ask * 4} {rounds}; echo "$seen"; wait').split()


@pytest.mark.lab
@pytest.mark.slow
def test_an_edited_unit_runs_once_it_is_loaded(tmp_path: Path) -> None:
    with running("qwen14-3090", lab_settings(tmp_path)) as lab:
        show = "systemctl show llama-office -p NeedDaemonReload --value"
        slots = "tr '\\0' ' ' </proc/$(systemctl show llama-office -p MainPID --value)/cmdline"
        assert said(lab, show) == "yes\n"
        assert "--parallel 4" in said(lab, "cat /etc/systemd/system/llama-office.service")
        said(lab, f"systemctl restart llama-office && {ANSWERS.format(port=8080)}")
        assert "--parallel 1 " in said(lab, slots)
        assert crowd(lab, 8080, "qwen2.5-14b", ["1.0", "3.0"]) == ["1.0", "3.0"]
        restarted(lab, "llama-office", 8080)
        assert said(lab, show) == "no\n"
        assert "--parallel 4 " in said(lab, slots)
        assert crowd(lab, 8080, "qwen2.5-14b", ["4.0", "0.0"]) == ["4.0", "0.0"]


@pytest.mark.lab
@pytest.mark.slow
def test_a_tenant_takes_memory_until_it_ends(tmp_path: Path) -> None:
    apps = "nvidia-smi --query-compute-apps=process_name,used_memory --format=csv,noheader"
    offload = "journalctl -u ollama -n 20 -o cat | grep -o 'offloaded [0-9/]*' | tail -1"
    with running("ollama-4090-shared", lab_settings(tmp_path)) as lab:
        assert set(said(lab, apps).splitlines()) == {"python3, 17980 MiB", "/usr/local/bin/ollama, 5196 MiB"}
        assert said(lab, offload) == "offloaded 16/41\n"
        said(lab, "systemctl stop vision-finetune")
        restarted(lab, "ollama", 11434)
        assert said(lab, apps) == "/usr/local/bin/ollama, 10296 MiB\n"
        assert said(lab, offload) == "offloaded 41/41\n"


@pytest.mark.lab
@pytest.mark.slow
def test_a_power_brake_shows_under_load_and_in_its_counter(tmp_path: Path) -> None:
    counter = "nvidia-smi -q -d PERFORMANCE | awk '/HW Power Braking/ {print $(NF-1)}'"
    query = "nvidia-smi --query-gpu=clocks_event_reasons.active,clocks.sm --format=csv,noheader"
    with running("gptoss-6000", lab_settings(tmp_path)) as lab:
        before = int(said(lab, counter))
        assert said(lab, query) == "0x0000000000000001, 180 MHz\n"
        body = json.dumps({"model": "gpt-oss-120b", "prompt": "Sea", "max_tokens": 400, "ignore_eos": True})
        ssh(lab, f"curl -s 127.0.0.1:8080/v1/completions -d '{body}' >/dev/null 2>&1 </dev/null &")
        deadline = time.monotonic() + 20
        while "1005 MHz" not in (seen := said(lab, query)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert seen == "0x0000000000000088, 1005 MHz\n"
        assert int(said(lab, counter)) > before > 0


def quick() -> Scenario:
    """Return the host with the full cache folder; its first start is shortened."""
    rules = {"always": {"ready_s": 0.2}, "first-time": {"silent_s": 0.1}}
    return load("qwen32-5090").mutate({"services": {"llama-server.service": {"rules": rules}}})


@pytest.mark.lab
@pytest.mark.slow
def test_nothing_is_kept_on_a_full_disk_and_all_of_it_elsewhere(tmp_path: Path) -> None:
    with running(quick(), lab_settings(tmp_path)) as lab:
        assert said(lab, "df --output=pcent /data/cache").split()[1] == "100%"
        assert said(lab, "find /data/cache/nv -type f") == ""
        edit = "sed -i '/CUDA_CACHE_PATH/d' /etc/systemd/system/llama-server.service"
        said(lab, edit)
        restarted(lab, "llama-server", 8080)
        kept = said(lab, "cd ~/.nv/ComputeCache && find . -type f | sort").split()
        assert kept == ["./0/9c2e41/kernels.bin", "./index"]
