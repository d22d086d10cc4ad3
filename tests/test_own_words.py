"""What a command prints because the model told it to is no evidence; what the host says is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.own_words import refuse_own_words
from tests.test_verifier import Case
from tools.contract import ArtifactRef, ToolError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ref(command: str) -> ArtifactRef:
    return ArtifactRef(handle="t1.1", sha256="0" * 64, size=1, label=command, host="h", taken_at=NOW)


@pytest.mark.parametrize(
    "command",
    [
        "echo 'cuda graph: False'",
        "printf 'cuda gra%s: False' ph",
        "cat /var/log/x | echo 'cuda graph: False'",
        "/bin/echo 'cuda graph: False'",
        "date '+cuda graph: False'",
        "date '+cuda gra%%ph'",
        "stat '-ccuda graph' /",
        "stat -c 'cuda graph: False' /",
        "stat '--printf=cuda graph: False' /",
        "find / -maxdepth 0 -printf 'cuda graph: False'",
        "curl -s -w 'cuda graph: False' http://127.0.0.1:30000/health",
        "basename '/cuda graph: False'",
        "ps -ef | grep 'cuda graph: False'",
        "ps -o pid=CUDA",
        "cat /proc/self/cmdline 'cuda graph: False'",
        "jq -n '\"cuda graph: False\"'",
        "jq '24.4' /etc/x.json",
        "jq '{cuda: 1}' /etc/x.json",
        "ls 'cuda graph: False' (stderr)",
        "cut -d: -f1 '--output-delimiter=cuda graph: False' /etc/passwd",
    ],
)
def test_words_of_the_model_are_refused(command: str) -> None:
    with pytest.raises(ToolError):
        refuse_own_words("run", ref(command), "cuda graph: False")


@pytest.mark.parametrize(
    ("command", "quote"),
    [
        ("grep 'cuda graph: False' /var/log/x", "cuda graph: False"),
        ("systemctl is-active x", "active"),
        ("journalctl -u x | grep 'cuda graph: False'", "cuda graph: False, gen throughput"),
        ("nvidia-smi -q", "85.0 W"),
        ("date '+%F %T'", "2026-01-01"),
        ("stat -c '%s %n' /etc/x", "12"),
        ("ps -eo pid,args", "sglang.launch_server"),
        ("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:30000/health", "200"),
        ("ps aux --sort=-rss", "sglang.launch_server"),
        ("ps -eo pid= --sort=-rss", "17"),
        ("date --iso-8601=seconds", "2026-01-01"),
        ("curl -s http://127.0.0.1:30000/server_info | jq '.pp_size'", "8"),
        ("jq -r '.architectures[0]' /opt/x.json", "Kimi"),
        ("find /opt -name '*.so' -printf '%p %s\\n'", "/opt/x.so 12"),
    ],
)
def test_words_of_the_host_are_evidence(command: str, quote: str) -> None:
    refuse_own_words("run", ref(command), quote)


def test_other_tools_print_no_words_of_a_model() -> None:
    refuse_own_words("grep", ref("echo 'x'"), "x")


def test_a_claim_on_an_echo_fails(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add("t9", "run", b"cuda graph: False\n", label="echo 'cuda graph: False'")
    claim = {"type": "log_event", "says": "x", "cite": {"artifact": "t9.1", "quote": "cuda graph: False"}}
    assert case.check(claim).status == "unverified"
