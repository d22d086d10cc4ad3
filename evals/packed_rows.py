"""Lines of recordings: events without the source that they quote, and without what they only repeat.

Beside the forms of `evals.pack`, a row may hold ``{"$call": ID}``: the arguments of that call of an earlier
turn, or the conclusion that they make; and ``{"$cite": [HANDLE, [FIRST, LAST], QUOTE]}``: a citation, all
else of which stands where its artifact was kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.errors import TranscriptError
from agent.state import Conclusion
from evals.pack import Index, Lookup, PackError, loads, pack

CALL = "$call"
CITE = "$cite"

Row = dict[str, Any]


@dataclass(slots=True)
class _Told:
    """Hold what earlier rows told that later ones repeat."""

    calls: dict[str, str] = field(default_factory=dict)
    """Arguments as they were written, by the id of the call."""
    refs: dict[str, Row] = field(default_factory=dict)

    def note(self, row: Row) -> None:
        """Remember the calls of a turn, and the artifacts that a result or a trial kept."""
        for call in row.get("tool_calls", ()):
            self.calls[call["id"]] = call["arguments"]
        for ref in [row.get("artifact"), *row.get("artifacts", ())]:
            if isinstance(ref, dict):
                self.refs[ref["handle"]] = ref

    def arguments(self, call: str) -> Any:
        """Return what the arguments of a call say; None when they are not JSON."""
        try:
            return json.loads(self.calls[call])
        except ValueError:
            return None

    def citation(self, handle: str, lines: Any, quote: str) -> Row:
        """Return a whole citation, its fields in their order."""
        ref = self.refs[handle]
        head = {name: ref[name] for name in ("sha256", "host", "path", "label", "version")}
        return {"artifact": handle, **head, "lines": lines, "quote": quote, "taken_at": ref["taken_at"]}

    def concluded(self, conclusion: Row) -> str | None:
        """Return the call that made a conclusion, if it made just this one."""
        for ident in reversed(self.calls):
            arguments = self.arguments(ident)
            if isinstance(arguments, dict) and arguments.get("summary") == conclusion["summary"]:
                try:
                    return ident if _conclusion(arguments) == conclusion else None
                except ValueError:
                    return None
        return None


def line_of(row: Row) -> bytes:
    """Return an event as its line in a transcript."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def pack_rows(rows: Iterable[Row], index: Index) -> Iterator[bytes]:
    """Yield the packed line of each event of a transcript."""
    told = _Told()
    for row in rows:
        packed = pack(row, index)
        if row["type"] == "tool_started" and row["arguments"] == told.arguments(row["tool_call_id"]):
            packed["arguments"] = {CALL: row["tool_call_id"]}
        elif row["type"] == "conclusion_checked" and (ident := told.concluded(row["conclusion"])):
            packed["conclusion"] = {CALL: ident}
        for whole, (holder, place) in zip(_citations(row), _holders(packed), strict=True):
            holder[place] = _short(whole, holder[place], told)
        told.note(row)
        yield line_of(packed)


def unpack_rows(lines: Iterable[bytes], find: Lookup, path: Path) -> Iterator[Row]:
    """Yield the events as they were recorded; raise `TranscriptError` naming file, line and field."""
    told = _Told()
    for number, line in enumerate(lines, 1):
        try:
            row = loads(line, find)
            _restore(row, told)
            told.note(row)
        except PackError as error:
            raise TranscriptError(f"{path}:{number}: {_field(line, find)}: {error}") from error
        except RecursionError:
            raise TranscriptError(f"{path}:{number}: line: nested too deep for an event") from None
        except KeyError as error:
            raise TranscriptError(f"{path}:{number}: {error} is told by no line before this one") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise TranscriptError(f"{path}:{number}: line: not a packed event: {error}") from error
        yield row


def _restore(row: Row, told: _Told) -> None:
    kind = row.get("type")
    if kind == "tool_started" and CALL in row.get("arguments", ()):
        row["arguments"] = told.arguments(row["arguments"][CALL])
    elif kind == "conclusion_checked" and CALL in row.get("conclusion", ()):
        row["conclusion"] = _conclusion(told.arguments(row["conclusion"][CALL]))
    for holder, place in _holders(row):
        short = holder[place]
        if CITE in short:
            holder[place] = told.citation(*short[CITE])


def _short(whole: Row, packed: Row, told: _Told) -> Row:
    """Return a citation as its handle, lines and quote when the rest follows from them."""
    try:
        again = told.citation(whole["artifact"], whole["lines"], whole["quote"])
    except KeyError:
        return packed
    same = [*again.items()] == [*whole.items()]
    return {CITE: [whole["artifact"], whole["lines"], packed["quote"]]} if same else packed


def _citations(row: Row) -> list[Row]:
    return [holder[place] for holder, place in _holders(row)]


def _holders(row: Row) -> list[tuple[Any, Any]]:
    """Return where the citations of an event stand: the object or list, and the place in it."""
    if row.get("type") == "evidence_added":
        return [(row["evidence"], "citation")]
    if row.get("type") == "conclusion_checked":
        return [
            (check["citations"], place)
            for check in row["checks"]
            for place in range(len(check.get("citations", ())))
        ]
    return []


def _conclusion(arguments: Any) -> Any:
    return Conclusion.model_validate(arguments).model_dump(mode="json")


def _field(line: bytes, find: Lookup) -> str:
    """Return the field in which the first reference that leads nowhere stands."""

    def broken(value: Any, way: str) -> str | None:
        if isinstance(value, dict) and "$text" in value:
            return way if _fails(value, find) else None
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, item in items:
            further = way if str(key).startswith("$") else f"{way}.{key}".lstrip(".")
            if (found := broken(item, further)) is not None:
                return found
        return None

    return broken(json.loads(line), "") or "line"


def _fails(value: Any, find: Lookup) -> bool:
    try:
        loads(json.dumps(value), find)
    except PackError:
        return True
    return False
