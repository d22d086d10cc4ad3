"""A language model behind an endpoint of chat completions: SGLang, vLLM, llama.cpp, Ollama, OpenAI."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.compaction import compact, tokens_of
from agent.config import Settings
from agent.errors import ModelEndpointError
from agent.models import ToolSchema
from agent.models.faults import Fault, expected, fault_of, shown_url
from agent.models.stream import HTML, BrokenAnswer, TurnBuilder
from agent.state import AssistantTurn, Message, Usage
from agent.untrusted import marked

if TYPE_CHECKING:
    from ssl import SSLContext

    from openai import AsyncOpenAI

NO_KEY = "EMPTY"
"""Key for servers that ask for none; the client must send something."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
CONNECT_S = 10.0
SMALLEST_CONTEXT = 2_000
"""Tokens below which a request is not cut further when the server finds it too long."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Habits:
    """Hold what was learnt about an endpoint: how it can be asked, and how much it takes."""

    stream: bool
    context_tokens: int
    count_usage: bool = True

    def adapt(self, fault: Fault) -> bool:
        """Change how it is asked after a refusal; False when there is nothing left to change."""
        if fault.cause == "no_stream_options" and self.count_usage:
            self.count_usage = False
        elif fault.cause == "no_stream" and self.stream:
            self.stream = False
        elif fault.cause == "too_long" and self.context_tokens >= 2 * SMALLEST_CONTEXT:
            self.context_tokens //= 2
        else:
            return False
        return True


class OpenAIModel:
    """Take turns from one model of one endpoint, trying again a bounded number of times what failed."""

    def __init__(
        self,
        settings: Settings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"openai:{settings.model}"
        self._settings = settings
        self._sleep = sleep
        self._jitter = jitter
        self._habits = Habits(settings.model_stream, settings.context_tokens)
        self._prices = settings.price_input_usd_per_mtok, settings.price_output_usd_per_mtok

    @property
    def streams(self) -> bool:
        """Tell whether answers are asked for in pieces, as the settings and the endpoint have it."""
        return self._habits.stream

    async def next_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        on_text: Say = lambda text: None,
    ) -> AssistantTurn:
        """Return one turn; raise `ModelEndpointError` in one line once the tries are used up."""
        lost = Usage()
        tried = 0
        async with self.client() as client:
            while True:
                request = marked(compact(messages, self._habits.context_tokens - tokens_of(tools)))
                builder = TurnBuilder(on_text)
                try:
                    await self._ask(client, request, tools, builder)
                    turn = builder.turn(request, tools, self._prices)
                    return turn.model_copy(update={"usage": _sum(turn.usage, lost)})
                except expected() as error:
                    fault = fault_of(error)
                if builder.started:
                    lost = _sum(lost, builder.usage(request, tools, self._prices))
                if self._habits.adapt(fault):
                    continue
                if not fault.again or tried >= self._settings.model_retries:
                    raise await self._failure(client, fault, tried)
                tried += 1
                if builder.shown:
                    on_text(f"\n[{fault.what}; the turn is taken again]\n")
                await self._sleep(self._wait(fault, tried))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AsyncOpenAI]:
        """Open a client for one turn: tool calls between turns may outlast a kept connection."""
        async with _client(self._settings) as client:
            yield client

    async def _ask(
        self, client: AsyncOpenAI, messages: list[Message], tools: Sequence[ToolSchema], builder: TurnBuilder
    ) -> None:
        request: dict[str, Any] = {"model": self._settings.model, "messages": messages}
        if tools:
            request["tools"] = list(tools)
        if not self._habits.stream:
            async with asyncio.timeout(self._settings.model_start_s):
                builder.feed_whole(_plain(await client.chat.completions.create(**request)))
            return
        if self._habits.count_usage:
            request["stream_options"] = {"include_usage": True}
        async with asyncio.timeout(self._settings.model_start_s):
            stream = await client.chat.completions.create(**request, stream=True)
        async with stream:
            kind = stream.response.headers.get("content-type", "")
            if "text/html" in kind:
                raise BrokenAnswer(HTML)
            if "application/json" in kind:
                builder.feed_whole((await stream.response.aread()) and stream.response.json())
                return
            await self._listen(stream, builder)

    async def _listen(self, stream: AsyncIterator[Any], builder: TurnBuilder) -> None:
        """Feed chunk after chunk; give up after too long a silence."""
        wait_s = self._settings.model_start_s
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    chunk = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise BrokenAnswer(f"nothing came for {wait_s:g} s") from None
            builder.feed(_plain(chunk))
            wait_s = self._settings.model_stall_s

    def _wait(self, fault: Fault, tried: int) -> float:
        """Return seconds to wait: what the server asks for, else twice as long each time, spread a little."""
        if fault.wait_s is not None:
            return min(fault.wait_s, LONGEST_WAIT_S)
        return float(min(FIRST_WAIT_S * 2 ** (tried - 1), LONGEST_WAIT_S) * (0.75 + self._jitter() / 2))

    async def _failure(self, client: AsyncOpenAI, fault: Fault, tried: int) -> ModelEndpointError:
        times = f", {tried + 1} times" if tried else ""
        settings = self._settings
        do = fault.do
        if fault.cause in ("no_model", "no_tools"):
            do += await _offered(client)
        what = fault.what
        if settings.api_key:
            what = what.replace(settings.api_key.get_secret_value(), "[key]")
        return ModelEndpointError(
            f"model {settings.model} at {shown_url(str(client.base_url))}: {what}{times}", do=do
        )


def prepare(settings: Settings) -> None:
    """Load and make, in a thread, what the first turn needs: in a loop it would hold up all else."""
    from openai.lib.streaming import chat  # noqa: F401

    _ = _client(settings).chat.completions  # loaded when it is first asked for


def _client(settings: Settings) -> AsyncOpenAI:
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

    key = settings.api_key.get_secret_value() if settings.api_key else NO_KEY
    timeout = Timeout(settings.model_start_s, connect=min(CONNECT_S, settings.model_start_s))
    # A proxy of the environment knows nothing of this machine's own loopback.
    direct = urlsplit(settings.base_url or "").hostname in LOOPBACK
    http = DefaultAsyncHttpxClient(timeout=timeout, trust_env=not direct, verify=_tls(not direct))
    return AsyncOpenAI(
        api_key=key, base_url=settings.base_url, max_retries=0, timeout=timeout, http_client=http
    )


@cache
def _tls(trust_env: bool) -> SSLContext:
    """Return the certificates that are trusted, read once a process: reading them takes 20 ms or more."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=trust_env)


async def _offered(client: AsyncOpenAI) -> str:
    """Return what models the endpoint lists, as the end of a sentence; nothing when it does not say."""
    try:
        async with asyncio.timeout(CONNECT_S):
            page = await client.models.list()
            names = [str(model.id) for model in page.data or ()]
    except expected():
        return ""
    return f" (it serves {', '.join(names[:20])})" if names else ""


def _plain(value: Any) -> Any:
    """Return what the client read as plain data, without the checks it has not made."""
    from pydantic import BaseModel

    return value.model_dump(mode="json", warnings=False) if isinstance(value, BaseModel) else value


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost_usd=one.cost_usd + other.cost_usd,
        estimated=one.estimated or other.estimated,
    )
