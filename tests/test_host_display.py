"""What is shown hides nothing: each control and unseen character becomes a visible escape."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.display import printable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext\nnext line", "plain\ttext\nnext line"),
        ("naïve 汉字 Ω 🙂", "naïve 汉字 Ω 🙂"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("over\rwritten", "over\\x0dwritten"),
        ("back\b\x7f\x00", "back\\x08\\x7f\\x00"),
        ("rm \u202efr-\u202c x", "rm <U+202E>fr-<U+202C> x"),
        ("zero\u200bwidth\ufeff", "zero<U+200B>width<U+FEFF>"),
        ("soft\xadhyphen", "soft\\xadhyphen"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("line\u2028separator", "line<U+2028>separator"),
        ("half\udc80", "half<U+DC80>"),
        ("filler\u3164\u2800\ufe0f", "filler<U+3164><U+2800><U+FE0F>"),
    ],
)
def test_examples(raw: str, shown: str) -> None:
    assert printable(raw) == shown


@pytest.mark.threat(7)
def test_no_control_or_format_character_passes(record_property: Callable[[str, object], None]) -> None:
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    tried = 0
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) in unseen and char not in "\n\t":
            tried += 1
            assert char not in printable(char), hex(code)
    record_property("cases", tried)


@given(st.text())
def test_nothing_is_dropped_and_twice_is_once(text: str) -> None:
    shown = printable(text)
    assert len(shown) >= len(text)
    assert printable(shown) == shown
