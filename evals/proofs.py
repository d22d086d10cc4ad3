"""Hold what a run cites against the evidence that a case asks for, and find every quote again.

A proof is met by a citation of a verified claim of the conclusion, or by evidence that met a prediction of a
hypothesis which the conclusion names. Neither is believed: the output must be in the store under its digest,
must have been returned by a call of this run, and the quote must stand at the cited lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from agent.checks import compile_pattern
from agent.own_words import refuse_own_words
from agent.quotes import StoredText
from agent.state import AbsenceClaim, Citation, EvidenceKind
from evals import regions
from evals.case import Case, Proof
from evals.findings import Call, Findings
from evals.patterns import found_in
from evals.scenario_package import version_of
from evals.stored import Stored
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, ToolError

_NEVER_FROM: Final[dict[EvidenceKind, frozenset[str]]] = {
    "source": frozenset({"facts", "journal", "benchmark"}),
    "log": frozenset({"benchmark"}),
    "configuration": frozenset({"benchmark"}),
    "measurement": frozenset({"grep", "settings"}),
    "absence": frozenset(),
}
"""Tools whose output is never evidence of a kind."""
_NEVER_SOURCE: Final[frozenset[EvidenceKind]] = frozenset({"log", "measurement"})
"""Kinds that installed source cannot be: it says what a program would print, not what it did."""
LONGEST: Final = 2000
"""Characters of a quote that still points at something; a whole file or log as a quote proves nothing."""
MOST_QUOTED: Final = 20_000
"""Characters that all quotes of a run may have; who cites everything chose nothing. Our runs have 3,000."""
_WORD: Final = re.compile(r"[^\s'\"|;&<>]+")
_UNKNOWN: Final = (1, 1)


@dataclass(frozen=True, slots=True)
class Cited:
    """Hold a citation with the output it is from."""

    citation: Citation
    ref: ArtifactRef
    tool: str


@dataclass(slots=True)
class Proven:
    """Say which of a case's proofs a run met; of a group, one is enough."""

    met: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be checked as closely as the case asks."""

    @property
    def share(self) -> float:
        """Return the share that was met."""
        count = len(self.met) + len(self.missed)
        return len(self.met) / count if count else 0.0


class Proofs:
    """Judge the citations of one run."""

    def __init__(self, case: Case, found: Findings, store: ArtifactStore, cache: Path) -> None:
        self._case = case
        self._found = found
        self._stored = Stored(store)
        self._cache = cache
        self._real: dict[tuple[str, str, tuple[int, int], str], bool] = {}
        self._notes: dict[str, None] = {}

    def real(self, citation: Citation) -> bool:
        """Tell whether a citation's output is stored, is of this run, and holds the quote at its lines."""
        key = (citation.artifact, citation.sha256, citation.lines, citation.quote)
        if key not in self._real:
            cited = self._origin(citation)
            self._real[key] = cited is not None and self._holds(cited)
        return self._real[key]

    def proves(self, citation: Citation) -> bool:
        """Tell whether a citation is real, and of the kind and from the place of a proof of the case."""
        cited = self._origin(citation)
        meets = cited is not None and any(self._meets(proof, cited) for proof in self._case.evidence)
        return meets and self.real(citation)

    def proven(self) -> Proven:
        """Hold everything that counts as cited against the case's proofs."""
        cited = list(self._cited())
        groups: dict[str, list[Proof]] = {}
        for proof in self._case.evidence:
            groups.setdefault(proof.group or proof.id, []).append(proof)
        result = Proven()
        for name, proofs in groups.items():
            met = any(self._met(proof, cited) for proof in proofs)
            (result.met if met else result.missed).append(name)
        result.notes = list(self._notes)
        return result

    def _cited(self) -> Iterator[Cited]:
        """Yield what counts as cited, each citation once; nothing where all that there is was cited."""
        quoted = {
            (citation.artifact, citation.lines, citation.quote): citation for citation in self._citations()
        }
        if sum(len(quote) for _, _, quote in quoted) > MOST_QUOTED:
            self._notes[f"more than {MOST_QUOTED:,} characters are quoted, which points at nothing"] = None
            return
        for citation in quoted.values():
            if (cited := self._origin(citation)) is not None:
                yield cited

    def _citations(self) -> Iterator[Citation]:
        for check in self._found.checks:
            if check.status == "verified":
                yield from check.citations
        for hypothesis in self._found.named():
            for evidence in self._found.matched(hypothesis):
                yield evidence.citation

    def _origin(self, citation: Citation) -> Cited | None:
        """Return the citation with its output; None when no call of this run returned that output."""
        ref = self._found.artifacts.get(citation.artifact)
        call = self._found.calls.get(citation.artifact.split(".", 1)[0])
        if ref is None or call is None or ref.sha256 != citation.sha256 or ref.host != citation.host:
            return None
        return Cited(citation, ref, call.tool)

    def _holds(self, cited: Cited) -> bool:
        text = self._stored.between(cited.ref, cited.citation.lines)
        if (
            text is None
            or len(cited.citation.quote) > LONGEST
            or _own_words(cited.tool, cited.ref, cited.citation.quote)
        ):
            return False
        return next(StoredText(text, cited.citation.lines[0]).find(cited.citation.quote), None) is not None

    def _met(self, proof: Proof, cited: Sequence[Cited]) -> bool:
        if proof.kind == "absence":
            return self._absent(proof)
        return any(self._meets(proof, one) and self.real(one.citation) for one in cited)

    def _meets(self, proof: Proof, cited: Cited) -> bool:
        """Tell whether a citation is of the kind and from the place that a proof asks for."""
        package = cited.ref.package
        if cited.tool in _NEVER_FROM[proof.kind] or (package and proof.kind in _NEVER_SOURCE):
            return False
        if proof.package and package and package != proof.package:
            return False
        if proof.path and not _is_from(cited.ref, proof.path):
            return False
        if proof.quote and not found_in(proof.quote, cited.citation.quote):
            return False
        if proof.label and not found_in(proof.label, cited.ref.label):
            return False
        return not proof.path or self._inside(proof, cited)

    def _inside(self, proof: Proof, cited: Cited) -> bool:
        """Tell whether a citation lies in the proof's region, as far as the region can be known."""
        if not proof.symbol and proof.lines is None:
            return True
        where = [cited.citation.lines] if cited.ref.path else self._places(proof, cited)
        if proof.lines is not None:
            where = [lines for lines in where if _overlap(lines, proof.lines)]
        if proof.symbol and (region := self._region(proof, cited)) is not None:
            where = [lines for lines in where if region[0] <= lines[0] and lines[1] <= region[1]]
        return bool(where)

    def _region(self, proof: Proof, cited: Cited) -> tuple[int, int] | None:
        package = proof.package or cited.ref.package or ""
        path = cited.ref.path or proof.path
        region = None
        if package:
            region = regions.symbol_lines(package, self._version(cited), path, proof.symbol, self._cache)
        if region is None:
            name = f"{package or 'its package'} {self._version(cited)}".strip()
            self._notes[f"{proof.id}: the source of {name} is not cached: path and quote alone count"] = None
        return region

    def _version(self, cited: Cited) -> str:
        if cited.citation.version:
            return cited.citation.version
        started = self._found.started
        return version_of((started.scenario if started else None) or next(iter(self._case.scenarios), ""))

    def _places(self, proof: Proof, cited: Cited) -> Sequence[tuple[int, int]]:
        """Return where in the file a quote stands that was printed without the file's line numbers."""
        package = proof.package or cited.ref.package or ""
        file = regions.package_file(package, self._version(cited), proof.path, self._cache)
        if file is None:
            return [proof.lines or _UNKNOWN]
        text = StoredText(file.read_bytes())
        return [place.lines for place in text.find(cited.citation.quote)]

    def _absent(self, proof: Proof) -> bool:
        """Tell whether a verified absence, or evidence of one, is what a proof asks for."""
        if self._found.conclusion is not None:
            claims = self._found.conclusion.claims
            for check in self._found.checks:
                claim = claims[check.index] if check.index < len(claims) else None
                if check.status == "verified" and isinstance(claim, AbsenceClaim):
                    call = self._found.calls.get(claim.call)
                    if call is not None and self._searched(proof, claim, call):
                        return True
        return any(
            evidence.kind == "absence"
            and (cited := self._origin(evidence.citation)) is not None
            and self._meets(proof, cited)
            and self.real(evidence.citation)
            for hypothesis in self._found.named()
            for evidence in self._found.matched(hypothesis)
        )

    def _searched(self, proof: Proof, claim: AbsenceClaim, call: Call) -> bool:
        if call.finished is None or (proof.quote and not found_in(proof.quote, claim.pattern)):
            return False
        labels = [claim.scope, *(ref.label for ref in call.finished.artifacts)]
        if proof.label and not any(found_in(proof.label, label) for label in labels):
            return False
        if proof.path and not any(_ends(label, proof.path) for label in labels):
            return False
        pattern = compile_pattern(claim.pattern)
        for ref in call.finished.artifacts:
            text = self._stored.whole(ref)
            if text is None or not ref.complete:
                return False
            if call.tool != "grep" and pattern.search(text.decode("utf-8", "replace")):
                return False
        return True


@lru_cache(maxsize=4096)
def _own_words(tool: str, ref: ArtifactRef, quote: str) -> bool:
    """Tell whether a command may have printed the quote because it was told to."""
    try:
        refuse_own_words("run" if tool == "bash" else tool, ref, quote)
    except ToolError:
        return True
    return False


def _is_from(ref: ArtifactRef, wanted: str) -> bool:
    """Tell whether an output is of a file; where its path is not told, the command must name the file."""
    if ref.path is not None:
        return _ends(ref.path, wanted)
    return wanted in ref.label and any(_ends(word, wanted) for word in _WORD.findall(ref.label))


def _ends(path: str, wanted: str) -> bool:
    return path == wanted or path.endswith(f"/{wanted.lstrip('/')}")


def _overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    return left[0] <= right[1] and right[0] <= left[1]
