"""Command lines of engines, unit text, ports and control groups, read as the system reads them."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.unit_texts import UNIT_TEXT
from tools import facts_parse, launch_line, unit_text


@pytest.mark.parametrize(
    ("words", "engine", "expected"),
    [
        ("python -m sglang.launch_server --tp 8 --x=-1 --y -1 --z", "sglang", ("8", "-1", "-1", True)),
        (
            "/v/bin/python3 /v/bin/sglang serve --tensor-parallel-size 8 --x a --x -1 --y -1 --z",
            "sglang",
            None,
        ),
    ],
)
def test_flags_follow_argparse(words: str, engine: str, expected: Any) -> None:
    argv = words.split()
    assert launch_line.engine_of(argv) == engine
    found = launch_line.flags(argv, "sglang")
    assert (found["tp_size"], found["x"], found["y"], found["z"]) == (expected or ("8", "-1", "-1", True))


def test_wrappers_are_not_engines() -> None:
    for words in (
        ["sh", "-c", "python -m sglang.launch_server"],
        ["docker", "run", "image", "python", "-m", "sglang.launch_server"],
        ["vim", "/opt/sglang/launch_server.py"],
        ["python", "-m", "pip", "show", "sglang"],
        [sys.executable, "-c", "import sglang.launch_server"],
    ):
        assert launch_line.engine_of(words) is None
    vllm = ["/v/bin/python", "/v/bin/vllm", "serve", "some/model", "--port", "9000"]
    assert launch_line.engine_of(vllm) == "vllm"
    flags = launch_line.flags(vllm, "vllm")
    assert flags == {"model": "some/model", "port": "9000"} and launch_line.port_of(flags, "vllm") == 9000


def test_secret_flags_are_hidden_and_like_named_ones_are_not() -> None:
    argv = ["x", "--hf-token", "a", "--api-key=b", "--tokenizer-path", "c", "--max-total-tokens", "5"]
    assert launch_line.mask(argv)[2] == launch_line.HIDDEN and launch_line.mask(argv)[4:] == argv[4:]
    text = "ExecStart=x --api-key abc --tokenizer-path t \\\n  --admin-api-key=xyz\n"
    assert launch_line.mask_text(text).count(launch_line.HIDDEN) == 2
    assert launch_line.mask_text(text).count("\n") == text.count("\n") and "abc" not in launch_line.mask_text(
        text
    )


def test_unit_text_as_systemd_reads_it() -> None:
    unit = unit_text.parse(UNIT_TEXT)
    assert unit.files[1].endswith("10-graph.conf")
    assert len(unit.all("Service.ExecStart")) == 1
    argv = unit_text.command(unit.last("Service.ExecStart"))
    assert argv[0] == "/opt/venv/bin/python" and argv[-1] == "--disable-radix-cache"
    alone = unit_text.parse(UNIT_TEXT.partition("# /etc/systemd/system/sglang-test.service.d")[0])
    argv = unit_text.command(alone.last("Service.ExecStart"))
    assert argv[3:] == ["--pp-size", "8", "--host", "127.0.0.1", "--json-model-override-args", '{"a b": 1}']
    assert unit_text.split(r'a\x20b "c \"d\"" 100%%') == ["a b", 'c "d"', "100%"]


def test_listening_ports_of_both_families() -> None:
    text = (
        "  sl  local_address rem_address   st\n"
        "   0: 0100007F:7530 00000000:0000 0A 00000000:00000000\n"
        "   1: 0100007F:7531 0100007F:1234 01 00000000:00000000\n"
        "   0: 00000000000000000000000001000000:1F40 00000000000000000000000000000000:0000 0A 0:0\n"
    )
    assert facts_parse.port_rows(text) == [
        {"port": 8000, "address": "::1"},
        {"port": 30000, "address": "127.0.0.1"},
    ]


def test_containers_and_user_services_by_cgroup() -> None:
    assert facts_parse.cgroup_unit(["0::/system.slice/sglang.service/child"]) == "sglang.service"
    user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/llm.service"
    assert facts_parse.cgroup_unit([user]) == "llm.service"
    assert facts_parse.cgroup_unit(["0::/system.slice/docker-abc.scope"]) is None
