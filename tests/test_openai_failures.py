"""An endpoint that fails, refuses or breaks off: what is tried again, and what the one line says."""

from __future__ import annotations

import time
from email.utils import formatdate

import httpx2
import pytest
from openai import APIStatusError

from agent.errors import ExitCode, ModelEndpointError
from agent.models.faults import fault_of
from agent.models.openai import OpenAIModel
from agent.models.scripted_http import Reply
from agent.models.scripted_script import FaultKind
from tests.openai_parts import (
    ASK,
    TOOL,
    Pauses,
    check_whole,
    odd_server,
    scripted,
    settings_for,
    take,
)

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


async def test_nobody_listens() -> None:
    async with scripted() as (_, url):
        pass
    with pytest.raises(
        ModelEndpointError, match=r"no connection \(.*\), 4 times; check that the server runs"
    ):
        await take(url)


async def test_an_answer_without_an_end_was_cut() -> None:
    async def answer(reply: Reply) -> None:
        reply.begin_stream()
        await reply.event('{"choices": [{"index": 0, "delta": {"content": "Half of"}}]}')
        await reply.event("[DONE]")
        await reply.end_stream()

    async with odd_server(answer) as url:
        with pytest.raises(ModelEndpointError, match="broke off in the middle, 2 times"):
            await take(url, model_retries=1)


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
