"""Turns of an OpenAI-compatible endpoint: streamed or whole, through the habits of servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ModelEndpointError
from agent.models.faults import shown_url
from agent.models.openai import OpenAIModel
from agent.models.scripted_http import Reply, read_request
from agent.models.scripted_script import FaultKind
from agent.state import Message
from tests.openai_parts import (
    ASK,
    HABITS,
    TOOL,
    TURN,
    Pauses,
    check_whole,
    odd_server,
    scripted,
    settings_for,
    take,
)


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


async def test_an_endpoint_that_ignores_stream_is_understood() -> None:
    async def answer(reply: Reply) -> None:
        message = {"role": "assistant", "content": "Hello."}
        await reply.json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async with odd_server(answer) as url:
        turn, pauses = await take(url)
    assert turn.text == "Hello." and pauses == []


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


def test_the_module_of_the_same_name_is_not_in_the_way() -> None:
    import openai

    assert Path(openai.__file__).parent.name == "openai" and hasattr(openai, "AsyncOpenAI")
