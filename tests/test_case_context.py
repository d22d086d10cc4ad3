from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.case_context import Contexts
from agent.state import Citation
from tests.test_casefile import NOW
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef


def context(
    store: ArtifactStore, data: bytes, lines: tuple[int, int], quote: str, first_line: int = 1
) -> Any:
    sha256 = store.put(data)
    ref = ArtifactRef(
        handle="t1.1", sha256=sha256, size=1, label="l", host="h", first_line=first_line, taken_at=NOW
    )
    citation = Citation(
        artifact="t1.1", sha256=sha256, host="h", label="l", lines=lines, quote=quote, taken_at=NOW
    )
    return Contexts({"t1.1": ref}, store).of(citation)


def shown(snippet: Any) -> list[tuple[int | None, str]]:
    return [
        (row.number, "".join(f"[{piece.text}]" if piece.marked else piece.text for piece in row.pieces))
        for row in snippet.rows
    ]


def test_a_quote_stands_in_its_lines(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    data = b"    one\n    two\n    if a  and\n        b: c\n    five\n    six\n    seven\n"
    found = context(store, data, (102, 103), "if a and b:", first_line=100)
    assert shown(found) == [
        (100, "one"), (101, "two"), (102, "[if a  and]"), (103, "[    b:] c"), (104, "five"), (105, "six"),
    ]  # fmt: skip


def test_a_quote_is_marked_where_it_cuts_no_word(tmp_path: Path) -> None:
    found = context(ArtifactStore(tmp_path), b"pp_size 80 pp_size 8 x\n", (1, 1), "pp_size 8")
    assert shown(found) == [(1, "pp_size 80 [pp_size 8] x")]


def test_long_lines_and_long_quotes_are_cut_around_the_quote(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    data = b"x" * 100_000 + b" needle " + b"y" * 100_000 + b"\n" + b"z" * 100_000 + b"\n"
    [(number, text), (_, below)] = shown(context(store, data, (1, 1), "needle"))
    assert number == 1 and "[needle]" in text and len(text) < 700
    assert "characters before]" in text and "whole in t1.1]" in text and len(below) < 400
    [(_, quoted)] = shown(context(store, b"w" * 100_000, (1, 1), "w" * 100_000))
    assert len(quoted) < 1400 and "98,800 characters left out, whole in t1.1" in quoted


def test_quotes_that_stand_close_share_a_context(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    data = b"".join(b"    line %d\n" % number for number in range(1, 30))
    first = context(store, data, (9, 9), "line 9").citation
    cited = [first.model_copy(update={"lines": (at, at), "quote": f"line {at}"}) for at in (9, 4, 20, 9)]
    ref = ArtifactRef(handle="t1.1", sha256=first.sha256, size=1, label="l", host="h", taken_at=NOW)
    close, far = Contexts({"t1.1": ref}, store).together(cited)
    assert [number for number, _ in shown(close)] == list(range(2, 12))
    assert [text for _, text in shown(close) if "[" in text] == ["[line 4]", "[line 9]"]
    assert [one.lines for one in (close.citation, *close.also)] == [(9, 9), (4, 4)]
    assert len(shown(far)) == 5


def test_a_lost_or_changed_output_is_told(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    assert "does not stand at these lines" in context(store, b"a\nb\n", (2, 2), "a").why
    store.put(b"other\n")
    found = context(store, b"gone\n", (1, 1), "gone")
    store.path(found.citation.sha256).write_bytes(b"forged")
    again = context_again(store, found.citation)
    assert "was changed on disk" in again.why and shown(again) == [(1, "[gone]")]


def context_again(store: ArtifactStore, citation: Citation) -> Any:
    ref = ArtifactRef(handle="t1.1", sha256=citation.sha256, size=1, label="l", host="h", taken_at=NOW)
    return Contexts({"t1.1": ref}, store).of(citation)
