"""Addresses of foreign hosts in text for people are no links: nothing fetches them for a preview."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from agent import inert
from agent.defang import defang

FOREIGN = [
    "https://evil.example/x?d=SECRET",
    "http://evil.com",
    "HTTPS://EVIL.COM/a",
    "ftp://evil.com/a",
    "hxp+weird://evil.io/q",
    "https://user:pass@evil.com/",
    "https://8.8.8.8/x",
    "http://3232235777/",
    "http://0x08080808/",
    "http://[2001:4860:4860::8888]/x",
    "https:////evil.com/x",
    "<https://evil.com|click me>",
    "[text](https://evil.com/a)",
    "![img](http://evil.com/a.png)",
    "![img](//evil.com/a.png)",
    "//evil.com/a.png",
    "www.evil.com/secret",
    "evil.com/secret",
    "see evil.dev.",
    "a@evil.com",
    "mailto:a@evil.com",
    "https://sub.a-b.evil.co.uk:8443/x#y",
    "https://bücher.example/x",
    "(https://evil.com)",
    "x=https://evil.com&y=http://also.evil.net/z",
    "https://evil.com.",
    "https://evil\N{IDEOGRAPHIC FULL STOP}example/x",
    "https://evil\N{FULLWIDTH FULL STOP}example/x",
    "_http://evil.example/x_",
    "__https://evil.example__",
    "1http://evil.example/",
    "\N{CJK UNIFIED IDEOGRAPH-4E2D}https://evil.example/x",
    "_www.evil.example_ and _evil.com_",
    "_mailto:a@evil.com_",
    "https://0310.0.0.1/x",
    "https://8.525314/x",
    "https://020402004010/",
    "https://evil%2eexample/",
    "https://a@127.0.0.1%40evil.example/",
    "https://\N{CIRCLED DIGIT ONE}.0.0.1/",
]
OURS = [
    "http://127.0.0.1:30000/v1/models",
    "http://localhost:8000/health",
    "http://10.0.0.7:9100/metrics",
    "http://[::1]:30000/",
    "http://gpu1:30000/",
    "http://$HOST:30000/ http://{host}/ file:///etc/x unix:///run/x.sock lab://kimi#1",
    "server_args.py line 12, engine.service, 0.5.11, v1.2.3",
    "sglang/srt/server_args.py::ServerArgs.method",
    "torch.cuda.graphs and model.config.json",
    "5.2 tok/s at 10:00:00; ratio 1.25",
    "root@gpu1",
]
LINK = re.compile(
    r"(?i)[a-z][a-z0-9+.-]*://(?!127\.|localhost|10\.|\[::1\]|gpu1)|mailto:|(?<![\w\]/])//\w|www\.\w|\w@\w+\.\w|evil\.\w"
)


@pytest.mark.threat(3)
def test_no_foreign_address_stays_a_link(record_property: Callable[[str, object], None]) -> None:
    for text in FOREIGN:
        clean = defang(text)
        assert LINK.search(text), text
        assert not LINK.search(clean), clean
        assert defang(clean) == clean
        assert clean.replace("[", "").replace("]", "") == text.replace("[", "").replace("]", "")
    record_property("cases", len(FOREIGN))


@pytest.mark.threat(3)
@pytest.mark.parametrize("text", OURS)
def test_our_own_addresses_and_names_of_files_stay(text: str) -> None:
    assert defang(text) == text


@pytest.mark.threat(3)
def test_words_of_a_case_file_hold_no_link() -> None:
    for text in FOREIGN:
        assert not LINK.search(inert.line(text).replace("\\", "")), text
        assert not LINK.search(inert.prose(f"one\n{text}").replace("\\", "")), text


def test_a_host_of_the_investigation_is_no_foreign_one() -> None:
    assert defang("http://gpu1.example.com:30000/", {"gpu1.example.com"}) == "http://gpu1.example.com:30000/"
    assert "[.]" in defang("http://gpu1.example.com:30000/", {"gpu2.example.com"})
