"""Start simulated engines for tests, and talk to them."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab.package import fetch
from evals.loopback_sshd import free_port

START = """
import sys
from evals.lab.simulator import main
sys.exit(main(sys.argv[1:], sys.stdin.readline().strip()))
"""
READY_S = 20.0
KEY = "secret"

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "torch_dtype": "bfloat16",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 384,
    "vocab_size": 163840,
    "max_position_embeddings": 262144,
}
QUICK = {"schedule_ms": 0.1, "launch_ms": 0.2, "shared_gb": 0.2, "routed_gb": 0.1, "hop_ms": 0.1}
"""A cost of some milliseconds a token, where a test is not about pace."""


@dataclass
class Running:
    """Hold one engine process."""

    process: subprocess.Popen[str]
    port: int
    log_file: Path
    state_file: Path
    facts_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8")

    def until(self, text: str) -> None:
        """Wait for a text in the log, or for the end of the process."""
        end = time.monotonic() + READY_S
        while text not in self.log and self.process.poll() is None:
            assert time.monotonic() < end, f"{text!r} is not in the log:\n{self.log[-2000:]}"
            time.sleep(0.02)

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """Do one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {"authorization": f"Bearer {KEY}", **headers})
            response = connection.getresponse()
            return response.status, response.read(), {k.lower(): v for k, v in response.getheaders()}
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """Do one request that must succeed and return its JSON."""
        status, data, _ = self.ask(method, path, body)
        assert status == 200, (status, data)
        return json.loads(data)

    def text(self, prompt: str, tokens: int = 24) -> str:
        """Return the greedy text of a prompt."""
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        return str(self.json("POST", "/v1/completions", body)["choices"][0]["text"])


class Engines:
    """Start engines and end them with the test."""

    def __init__(self, folder: Path, package: Path, cache: Path) -> None:
        self._folder = folder
        self._package = package
        self._cache = cache
        self._running: list[Running] = []

    def start(self, *flags: str, ready: bool = True, **facts: Any) -> Running:
        """Start one with these flags; ``facts`` are merged over a plain scenario."""
        number = len(self._running)
        port = free_port()
        state, given, log = (self._folder / f"{number}.{name}" for name in ("state", "facts", "log"))
        scenario = {
            "name": "test",
            "package_dir": str(self._package),
            "startup_s": 0.1,
            "text_seed": 7,
            "state_file": str(state),
            "settings_cache": str(self._cache),
            "hardware": {
                "gpu_name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                "count": 8,
                "memory_mib": 97887,
                "capability": [12, 0],
            },
            "model": {"config": CONFIG, "weights_gib": 554},
            "noise": {"relative": 0.0},
            **facts,
        }
        given.write_text(json.dumps(scenario))
        argv = [
            "--model-path",
            "/models/kimi",
            "--port",
            str(port),
            "--pp-size",
            "8",
            "--enable-metrics",
            *flags,
        ]
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", START, *argv],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=Path(__file__).parent.parent,
            )
        assert process.stdin is not None
        process.stdin.write(f"{given}\n")
        process.stdin.close()
        running = Running(process, port, log, state, given)
        self._running.append(running)
        if ready:
            running.until("ready to roll")
            assert process.poll() is None, running.log
        return running

    def stop(self) -> None:
        """End all that still run."""
        for running in self._running:
            running.process.kill()
            running.process.wait(10)


@pytest.fixture(scope="session")
def settings_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings")


def _engines(folder: Path, cache: Path) -> Iterator[Engines]:
    package = fetch("sglang", "0.5.11", Settings().cache_dir) / "sglang"
    started = Engines(folder, package, cache)
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture
def engines(tmp_path: Path, settings_cache: Path) -> Iterator[Engines]:
    yield from _engines(tmp_path, settings_cache)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, settings_cache: Path) -> Iterator[Engines]:
    yield from _engines(tmp_path_factory.mktemp("shared"), settings_cache)


@pytest.fixture(scope="module")
def quick(shared: Engines) -> Running:
    """Start one engine, without graphs, for all tests that only ask it something."""
    return shared.start("--disable-cuda-graph", cost=QUICK)


@pytest.fixture(scope="module")
def graphs(shared: Engines) -> Running:
    """Start one engine whose graphs hold one request, while a micro-batch may hold four."""
    flags = [
        "--cuda-graph-max-bs",
        "1",
        "--pp-max-micro-batch-size",
        "4",
        "--attention-backend",
        "flashinfer",
    ]
    return shared.start(*flags, "--api-key", KEY, cost=QUICK)


@pytest.fixture(scope="module")
def single(shared: Engines) -> Running:
    """Start one engine that takes one request at a time."""
    return shared.start("--max-running-requests", "1", "--decode-log-interval", "2", cost=QUICK)


@pytest.fixture(scope="module")
def eager(shared: Engines) -> Running:
    """Start the engine of the founding case, noise left out."""
    return shared.start("--disable-cuda-graph", "--max-running-requests", "8")


@dataclass
class Stream:
    """Hold what one streamed request brought."""

    at: list[float]
    text: str
    usage: dict[str, int] | None
    finish: str | None


async def stream(port: int, prompt: str, tokens: int, *, path: str = "/v1/completions") -> Stream:
    """Stream one request and note when each token came."""
    content = {"messages": [{"role": "user", "content": prompt}]} if "chat" in path else {"prompt": prompt}
    body = {
        **content,
        "model": "kimi",
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: lab\r\nauthorization: Bearer {KEY}\r\ncontent-length: {len(data)}\r\n"
    )
    writer.write(f"{head}\r\n".encode() + data)
    got = Stream([], "", None, None)
    while (line := await reader.readline()) and line != b"data: [DONE]\n":
        if line.startswith(b"data: "):
            _take(got, json.loads(line[6:]), time.perf_counter())
    writer.close()
    return got


def _take(got: Stream, event: dict[str, Any], at: float) -> None:
    got.usage = event["usage"] or got.usage
    for choice in event["choices"]:
        text = choice["text"] if "text" in choice else choice["delta"].get("content")
        got.finish = choice["finish_reason"] or got.finish
        if text:
            got.at.append(at)
            got.text += text


async def rate(port: int, concurrency: int, tokens: int) -> float:
    """Return tokens a second while all of ``concurrency`` requests decode."""
    streams = await asyncio.gather(*(stream(port, f"prompt {n}", tokens) for n in range(concurrency)))
    begin = max(one.at[0] for one in streams)
    end = min(one.at[-1] for one in streams)
    steps = [[at for at in one.at if begin <= at <= end] for one in streams]
    return sum((len(at) - 1) / (at[-1] - at[0]) for at in steps)
