"""The benchmark against a real streaming HTTP server on loopback: counts, definitions, refusals."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tools import benchmark, load, load_watch
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.local import LocalHost


@dataclass
class Engine:
    """A small OpenAI-compatible server: streams ``max_tokens`` chunks, one each ``pace_s``."""

    pace_s: float = 0.002
    chat_only: bool = False
    fail_every: int = 0
    cut_every: int = 0
    queued: float = 0.0
    metrics: bool = True
    usage: bool = True
    drifts: bool = False
    seen: list[dict[str, Any]] = field(default_factory=list)
    uneven: bool = False
    running: int = 0
    most: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split()
                length = 0
                while (header := (await reader.readline()).decode().strip().lower()) != "":
                    if header.startswith("content-length:"):
                        length = int(header.partition(":")[2])
                body = json.loads(await reader.readexactly(length)) if length else {}
                await self.answer(method, path, body, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(
        self, method: str, path: str, body: dict[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        if path == "/v1/models":
            return self.plain(writer, 200, json.dumps({"data": [{"id": "tiny"}]}))
        if path == "/metrics" and self.metrics:
            text = (
                f'sglang:num_running_reqs{{pp_rank="0"}} {float(self.running)}\n'
                f'sglang:num_running_reqs{{pp_rank="1"}} {float(self.running)}\n'
                f"sglang:num_queue_reqs {self.queued}\nsglang:is_cuda_graph 1.0\n"
            )
            return self.plain(writer, 200, text)
        if (path == "/v1/completions" and not self.chat_only) or path == "/v1/chat/completions":
            self.seen.append(body)
            return await self.stream(path, body, writer)
        self.plain(writer, 404, "no such path")

    def plain(self, writer: asyncio.StreamWriter, code: int, text: str) -> None:
        data = text.encode()
        writer.write(f"HTTP/1.1 {code} X\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)

    async def stream(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        number = len(self.seen)
        if self.fail_every and number > 1 and number % self.fail_every == 0:
            return self.plain(writer, 500, "broken on purpose")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for token in range(body["max_tokens"]):
                await asyncio.sleep(self.pace_s * (4 if self.uneven and number % 2 else 1))
                piece = f"w{token} " if not self.drifts or self.running < 2 else f"w{number} "
                choice = {"delta": {"content": piece}} if "chat" in path else {"text": piece}
                self.chunk(writer, {"choices": [choice]})
                if self.cut_every and number > 1 and number % self.cut_every == 0:
                    writer.close()
                    raise ConnectionError
            if self.usage:
                # Two tokens a chunk: what counts is the server's usage, never the number of chunks.
                usage = {"prompt_tokens": 9, "completion_tokens": 2 * body["max_tokens"]}
                self.chunk(writer, {"choices": [], "usage": usage})
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
            await writer.drain()
        finally:
            self.running -= 1

    def chunk(self, writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
        data = f"data: {json.dumps(event)}\n\n".encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


@pytest.fixture
async def engine() -> AsyncIterator[tuple[Engine, int]]:
    fake = Engine()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    yield fake, server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture(autouse=True)
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    smi = folder / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, 80.0, 10'\necho '1, 120.0, [N/A]'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def context(tmp_path: Path, allow: bool = True) -> ToolContext:
    settings = ToolSettings(allow_load=allow)
    return ToolContext(
        "t1", {"local": LocalHost("local")}, ArtifactStore(tmp_path / "s"), lambda b: b, settings
    )


async def measure(tmp_path: Path, port: int, **values: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    ctx = context(tmp_path)
    args = benchmark.Args(port=port, **{"max_tokens": 8, "input_tokens": 16, "warmup": 0, **values})
    view = await benchmark.run(ctx, args)
    assert view["artifact"] == ctx.kept[0].handle
    return view, json.loads(ctx.store.get(ctx.kept[0].sha256))


async def test_counts_usage_and_relations(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    fake.pace_s = 0.03
    view, stored = await measure(tmp_path, port, concurrency=[1, 4], requests=2, repeats=2, max_tokens=16)
    assert [(run["concurrency"], run["repeat"], run["requests"]) for run in view["runs"]] == [
        (1, 1, 2),
        (1, 2, 2),
        (4, 1, 8),
        (4, 2, 8),
    ]
    assert fake.most == 4 and len(fake.seen) == 1 + 20
    for run, kept in zip(view["runs"], stored["runs"], strict=True):
        assert run == kept and run["errors"] == 0 and run["completed"] == run["requests"]
        assert run["total_output_tokens"] == run["requests"] * 32
        assert run["output_throughput"] == pytest.approx(
            run["total_output_tokens"] / run["duration_s"], rel=0.01
        )
        assert run["median_ttft_ms"] <= run["p99_ttft_ms"] < run["duration_s"] * 1000
        assert run["tok_s_per_request"] == pytest.approx(1000 / run["mean_tpot_ms"], rel=0.1)
        assert run["gpu"]["power_w_mean"] == 100.0 and run["gpu"]["power_w_max"] == 120.0
        assert run["gpu"]["utilization_mean"] == 10.0
        assert run["server"]["sglang:is_cuda_graph"] == 1.0
        assert run["server"]["sglang:num_running_reqs"] == run["concurrency"]
    for row in stored["requests"]:
        assert row["tpot_ms"] == pytest.approx(
            (row["e2e_ms"] - row["ttft_ms"]) / (row["completion_tokens"] - 1), abs=0.01
        )
    one, four = view["runs"][0], view["runs"][2]
    assert four["output_throughput"] > 1.5 * one["output_throughput"]


async def test_a_level_whose_runs_differ_is_run_more_often(
    engine: tuple[Engine, int], tmp_path: Path
) -> None:
    fake, port = engine
    asked: dict[str, Any] = {"concurrency": [1], "requests": 1, "repeats": 2, "max_repeats": 5}
    fake.uneven, fake.pace_s = True, 0.01
    view, stored = await measure(tmp_path, port, **asked, spread=0.1)
    assert [run["repeat"] for run in view["runs"]] == [1, 2, 3, 4, 5]
    assert len(stored["requests"]) == 5
    view, _ = await measure(tmp_path, port, **asked)
    assert [run["repeat"] for run in view["runs"]] == [1, 2], "without `spread` the number stands"


@pytest.mark.parametrize(
    ("speeds", "enough"),
    [
        ([], False),
        ([10.0], False),
        ([10.0, 10.1], False),
        ([10.0, 10.1, 10.05], True),
        ([10.0, 8.0, 10.05], False),
        ([10.0, 8.0, 10.05, 9.0, 10.0], True),
        ([0.0, 10.0, 10.0], False),
    ],
)
def test_what_is_enough(speeds: list[float], enough: bool) -> None:
    args = benchmark.Args(repeats=3, spread=0.1, max_repeats=5)
    assert args.enough(speeds) is enough
    assert benchmark.Args(repeats=3).enough(speeds) is (len(speeds) >= 3)


async def test_requests_are_greedy_fixed_and_repeatable(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    _, first = await measure(tmp_path, port, concurrency=[2], warmup=1)
    bodies = list(fake.seen)
    _, second = await measure(tmp_path, port, concurrency=[2], warmup=1)
    assert first["outputs"] == second["outputs"] and len(first["outputs"]) == 4
    assert sorted(b["prompt"] for b in bodies) == sorted(b["prompt"] for b in fake.seen[len(bodies) :])
    for body in bodies[1:]:
        assert (body["temperature"], body["ignore_eos"], body["max_tokens"]) == (0, True, 8)
        assert body["stream_options"] == {"include_usage": True}
        assert len(body["prompt"].split()) == 16
    assert len({body["prompt"] for body in bodies}) == len(bodies) == 1 + 2 + 4
    assert load.prompt(0, "a", 16) != load.prompt(1, "a", 16)


async def test_a_control_sends_the_first_run_again_and_counts_it_nowhere(
    engine: tuple[Engine, int], tmp_path: Path
) -> None:
    fake, port = engine
    view, stored = await measure(tmp_path, port, concurrency=[1, 2], repeats=2, control=True)
    assert len(fake.seen) == 1 + 2 * 3 + 4 * 3 and fake.most == 2
    assert [(run["concurrency"], run["repeat"]) for run in view["runs"]] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len(stored["requests"]) == len(stored["outputs"]) == 12
    first = {key: digest for key, digest in stored["outputs"].items() if ".r1." in key}
    assert stored["outputs_again"] == first and len(first) == 6
    prompts = [body["prompt"] for body in fake.seen[1:]]
    assert prompts[:2] == prompts[4:6] and sorted(prompts[6:10]) == sorted(prompts[14:])
    assert view["notes"] == [] and "outputs_again" in view["outputs"]


async def test_outputs_that_are_not_reproduced_are_said(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    fake.drifts = True
    view, stored = await measure(tmp_path, port, concurrency=[1, 2], control=True)
    alone = {key: digest for key, digest in stored["outputs"].items() if key.startswith("c1.")}
    assert alone.items() <= stored["outputs_again"].items()
    assert view["notes"] == [
        "concurrency 2: 4 of 4 greedy outputs differed between two runs of the same configuration"
    ]


async def test_without_a_control_nothing_is_sent_twice(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    _, stored = await measure(tmp_path, port, concurrency=[2])
    assert "outputs_again" not in stored and len(fake.seen) == 1 + 4


async def test_chat_is_the_way_back(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    fake.chat_only = True
    view, stored = await measure(tmp_path, port, concurrency=[1])
    assert stored["api"] == "/v1/chat/completions" and view["runs"][0]["completed"] == 2
    assert fake.seen[-1]["messages"][0]["role"] == "user"


async def test_errors_are_counted(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    fake.fail_every, fake.cut_every = 3, 4
    view, stored = await measure(tmp_path, port, concurrency=[1], requests=10)
    run = view["runs"][0]
    failed = [number for number in range(2, 12) if number % 3 == 0 or number % 4 == 0]
    assert (run["requests"], run["errors"], run["completed"]) == (10, len(failed), 10 - len(failed))
    assert [kind for kind in run["error_kinds"] if "HTTP 500: broken on purpose" in kind]
    assert (
        sum(run["error_kinds"].values()) == len(failed) == len([r for r in stored["requests"] if r["error"]])
    )
    assert len(stored["outputs"]) == run["completed"]


async def test_a_server_that_breaks_ends_the_run_and_says_so(
    engine: tuple[Engine, int], tmp_path: Path
) -> None:
    fake, port = engine
    fake.fail_every = 1
    view, _ = await measure(tmp_path, port, concurrency=[1, 2])
    assert len(view["runs"]) == 1 and view["runs"][0]["completed"] == 0
    assert view["runs"][0]["output_throughput"] is None
    assert [note for note in view["notes"] if "no request of the last run was completed" in note]


async def test_without_usage_no_token_rate_is_made_up(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    fake.usage = False
    run = (await measure(tmp_path, port, concurrency=[1]))[0]["runs"][0]
    assert run["completed"] == 2 and run["output_throughput"] is None and run["mean_tpot_ms"] is None


async def test_load_needs_consent(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    with pytest.raises(ToolError, match="allow_load"):
        await benchmark.run(context(tmp_path, allow=False), benchmark.Args(port=port))
    assert fake.seen == []


async def test_others_are_not_disturbed(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    fake.queued = 2.0
    with pytest.raises(ToolError, match=r"0 running, 2 queued.*allow_busy"):
        await measure(tmp_path, port)
    assert fake.seen == []
    view, _ = await measure(tmp_path, port, concurrency=[1], allow_busy=True)
    assert view["notes"] == ["measured beside 0 running and 2 queued requests of others"]


async def test_missing_metrics_are_said(engine: tuple[Engine, int], tmp_path: Path) -> None:
    fake, port = engine
    fake.metrics = False
    view, _ = await measure(tmp_path, port, concurrency=[1])
    assert view["runs"][0]["server"] == {} and "not known" in view["notes"][0]


async def test_a_server_that_is_down_is_one_line(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    with pytest.raises(ToolError, match=f"nothing answers on local:{port}") as caught:
        await measure(tmp_path, port)
    assert "\n" not in str(caught.value)


async def test_no_gpu_tool_is_said(engine: tuple[Engine, int], tmp_path: Path) -> None:
    (tmp_path / "bin/nvidia-smi").write_text("#!/bin/sh\necho 'no devices were found' >&2\nexit 6\n")
    view, _ = await measure(tmp_path, engine[1], concurrency=[1])
    assert view["runs"][0]["gpu"]["power_w_mean"] is None
    assert view["notes"] == ["no GPU samples: no devices were found"]


def test_gauges_of_ranks_and_replicas() -> None:
    text = (
        'sglang:num_running_reqs{dp_rank="0",pp_rank="0"} 4\n'
        'sglang:num_running_reqs{dp_rank="0",pp_rank="1"} 4\n'
        'sglang:num_running_reqs{dp_rank="1",pp_rank="0"} 3\nsglang:is_cuda_graph{dp_rank="0"} 1\n'
        'sglang:is_cuda_graph{dp_rank="1"} 0\nother_metric 5\n'
    )
    assert load_watch.parse_metrics(text) == {"sglang:num_running_reqs": 7, "sglang:is_cuda_graph": 1}
    assert load_watch.parse_metrics("<html>") is None
    assert load_watch.in_flight({"vllm:num_requests_running": 1, "vllm:num_requests_waiting": 2}) == (1, 2)


def test_percentiles_interpolate() -> None:
    assert load.percentile([4, 1, 3, 2], 0.5) == 2.5 and load.percentile([], 0.5) is None
    assert load.percentile([1, 2], 0.99) == pytest.approx(1.99)


def test_a_huge_plan_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 4096 requests"):
        benchmark.Args(concurrency=[512], requests=64)
    with pytest.raises(ValueError, match="more than 4096 requests"):
        benchmark.Args(concurrency=[64], requests=64, control=True)
