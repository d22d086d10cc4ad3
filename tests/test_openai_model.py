from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import APIStatusError

from agent.config import Settings
from agent.errors import ExitCode, ModelEndpointError
from agent.models.faults import fault_of, shown_url
from agent.models.openai import OpenAIModel
from agent.models.scripted import MODEL, ScriptedServer, _Answer, serving
from agent.models.scripted_http import Reply, read_request
from agent.models.scripted_script import FaultKind, ScriptCall, ScriptTurn, from_turns
from agent.models.stream import BrokenAnswer, TurnBuilder
from agent.state import AssistantTurn, Message, ToolCall

ASK = [{"role": "user", "content": "PP8 decode is slow: 24 tok/s"}]
TOOL = {"type": "function", "function": {"name": "grep", "parameters": {"type": "object"}}}
ARGUMENTS = [{"pattern": f"disable_cuda_graph_{number}", "path": "é" * 20} for number in range(3)]
TURN = ScriptTurn(
    text="I look at the launch line and at the source that reads it.",
    reasoning="Graphs may be off; the power is low.",
    tool_calls=[ScriptCall(name="grep", arguments=arguments) for arguments in ARGUMENTS],
)


class Pauses:
    """Record how long was waited between tries, without waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def settings_for(url: str, **more: Any) -> Settings:
    return Settings(**{"model": MODEL, "base_url": url, "model_stall_s": 0.2, **more})


async def take(url: str, said: list[str] | None = None, **more: Any) -> tuple[AssistantTurn, list[float]]:
    pauses = Pauses()
    model = OpenAIModel(settings_for(url, **more), sleep=pauses, jitter=lambda: 0.5)
    on_text = said.append if said is not None else lambda text: None
    return await model.next_turn(ASK, [TOOL], on_text), pauses.seconds


@asynccontextmanager
async def scripted(*faults: FaultKind) -> AsyncIterator[tuple[ScriptedServer, str]]:
    server = ScriptedServer(from_turns([TURN]), dict(enumerate(faults, 1)))
    async with serving(server) as url:
        yield server, url


def check_whole(turn: AssistantTurn) -> None:
    assert turn.text == TURN.text
    assert turn.reasoning == TURN.reasoning
    assert [call.name for call in turn.tool_calls] == ["grep"] * 3
    assert [json.loads(call.arguments) for call in turn.tool_calls] == ARGUMENTS


async def test_a_streamed_turn_is_put_together() -> None:
    said: list[str] = []
    async with scripted() as (server, url):
        turn, pauses = await take(url, said, price_input_usd_per_mtok=2.0, price_output_usd_per_mtok=10.0)
    check_whole(turn)
    assert len(said) > 2 and "".join(said) == TURN.text and pauses == []
    assert turn.usage.input_tokens > 0 and turn.usage.output_tokens > 0 and not turn.usage.estimated
    priced = (turn.usage.input_tokens * 2 + turn.usage.output_tokens * 10) / 1e6
    assert turn.usage.cost_usd == pytest.approx(priced)
    (body,) = server.requests
    assert body["tools"] == [TOOL] and body["stream_options"] == {"include_usage": True}
    assert "tool_choice" not in body


async def test_a_turn_in_one_piece() -> None:
    said: list[str] = []
    async with scripted() as (server, url):
        turn, _ = await take(url, said, model_stream=False)
    check_whole(turn)
    assert said == [TURN.text] and "stream" not in server.requests[0]


HABITS: list[FaultKind] = [
    "parallel",
    "one-chunk",
    "no-index",
    "same-index",
    "no-ids",
    "same-ids",
    "no-usage",
]


@pytest.mark.parametrize("habit", HABITS)
async def test_habits_of_servers_change_nothing(habit: FaultKind) -> None:
    async with scripted(habit) as (_, url):
        turn, pauses = await take(url)
    check_whole(turn)
    assert pauses == [] and turn.usage.estimated is (habit == "no-usage")
    assert turn.usage.input_tokens > 0 and turn.usage.output_tokens > 0


async def test_broken_arguments_are_passed_on() -> None:
    async with scripted("broken-call") as (_, url):
        turn, _ = await take(url)
    with pytest.raises(ValueError, match=r"line 1 column"):
        json.loads(turn.tool_calls[0].arguments)


MISHAPS: list[FaultKind] = ["429", "500", "html", "error-chunk", "garbage", "cut", "stall"]


@pytest.mark.parametrize("mishap", MISHAPS)
async def test_what_fails_once_is_tried_again(mishap: FaultKind) -> None:
    said: list[str] = []
    async with scripted(mishap) as (server, url):
        turn, pauses = await take(url, said)
    check_whole(turn)
    assert len(server.requests) == 2
    assert pauses == ([0.0] if mishap == "429" else [0.5])
    broke_in_the_middle = mishap in ("error-chunk", "garbage", "cut", "stall")
    assert ("the turn is taken again]" in "".join(said)) is broke_in_the_middle
    assert turn.usage.estimated is broke_in_the_middle


@pytest.mark.parametrize(
    ("mishap", "says"),
    [
        ("429", "HTTP 429: too many requests, 4 times; check that"),
        ("500", "HTTP 500: the server lost its way, 4 times; check that"),
        ("html", "it answered with an HTML page, 4 times; base_url is most likely wrong"),
        ("error-chunk", "it reported an error: out of memory, 4 times"),
        ("garbage", "it sent what is not JSON, 4 times"),
        ("cut", "the connection broke"),
        ("stall", "nothing came for 0.2 s, 4 times"),
    ],
)
async def test_what_keeps_failing_ends_in_one_line(mishap: FaultKind, says: str) -> None:
    pauses = Pauses()
    async with scripted(*[mishap] * 9) as (server, url):
        model = OpenAIModel(settings_for(url), sleep=pauses, jitter=lambda: 0.5)
        with pytest.raises(ModelEndpointError) as caught:
            await model.next_turn(ASK, [TOOL])
    line = str(caught.value)
    assert line.startswith(f"model scripted at {url}: ") and says in line and "\n" not in line
    assert caught.value.exit_code is ExitCode.MODEL_ENDPOINT
    assert len(server.requests) == 4 and pauses.seconds == ([0.0] * 3 if mishap == "429" else [0.5, 1.0, 2.0])


async def test_retries_are_a_setting() -> None:
    async with scripted(*MISHAPS[1:2] * 9) as (server, url):
        with pytest.raises(ModelEndpointError):
            await take(url, model_retries=0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("mishap", "says"),
    [
        ("401", "HTTP 401: the API key is not valid; set LEADLINE_API_KEY"),
        ("no-tools", "does not support tools; start the server with a tool call parser"),
    ],
)
async def test_what_cannot_get_better_is_not_tried_again(mishap: FaultKind, says: str) -> None:
    async with scripted(mishap) as (server, url):
        with pytest.raises(ModelEndpointError) as caught:
            await take(url)
    assert says in str(caught.value) and len(server.requests) == 1
    assert ("it serves scripted" in str(caught.value)) is (mishap == "no-tools")


async def test_an_unknown_model_is_named_with_those_there_are() -> None:
    async with scripted() as (_, url):
        with pytest.raises(ModelEndpointError, match=r"model nope .*`nope` does not exist.*serves scripted"):
            await take(url, model="nope")


async def test_a_wrong_path_is_told() -> None:
    async with scripted() as (_, url):
        with pytest.raises(ModelEndpointError, match=r"HTTP 404: no such path.*usually ends in /v1"):
            await take(url.removesuffix("/v1"))


async def test_an_endpoint_that_cannot_stream_is_asked_for_whole_answers() -> None:
    async with scripted("no-stream") as (server, url):
        model = OpenAIModel(settings_for(url), sleep=Pauses())
        check_whole(await model.next_turn(ASK, [TOOL]))
        check_whole(await model.next_turn(ASK, [TOOL]))
    assert [body.get("stream", False) for body in server.requests] == [True, False, False]


async def test_a_request_that_is_too_long_is_cut_further() -> None:
    long: list[Message] = [*ASK]
    for number in range(6):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        long.append({"role": "assistant", "content": "", "tool_calls": [call]})
        long.append({"role": "tool", "tool_call_id": f"c{number}", "content": "x" * 8000})
    async with scripted("too-long") as (server, url):
        model = OpenAIModel(settings_for(url, context_tokens=13_000), sleep=Pauses())
        await model.next_turn(long, [TOOL])
    first, second = (len(json.dumps(body)) for body in server.requests)
    assert second < first * 0.6


async def test_nobody_listens() -> None:
    async with scripted() as (_, url):
        pass
    with pytest.raises(
        ModelEndpointError, match=r"no connection \(.*\), 4 times; check that the server runs"
    ):
        await take(url)


Handler = Callable[[Reply], Awaitable[None]]


@asynccontextmanager
async def odd_server(handler: Handler) -> AsyncIterator[str]:
    """Serve one kind of answer to every request."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await handler(Reply(writer))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_an_endpoint_that_ignores_stream_is_understood() -> None:
    async def answer(reply: Reply) -> None:
        message = {"role": "assistant", "content": "Hello."}
        await reply.json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async with odd_server(answer) as url:
        turn, pauses = await take(url)
    assert turn.text == "Hello." and pauses == []


async def test_an_answer_without_an_end_was_cut() -> None:
    async def answer(reply: Reply) -> None:
        reply.begin_stream()
        await reply.event('{"choices": [{"index": 0, "delta": {"content": "Half of"}}]}')
        await reply.event("[DONE]")
        await reply.end_stream()

    async with odd_server(answer) as url:
        with pytest.raises(ModelEndpointError, match="broke off in the middle, 2 times"):
            await take(url, model_retries=1)


async def test_a_refusal_of_stream_options_is_learnt() -> None:
    bodies: list[Any] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append((await read_request(reader)).body)
        reply = Reply(writer)
        if "stream_options" in bodies[-1]:
            await reply.error(400, "unknown field stream_options")
        else:
            reply.begin_stream()
            await reply.event('{"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}')
            await reply.end_stream()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        turn, _ = await take(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    assert turn.text == "Hi" and turn.usage.estimated and len(bodies) == 2


async def test_a_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(reply: Reply) -> None:
        await reply.error(401, "wrong key sk-verysecret")

    async with odd_server(answer) as url:
        with pytest.raises(ModelEndpointError) as caught:
            await take(url.replace("http://", "http://me:pass@"), api_key="sk-verysecret")
    assert "sk-verysecret" not in str(caught.value) and "pass" not in str(caught.value)


@pytest.mark.parametrize(("header", "least", "most"), [("7", 7, 7), ("soon", None, None), ("date", 20, 41)])
def test_retry_after_is_seconds_or_a_date(header: str, least: float | None, most: float | None) -> None:
    value = formatdate(time.time() + 40, usegmt=True) if header == "date" else header
    request = httpx2.Request("POST", "http://127.0.0.1/")
    response = httpx2.Response(429, headers={"retry-after": value}, request=request)
    fault = fault_of(APIStatusError("slow down", response=response, body=None))
    assert fault.again
    if least is None or most is None:
        assert fault.wait_s is None
    else:
        assert fault.wait_s is not None and least <= fault.wait_s <= most


@pytest.mark.parametrize(
    ("status", "words", "cause"),
    [
        (
            400,
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "no_tools",
        ),
        (400, "registry/llama2 does not support tools", "no_tools"),
        (500, "tools param requires --jinja flag", "other"),
        (404, "No endpoints found that support tool use", "no_tools"),
        (400, "messages with role 'tool' must follow a message with 'tool_calls'", "other"),
        (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens).", "too_long"),
        (400, "the request exceeds the available context size", "too_long"),
        (400, "Streaming is not supported", "no_stream"),
        (422, "extra fields: stream_options", "no_stream_options"),
        (404, "The model `kimi` does not exist.", "no_model"),
        (404, 'model "kimi" not found, try pulling it first', "no_model"),
        (404, "Not Found", "no_path"),
        (403, "forbidden", "no_key"),
        (400, "temperature must be positive", "other"),
    ],
)
def test_the_words_of_a_refusal_tell_what_to_do(status: int, words: str, cause: str) -> None:
    request = httpx2.Request("POST", "http://127.0.0.1/")
    response = httpx2.Response(status, request=request)
    fault = fault_of(APIStatusError("", response=response, body={"error": {"message": words}}))
    assert (fault.cause, fault.again) == (cause, status == 500) and words[:20] in fault.what


async def test_a_turn_can_be_cancelled_while_it_streams() -> None:
    async with scripted("stall") as (_, url):
        model = OpenAIModel(settings_for(url, model_stall_s=600))
        came = asyncio.Event()
        turn = asyncio.create_task(model.next_turn(ASK, [TOOL], lambda text: came.set()))
        await asyncio.wait_for(came.wait(), 30)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(turn, 30)


async def test_loopback_is_reached_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with scripted() as (_, url):
        turn, pauses = await take(url)
    check_whole(turn)
    assert pauses == []


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown_url("https://user:pw@gpu1:30000/v1/?key=abc") == "https://gpu1:30000/v1"


def test_thoughts_left_in_the_text_are_moved() -> None:
    builder = TurnBuilder()
    message = {"content": "<think>\nGraphs are off?\n</think>\n\nI look."}
    builder.feed_whole({"choices": [{"message": message, "finish_reason": "stop"}]})
    turn = builder.turn([], [], (0.0, 0.0))
    assert (turn.reasoning, turn.text) == ("Graphs are off?", "I look.")


@pytest.mark.parametrize("chunk", [42, "x", [], None])
def test_a_chunk_that_is_none_is_a_broken_answer(chunk: Any) -> None:
    with pytest.raises(BrokenAnswer):
        TurnBuilder().feed(chunk)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "tool_calls", "function", "index", "id", "name", "arguments", "usage"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=5))
def test_no_chunk_breaks_the_builder(chunks: list[Any]) -> None:
    builder = TurnBuilder()
    for chunk in chunks:
        try:
            builder.feed(chunk)
            builder.feed({"choices": [{"delta": chunk}]})
        except BrokenAnswer:
            continue
    builder.finish = "stop"
    with suppress(BrokenAnswer):
        builder.turn([], [], (1.0, 1.0))


calls = st.lists(
    st.builds(
        lambda name, arguments: (name, json.dumps(arguments)),
        st.sampled_from(["grep", "run"]),
        st.dictionaries(st.text(max_size=8), st.text(max_size=60) | st.integers(), max_size=3),
    ),
    max_size=4,
)


@given(st.sampled_from([None, *HABITS]), st.text(max_size=80), st.text(max_size=80), calls)
def test_any_turn_comes_through_any_habit_of_a_server(
    habit: FaultKind | None, text: str, reasoning: str, wanted: list[tuple[str, str]]
) -> None:
    sent = AssistantTurn(
        text="x" + text,
        reasoning=reasoning,
        tool_calls=[
            ToolCall(id=f"c{place}", name=name, arguments=arguments)
            for place, (name, arguments) in enumerate(wanted)
        ],
    )
    answer = _Answer(1, sent, habit, 10)
    builder = TurnBuilder()
    for delta in answer._deltas():
        builder.feed(json.loads(json.dumps({"choices": [{"delta": delta}]})))
    builder.feed({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    whole = TurnBuilder()
    whole.feed_whole(json.loads(json.dumps(answer.whole())))
    for turn in (builder.turn([], [], (0, 0)), whole.turn([], [], (0, 0))):
        assert (turn.text, turn.reasoning) == (sent.text, sent.reasoning)
        assert [(call.name, call.arguments) for call in turn.tool_calls] == wanted


def test_the_module_of_the_same_name_is_not_in_the_way() -> None:
    import openai

    assert Path(openai.__file__).parent.name == "openai" and hasattr(openai, "AsyncOpenAI")
