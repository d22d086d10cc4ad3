"""A secret that arrives in two pieces, or is cut off where output is left out, shows no part of itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.canaries import OWN, Canary, canaries, shown
from tools import redact_own
from tools.capture import Collector
from tools.redact import redact

PART = 6
"""So many characters of a secret in a row count as a part of it."""

LINE = b"Nov 29 10:00:00 gpu1 engine[42]: Decode batch, #running-req: 1\n"
ROOM = 1024


@pytest.fixture(autouse=True)
def own() -> None:
    redact_own.know(OWN)


def in_two_pieces(canary: bytes, offset: int) -> bytes:
    taken = Collector(1 << 16)
    for piece in (LINE + canary[:offset], canary[offset:] + b"\n" + LINE):
        taken.feed(piece)
    return taken.capture().data


def cut_behind(canary: bytes, offset: int) -> bytes:
    """Return an output whose head ends ``offset`` bytes into the canary."""
    taken = Collector(2 * ROOM)
    lines = LINE * (ROOM // len(LINE) + 1)
    taken.feed(lines[offset - ROOM :])
    taken.feed(canary + b"\n" + LINE * 100)
    kept = taken.capture()
    assert kept.head.endswith(LINE + canary[:offset]) and not kept.complete
    return kept.data


def cut_before(canary: bytes, offset: int) -> bytes:
    """Return an output whose tail begins ``offset`` bytes into the canary."""
    taken = Collector(2 * ROOM)
    taken.feed(LINE * 100)
    rest = canary[offset:] + b"\n"
    taken.feed(canary[:offset] + rest)
    lines = LINE * (ROOM // len(LINE) + 1)
    taken.feed(lines[: ROOM - len(rest)])
    kept = taken.capture()
    assert kept.tail.startswith(rest) and not kept.complete
    return kept.data


@pytest.mark.threat(2)
@pytest.mark.parametrize("split", [in_two_pieces, cut_behind, cut_before])
def test_no_part_of_a_secret_is_left_by_a_split_at_any_offset(
    split: Callable[[bytes, int], bytes], record_property: Callable[[str, object], None]
) -> None:
    cases = 0
    leaks = []
    for canary in canaries():
        text = canary.text.encode()
        for offset in range(len(text) + 1):
            masked = redact(split(text, offset))
            cases += 1
            if part := shown(canary, masked, least=PART):
                leaks.append((canary.kind, offset, part))
    record_property("cases", cases)
    assert cases > 50 * 20
    assert leaks == []


@pytest.mark.threat(2)
@pytest.mark.parametrize("canary", canaries(), ids=lambda canary: canary.kind)
def test_every_kind_of_secret_is_masked_and_lines_stay(canary: Canary) -> None:
    text = f"before\n{canary.text}\nafter".encode()
    masked = redact(text)
    assert shown(canary, masked, least=PART) is None
    assert masked.startswith(b"before\n") and masked.count(b"\n") == text.count(b"\n")
    assert redact(masked) == masked


def test_there_are_fifty_kinds() -> None:
    assert len({canary.kind for canary in canaries()}) == 50
