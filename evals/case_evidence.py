"""Turn what a run cited into the evidence that a new case asks for: places that other runs can find."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agent.state import Citation, Evidence, EvidenceKind, Hypothesis, Prediction
from evals import regions
from evals.case_patterns import quote_pattern, source_pattern
from evals.findings import Findings
from evals.stored import Stored
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef
from tools.scopes import symbol_of
from tools.statements import find_symbol, first_line
from tools.syntax import parse, steps_to

_SITE = re.compile(r".*/(?:site|dist)-packages/[^/]+/(.+)")
_HOME = re.compile(r"/home/[^/]+/(.+)")
_CLAIMED: dict[str, EvidenceKind] = {
    "setting": "configuration",
    "guard": "source",
    "log_event": "log",
    "measurement": "measurement",
}
"""Kind of a claim's citation, where its output does not tell it better."""


class EvidenceMaker:
    """Make the evidence of one run."""

    def __init__(self, found: Findings, store: ArtifactStore, cache: Path) -> None:
        self._found = found
        self._stored = Stored(store)
        self._cache = cache

    def of_hypothesis(
        self, hypothesis: Hypothesis, name: str, settings: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Yield what met a prediction; pieces for one prediction share a group, so that one is enough."""
        predictions = {one.id: one for one in hypothesis.predictions}
        met: dict[str, list[Evidence]] = {}
        for link in hypothesis.links:
            if link.matched and link.evidence in self._found.evidence:
                met.setdefault(link.prediction, []).append(self._found.evidence[link.evidence])
        for prediction, pieces in met.items():
            for count, piece in enumerate(pieces, 1):
                ident = f"{name}-{plain(prediction)}"
                made = self._proof(piece.citation, piece.kind, settings, predictions.get(prediction))
                if made is not None:
                    tail = {"group": ident} if len(pieces) > 1 else {}
                    yield {"id": ident if count == 1 else f"{ident}-{count}", **made, **tail}

    def of_claims(self) -> Iterator[dict[str, Any]]:
        """Yield the citations of verified claims: for conclusions whose hypotheses hold no evidence."""
        conclusion = self._found.conclusion
        for check in self._found.checks if conclusion else ():
            claim = conclusion.claims[check.index] if conclusion else None
            kind = _CLAIMED.get(claim.type) if claim else None
            if check.status == "verified" and kind is not None and check.citations:
                made = self._proof(check.citations[0], kind, (), None)
                if made is not None:
                    yield {"id": f"claim-{check.index}", **made}

    def _proof(
        self,
        citation: Citation,
        kind: EvidenceKind,
        settings: Sequence[str],
        prediction: Prediction | None,
    ) -> dict[str, Any] | None:
        ref = self._found.artifacts.get(citation.artifact)
        if ref is None:
            return None
        check = prediction.check if prediction else None
        if ref.package and ref.path:
            return self._source(ref, citation, source_pattern(citation.quote, settings, check))
        if kind == "source":
            kind = "configuration"  # a file of the host, or a command that printed one
        made: dict[str, Any] = {"kind": kind, "quote": quote_pattern(citation.quote, check)}
        if ref.path and not ref.path.startswith("/proc/"):
            home = _HOME.fullmatch(ref.path)
            made["path"] = home[1] if home else ref.path
        return made

    def _source(self, ref: ArtifactRef, citation: Citation, pattern: str) -> dict[str, Any]:
        path = ref.path or ""
        inside = _SITE.fullmatch(path)
        made: dict[str, Any] = {
            "kind": "source",
            "package": ref.package,
            "path": inside[1] if inside else path.rpartition("/")[2],
        }
        symbol = self._symbol(ref, citation)
        return {**made, **({"symbol": symbol} if symbol else {}), "quote": pattern}

    def _symbol(self, ref: ArtifactRef, citation: Citation) -> str | None:
        """Return the innermost symbol around a citation, by the fetched source or else by the output."""
        file = regions.package_file(ref.package or "", ref.version or "", ref.path or "", self._cache)
        data = file.read_bytes() if file else self._stored.whole(ref) if ref.complete else None
        return None if data is None else symbol_around(data, citation.lines)


def symbol_around(data: bytes, lines: tuple[int, int]) -> str | None:
    """Return the innermost symbol that holds all these lines; None where none does, or it is no Python."""
    try:
        module = parse(data)
    except SyntaxError:
        return None
    first, last = lines
    if not 1 <= first <= len(module.lines):
        return None
    text = module.lines[first - 1]
    way = steps_to(module, first, len(text) - len(text.lstrip()))
    outer = symbol_of(way)
    names = [outer] if outer else []
    field = re.match(rb"\s*([A-Za-z_]\w*)\s*[:=]", text)
    if outer and field:
        names.insert(0, f"{outer}.{field[1].decode()}")
    while names:
        name = names.pop(0)
        found = find_symbol(module, name)
        if found is not None and first_line(found) <= first and last <= (found.end_lineno or 0):
            return name
        if not names and "." in name:
            names.append(name.rpartition(".")[0])
    return None


def plain(text: str, longest: int = 40) -> str:
    """Return lower-case letters, digits and hyphens of a text, for an id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:longest].strip("-") or "x"
