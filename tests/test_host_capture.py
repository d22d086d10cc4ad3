"""Bounded copies of a stream: the head and the tail are exact, whatever the pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tools.capture import Collector


@given(pieces=st.lists(st.binary(max_size=40), max_size=40), limit=st.integers(0, 200))
def test_head_and_tail_are_exact(pieces: list[bytes], limit: int) -> None:
    collector = Collector(limit)
    for piece in pieces:
        collector.feed(piece)
    whole = b"".join(pieces)
    kept = collector.capture()
    assert kept.total == len(whole)
    assert kept.complete == (len(whole) <= limit)
    if kept.complete:
        assert kept.data == whole
    else:
        assert kept.head == whole[: limit // 2]
        assert kept.tail == whole[len(whole) - (limit - limit // 2) :]


def test_a_stream_of_single_bytes_and_one_of_large_pieces() -> None:
    single, large = Collector(300_000), Collector(300_000)
    data = bytes(number % 251 for number in range(1_000_000))
    for number in range(len(data)):
        single.feed(data[number : number + 1])
    for start in range(0, len(data), 262_144):
        large.feed(data[start : start + 262_144])
    assert single.capture() == large.capture()
    assert single.capture().tail == data[-150_000:]
    assert single._held < 150_000 + 2 * 65_536
