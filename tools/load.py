"""Put load on an OpenAI-compatible server and time the streams; nothing here knows about hosts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tools import bounded_http

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

Api = Literal["/v1/completions", "/v1/chat/completions"]

DEFINITIONS = {
    "ttft_ms": "from sending a request to its first chunk with content; queue, prefill and network included",
    "tpot_ms": "of one request: (end - first content) / (completion tokens - 1)",
    "itl_ms": "gaps between chunks with content, all requests pooled; a chunk may hold several tokens",
    "output_throughput": "sum of the server's usage.completion_tokens / wall time of the run, in tokens/s",
    "request_throughput": "completed requests / wall time of the run",
    "tok_s_per_request": "mean of 1000 / tpot_ms over requests: decode speed of one request, TTFT left out",
    "power_w_mean": "mean of all samples of all GPUs in the run; power_w_max: the highest single one",
    "server": "the server's own gauges in the run, taken where most requests were running",
}
_WORDS = [
    *("river", "stone", "lamp", "cloud", "paper", "green", "seven", "window", "garden", "music", "winter"),
    *("bridge", "copper", "silent", "orange", "market", "number", "field", "castle", "yellow", "engine"),
    *("forest", "simple", "morning", "silver", "little", "planet", "harbor", "candle", "ocean", "letter"),
]


class LoadError(Exception):
    """Say in one line why a server cannot be measured."""


@dataclass(slots=True)
class Sample:
    """Hold one request: its times (seconds, monotonic), token counts, the text's digest, or its error."""

    key: str
    started: float
    first: float | None = None
    ended: float = 0.0
    gaps: list[float] = field(default_factory=list)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    digest: str = ""
    error: str | None = None

    @property
    def ttft_ms(self) -> float | None:
        """Return the time to the first content."""
        return None if self.first is None else (self.first - self.started) * 1000

    @property
    def tpot_ms(self) -> float | None:
        """Return the time per output token after the first; None for a single token."""
        if self.first is None or not self.completion_tokens or self.completion_tokens < 2:
            return None
        return (self.ended - self.first) * 1000 / (self.completion_tokens - 1)

    def row(self) -> dict[str, Any]:
        """Return the request as it is stored."""
        return {
            "key": self.key,
            "ttft_ms": rounded(self.ttft_ms),
            "tpot_ms": rounded(self.tpot_ms),
            "e2e_ms": rounded((self.ended - self.started) * 1000),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Target:
    """Say what is asked: the client, the model, which API, and how long the answers are."""

    client: AsyncClient
    model: str
    api: Api
    max_tokens: int
    seed: int

    def body(self, prompt: str) -> dict[str, Any]:
        """Return the request for one prompt: greedy, of fixed length, usage included."""
        content: dict[str, Any] = {"prompt": prompt}
        if self.api == "/v1/chat/completions":
            content = {"messages": [{"role": "user", "content": prompt}]}
        return {
            "model": self.model,
            **content,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "seed": self.seed,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


def prompt(seed: int, key: str, words: int) -> str:
    """Return the prompt of a key: always the same, and unlike others from its first word on."""
    source = random.Random(f"{seed}:{key}")
    return " ".join(
        [f"{source.randrange(10**6)}", *(source.choice(_WORDS) for _ in range(max(0, words - 1)))]
    )


def rounded(value: float | None) -> float | None:
    """Return a number as it is stored and shown."""
    return None if value is None else round(value, 3)


async def _events(response: Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the JSON objects of a stream of server-sent events until ``[DONE]``."""
    async for line in bounded_http.lines(response):
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            return
        yield json.loads(data)


def _content(event: dict[str, Any]) -> str:
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    parts = (
        choices[0].get("text"),
        delta.get("reasoning_content") or delta.get("reasoning"),
        delta.get("content"),
    )
    return "".join(part for part in parts if part)


async def _consume(response: Response, sample: Sample) -> None:
    text = []
    last = 0.0
    async for event in _events(response):
        if "error" in event:
            raise LoadError(str(event["error"])[:200])
        if piece := _content(event):
            now = time.monotonic()
            if sample.first is None:
                sample.first = now
            else:
                sample.gaps.append(now - last)
            last = now
            text.append(piece)
        if usage := event.get("usage"):
            sample.completion_tokens = usage.get("completion_tokens")
            sample.prompt_tokens = usage.get("prompt_tokens")
    sample.ended = last or time.monotonic()
    if sample.first is None:
        raise LoadError("the stream ended without content")
    sample.digest = hashlib.sha256("".join(text).encode()).hexdigest()


async def request(target: Target, key: str, words: int) -> Sample:
    """Send one request and time its stream; an error is kept in the sample, never raised."""
    import httpx2

    sample = Sample(key=key, started=time.monotonic())
    try:
        async with (
            asyncio.timeout(60 + 2 * target.max_tokens),
            target.client.stream(
                "POST", target.api, json=target.body(prompt(target.seed, key, words))
            ) as response,
        ):
            if response.status_code != 200:
                body = b"".join([piece async for piece in bounded_http.chunks(response)]).decode(
                    "utf-8", "replace"
                )
                raise LoadError(f"HTTP {response.status_code}: {body[:160]}")
            await _consume(response, sample)
    except (httpx2.HTTPError, LoadError, ValueError, TimeoutError, AttributeError, RecursionError) as error:
        sample.error = f"{type(error).__name__}: {error}"[:240]
        sample.ended = time.monotonic()
    return sample


async def level(
    target: Target, keys: Sequence[str], words: int, concurrency: int, done: Callable[[int], None]
) -> tuple[list[Sample], float, float]:
    """Run the keys with ``concurrency`` requests at a time; return samples, start and end (monotonic)."""
    waiting: Iterator[str] = iter(keys)
    samples: list[Sample] = []

    async def worker() -> None:
        for key in waiting:
            samples.append(await request(target, key, words))
            done(len(samples))

    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    return sorted(samples, key=lambda sample: keys.index(sample.key)), started, time.monotonic()


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return a percentile with linear interpolation, or None without values."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _spread(name: str, values: Sequence[float]) -> dict[str, float | None]:
    return {
        f"mean_{name}_ms": rounded(statistics.fmean(values)) if values else None,
        f"median_{name}_ms": rounded(percentile(values, 0.5)),
        f"p99_{name}_ms": rounded(percentile(values, 0.99)),
    }


def summary(samples: Sequence[Sample], duration: float) -> dict[str, Any]:
    """Return the numbers of one run under the field names that benchmark tools share."""
    good = [sample for sample in samples if sample.error is None]
    tpots = [value for sample in good if (value := sample.tpot_ms) is not None]
    gaps = [gap * 1000 for sample in good for gap in sample.gaps]
    counted = all(sample.completion_tokens is not None for sample in good) and bool(good)
    tokens = sum(sample.completion_tokens or 0 for sample in good)
    out: dict[str, Any] = {
        "requests": len(samples),
        "completed": len(good),
        "errors": len(samples) - len(good),
        "output_throughput": rounded(tokens / duration) if counted else None,
        "tok_s_per_request": rounded(statistics.fmean(1000 / t for t in tpots if t > 0))
        if any(tpots)
        else None,
        "request_throughput": rounded(len(good) / duration),
        **_spread("ttft", [value for sample in good if (value := sample.ttft_ms) is not None]),
        **_spread("tpot", tpots),
        "median_itl_ms": rounded(percentile(gaps, 0.5)),
        "p99_itl_ms": rounded(percentile(gaps, 0.99)),
        "duration_s": rounded(duration),
        "total_output_tokens": tokens if counted else None,
    }
    if out["errors"]:
        kinds: dict[str, int] = {}
        for sample in samples:
            if sample.error:
                kinds[sample.error] = kinds.get(sample.error, 0) + 1
        out["error_kinds"] = dict(sorted(kinds.items(), key=lambda item: -item[1])[:5])
    return out
