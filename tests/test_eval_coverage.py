"""Coverage: what was asked of a lab host and is not told by its scenario, each once, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.events import ToolFinished
from evals.coverage import not_recorded


def finished(tool: str, **view: Any) -> ToolFinished:
    return ToolFinished(turn=1, call="t1", tool_call_id="c1", tool=tool, status="ok", view=json.dumps(view))


def ran(command: str, stdout: str = "", stderr: str = "", exit_code: int = 0) -> ToolFinished:
    return finished("run", command=command, stdout=stdout, stderr=stderr, exit_code=exit_code)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ran("rocm-smi", stderr="sh: 1: rocm-smi: not found\n", exit_code=127), ["command rocm-smi"]),
        (ran("dcgmi dmon", stderr="bash: line 1: dcgmi: command not found\n"), ["command dcgmi"]),
        (ran("ipmitool sdr", exit_code=127), ["command ipmitool"]),
        (
            ran("cat /etc/nvidia.conf", stderr="cat: /etc/nvidia.conf: No such file or directory\n"),
            ["path /etc/nvidia.conf"],
        ),
        (
            ran(
                "ls /x /y",
                stderr="ls: cannot access '/x': No such file or directory\n"
                "ls: cannot access '/y': No such file or directory",
            ),
            ["path /x", "path /y"],
        ),
        (finished("read_file", error="/opt/x.py does not exist"), ["path /opt/x.py"]),
        (finished("grep", error="/opt/y on lab:a#b does not exist"), ["path /opt/y"]),
        (
            ran("curl -s http://127.0.0.1:30000/debug/vars", stdout='{"detail": "Not Found"}'),
            ["address /debug/vars"],
        ),
        (
            ran("curl -sf http://127.0.0.1:30000/v2/x", stderr="curl: (22) The URL returned error: 404"),
            ["address /v2/x"],
        ),
        (ran("grep -c 404 /var/log/a", stdout="error 404 was seen\n"), []),
        (ran("uptime", stdout="up 3 days"), []),
        (finished("read_file", error="/etc is a folder; search it with grep or list it with run"), []),
        (finished("hypothesis", error="H1 does not exist"), []),
        (ran("curl -s http://127.0.0.1:30000/metrics", stdout="sglang:num_requests_total 404\n"), []),
        (ran("curl -si http://127.0.0.1:30000/a/b", stdout="HTTP/1.1 404 Not Found\n"), ["address /a/b"]),
    ],
)
def test_gaps_are_named(event: ToolFinished, expected: list[str]) -> None:
    assert not_recorded([event]) == expected


def test_a_gap_is_named_once_and_a_view_that_is_no_json_says_nothing() -> None:
    again = ran("rocm-smi", stderr="sh: 1: rocm-smi: not found\n", exit_code=127)
    cut = again.model_copy(update={"view": "{ [cut: about 3 of 9 characters shown]"})
    assert not_recorded([again, again, cut]) == ["command rocm-smi"]
