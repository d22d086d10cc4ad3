"""Show a quote where it stands: marked, in the lines around it in the stored output, with their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from agent.quotes import StoredText, StoredTexts, cuts_word
from agent.state import Citation, Record
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, ToolError

_AROUND = 2
_MARKED_LINES = 12
_EDGE, _MARKED = 240, 1200


class Piece(Record):
    """A run of text that is inside the quote or outside it."""

    text: str
    marked: bool = False


class Row(Record):
    """One line of the stored output; a number of None stands for lines left out."""

    number: int | None
    pieces: list[Piece]


class Snippet(Record):
    """A citation with its context, or several that stand close; ``why`` says why there is no context."""

    citation: Citation
    also: list[Citation] = Field(default_factory=list)
    rows: list[Row]
    why: str = ""


class Contexts:
    """Make snippets of the artifacts of one investigation, each artifact read once."""

    def __init__(self, refs: Mapping[str, ArtifactRef], store: ArtifactStore) -> None:
        self._refs = refs
        self._texts = StoredTexts(store)

    def together(self, citations: Sequence[Citation]) -> list[Snippet]:
        """Return citations in their contexts, those of one output whose contexts touch as one."""
        made: list[Snippet] = []
        seen = {(one.artifact, one.lines, one.quote): one for one in citations}
        for one in map(self._raw, seen.values()):
            near = next((index for index, other in enumerate(made) if _touch(one, other)), None)
            if near is None:
                made.append(one)
            else:
                made[near] = _merged(made[near], one)
        return [_outdented(one) for one in made]

    def of(self, citation: Citation) -> Snippet:
        """Return a citation in its context, or alone where the stored output is gone or changed."""
        return _outdented(self._raw(citation))

    def _raw(self, citation: Citation) -> Snippet:
        ref = self._refs.get(citation.artifact)
        if ref is None:
            return _alone(citation, f"{citation.artifact} is not in the transcript")
        try:
            return _around(citation, self._texts.of(ref))
        except ToolError as error:
            return _alone(citation, str(error))


def _alone(citation: Citation, why: str) -> Snippet:
    piece = Piece(text=_cut(citation.quote, citation.artifact), marked=True)
    return Snippet(citation=citation, rows=[Row(number=citation.lines[0], pieces=[piece])], why=why)


def _around(citation: Citation, stored: StoredText) -> Snippet:
    first, last = citation.lines
    block = stored.between(first, last)
    span = _place(block, citation.quote)
    if span is None:
        return _alone(citation, f"the quote does not stand at these lines of {citation.artifact}")
    rows = _plain(stored, max(stored.first_line, first - _AROUND), first - 1)
    rows += _marked(block, span, first, citation.artifact)
    rows += _plain(stored, last + 1, min(stored.last_line, last + _AROUND))
    return Snippet(citation=citation, rows=rows)


def _touch(one: Snippet, other: Snippet) -> bool:
    """Tell whether two contexts of one output meet or overlap, with no line marked in both."""
    if one.why or other.why or one.citation.artifact != other.citation.artifact:
        return False
    left, right = _numbered(one), _numbered(other)
    marked = [{number for number, row in rows.items() if _marks(row)} for rows in (left, right)]
    if len(left) < len(one.rows) or len(right) < len(other.rows) or marked[0] & marked[1]:
        return False
    return min(left) <= max(right) + 1 and min(right) <= max(left) + 1


def _merged(one: Snippet, other: Snippet) -> Snippet:
    rows = _numbered(one)
    for number, row in _numbered(other).items():
        if number not in rows or _marks(row):
            rows[number] = row
    also = [*one.also, other.citation]
    return one.model_copy(update={"also": also, "rows": [rows[number] for number in sorted(rows)]})


def _numbered(snippet: Snippet) -> dict[int, Row]:
    return {row.number: row for row in snippet.rows if row.number is not None}


def _marks(row: Row) -> bool:
    return any(piece.marked for piece in row.pieces)


def _place(block: str, quote: str) -> tuple[int, int] | None:
    """Return where a quote stands in its lines, preferring a place that cuts no word."""
    words = re.findall(r"[^\s\x00]+", quote)
    if not words:
        return None
    spans = [match.span() for match in re.finditer(r"[\s\x00]+".join(map(re.escape, words)), block)]
    whole = [span for span in spans if not cuts_word(block, *span)]
    return next(iter(whole or spans), None)


def _plain(stored: StoredText, first: int, last: int) -> list[Row]:
    rows = []
    for number in range(first, last + 1):
        text = stored.line(number)
        rest = f" … [{len(text) - _EDGE:,} more characters]" if len(text) > _EDGE else ""
        rows.append(Row(number=number, pieces=[Piece(text=text[:_EDGE] + rest)]))
    return rows


def _marked(block: str, span: tuple[int, int], first: int, handle: str) -> list[Row]:
    rows: list[Row] = []
    start = 0
    lines = block.rstrip("\n").split("\n")
    for index, line in enumerate(lines):
        begin, end = max(span[0] - start, 0), min(span[1] - start, len(line))
        start += len(line) + 1
        if index == _MARKED_LINES and len(lines) > _MARKED_LINES + 1:
            told = f"… {len(lines) - index} more lines of the quote, whole in {handle}"
            return [*rows, Row(number=None, pieces=[Piece(text=told)])]
        rows.append(Row(number=first + index, pieces=_pieces(line, begin, max(begin, end), handle)))
    return rows


def _pieces(line: str, begin: int, end: int, handle: str) -> list[Piece]:
    head, tail = line[:begin], line[end:]
    if len(head) > _EDGE:
        head = f"[{len(head) - _EDGE:,} characters before] … {head[-_EDGE:]}"
    if len(tail) > _EDGE:
        tail = f"{tail[:_EDGE]} … [{len(tail) - _EDGE:,} more characters, whole in {handle}]"
    pieces = [Piece(text=head), Piece(text=_cut(line[begin:end], handle), marked=True), Piece(text=tail)]
    return [piece for piece in pieces if piece.text]


def _cut(text: str, handle: str) -> str:
    if len(text) <= _MARKED:
        return text
    half = _MARKED // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]} … [{left_out:,} characters left out, whole in {handle}] … {text[-half:]}"


def _outdented(snippet: Snippet) -> Snippet:
    """Return a snippet without the indent that its rows share: deep source then fits on a phone."""
    rows = snippet.rows
    texts = ["".join(piece.text for piece in row.pieces) for row in rows if row.number is not None]
    indents = [len(text) - len(text.lstrip(" ")) for text in texts if text.strip()]
    shared = min(indents, default=0)
    return snippet.model_copy(update={"rows": [_less(row, shared) for row in rows]})


def _less(row: Row, shared: int) -> Row:
    if not row.pieces or row.number is None:
        return row
    first = row.pieces[0]
    gone = min(shared, len(first.text) - len(first.text.lstrip(" ")))
    return row.model_copy(
        update={"pieces": [first.model_copy(update={"text": first.text[gone:]}), *row.pieces[1:]]}
    )
