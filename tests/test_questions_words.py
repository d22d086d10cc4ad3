"""Questions in the words of those who run hosts: short, sloppy, German, as in Slack; each is of its kind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent.models.questions_parse import parse
from agent.models.questions_query import Seen
from agent.models.questions_words import english, mended
from agent.questions import is_question

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
HOSTS = ("gpu1", "gpu2", "gpu3")
SEEN = Seen(("kimi-k2.6", "qwen3.6-35b-a3b"), ("max_running_requests", "mem_fraction_static"))

SAID = {
    "versions": """
        which version is on gpu3?
        sglang version everywhere
        torch version?
        nvidia driver version on all hosts
        what kernel are we on
        do all hosts run the same sglang version?
        which is the oldest sglang?
        anyone still on 0.5.11?
        who's still on 0.5.11
        gpu1 and gpu2 both on 0.5.11?
        is transformers older than 5.9 anywhere
        any host with torch < 2.12?
        flashinfer version on gpu1 vs gpu2
        hey, which version is gpu2 on?
        I need to know which sglang version gpu1 has
        welche treiber version
        welche version läuft auf gpu1?
    """,
    "engines": """
        what runs where?
        who runs kimi?
        where is kimi running?
        which hosts serve Kimi-K2?
        does gpu3 serve kimi?
        do we have any vllm boxes?
        model on gpu3?
        gpu3: what runs there?
        which port is vllm on
        hi team, can someone tell me which hosts run vllm?
        was läuft auf den kisten?
        wer läuft mit vllm?
    """,
    "gpus": """
        how many gpus per host
        which gpu type is in gpu2
        how much vram do the gpus have?
        what's the power limit on gpu1
        how much power does the fleet draw?
        is anything idle
        which gpus are idle and which are busy
        wie viel speicher haben die gpus
    """,
    "feature": """
        is cuda graph on on gpu1?
        cuda graphs on gpu2?
        is gpu2 running with graphs
        where is chunked prefill on
        which hosts have metrics enabled
        custom all reduce on gpu1?
        is eagle enabled?
        ist auf gpu2 cuda graph aus?
    """,
    "setting": """
        max running requests on gpu2?
        what's max_running_requests
        whats the pp size of gpu1
        tp on gpu1?
        kv cache dtype on gpu1?
        what is mem fraction on gpu2
        which attention backend is used?
        what context length does gpu1 serve?
        is mem_fraction_static the same on all hosts?
    """,
    "compare": """
        are gpu1 and gpu2 identical?
        diff gpu1 gpu2
        gpu1 vs gpu2
        how is gpu2 different from gpu1?
        is gpu2 configured like gpu1?
        does gpu1 match gpu2
        gpu2 is slower than gpu1, any idea?
        compare prefill on gpu1 and gpu2
        wieso ist gpu2 langsamer als gpu1?
    """,
    "changes": """
        what changed?
        anything changed on gpu2 in the last 24h?
        did someone change something on gpu1 today?
        anything new since monday?
        what's new on gpu1?
        which hosts were restarted today?
        did gpu1 restart since yesterday?
        was gpu1 upgraded?
        hat jemand auf gpu2 seit gestern geändert?
    """,
    "since": """
        uptime of gpu1
        how long is gpu3 up
        when did gpu1 last restart?
        how often did gpu1 restart?
        seit wann läuft gpu1
    """,
    "health": """
        status?
        gpu2 ok?
        all good?
        anything down?
        do you know if gpu3 is up?
        was ist auf gpu1 los?
    """,
    "launch": "launch command of gpu2?\nshow me the flags of gpu1\nwhat flags is gpu2 started with?",
    "environ": "env vars on gpu1?",
    "variable": "NCCL_P2P_DISABLE?\nwhat's CUDA_DEVICE_ORDER on gpu1 and gpu2?",
    "hardware": "disk space on gpu1?\nhow much RAM does gpu2 have?\ncpu count?",
    "dropins": "any drop-ins?\ncould you list the drop-ins\nzeig mir die drop-ins\ngibts drop-ins auf gpu1?",
    "reload": "does any unit need daemon-reload\nis the unit file on gpu1 edited but not reloaded?",
    "differ": "whats the diff between the boxes?\nany config drift?\nwhy is gpu2 different?",
}
ALL = [(line.strip(), kind) for kind, text in SAID.items() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("text", "kind"), ALL)
def test_what_people_write_is_a_question_understood_whole(text: str, kind: str) -> None:
    assert is_question(text)
    query = parse(text, HOSTS, NOW, SEEN)
    assert (query.kind, query.unread) == (kind, ())


def test_there_are_enough_of_them() -> None:
    assert len(ALL) >= 100


@pytest.mark.parametrize(
    "text",
    [
        "why is gpu2 slow?",
        "any errors in the logs of gpu1?",
        "low GPU power?",
        "GPUs at 85 W of 600 W?",
        "24 tok/s?",
    ],
)
def test_trouble_in_few_words_stays_a_symptom(text: str) -> None:
    assert not is_question(text)


def test_german_is_told_from_english_words_that_look_like_it() -> None:
    assert english("was gpu1 restarted?") == "was gpu1 restarted?"
    assert english("was läuft auf gpu1?") == "what runs on gpu1?"
    assert english("which image tag is in the unit?") == "which image tag is in the unit?"


def test_only_one_slip_in_a_long_word_that_nothing_else_explains_is_mended() -> None:
    assert mended("whcih hosts run sglnag")[1] == {"whcih": "which", "sglnag": "sglang"}
    assert mended("which hosts run slang")[1] == {"slang": "sglang"}
    for text in ("which hosts run vlm", "where were they", "gpu22 on node-1", "is --disable-cuda-grpah set"):
        assert mended(text)[1] == {}, text
