"""Check every claim of a conclusion against stored raw output: no model, and nothing a model said about it.

A claim is verified, or unverified with one line that says why, or an opinion. What is trusted: the artifact
store (digests are checked on every read), and which call returned which artifact. What a tool's view says
is used only for searches that found nothing, where it is the record of the search. A verdict is computed
from the facts that are cited; values that code overwrites before the guard is reached are the
business of the tools.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, assert_never

from agent.arithmetic import close, compute
from agent.checks import compile_pattern, number_in
from agent.events import STDIN, ToolFinished
from agent.guard_claims import Source, guards, parse, quoted, verdict
from agent.ledger import Ledger
from agent.named_values import Literal, flag_on_command_line, gives, literal, plain_name, same_value
from agent.own_words import refuse_own_words
from agent.quotes import Found, StoredTexts, citation
from agent.state import (
    AbsenceClaim,
    Citation,
    Cite,
    Claim,
    ClaimCheck,
    Conclusion,
    GuardClaim,
    GuardFact,
    LogClaim,
    MeasurementClaim,
    OpinionClaim,
    SettingClaim,
)
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, ToolError

_SEARCHES = frozenset({"grep", "journal", "run"})
_GREPS = frozenset({"grep", "rg", "egrep", "fgrep"})
_HARMLESS = re.compile(r"-[rRnHhIEFl]+")
"""Short options of grep and rg that neither turn a search round nor narrow it."""


def check(
    conclusion: Conclusion,
    artifacts: Mapping[str, ArtifactRef],
    store: ArtifactStore,
    calls: Mapping[str, ToolFinished],
    ledger: Ledger,
) -> list[ClaimCheck]:
    """Return one check a claim, in their order; never raises for what a claim says."""
    verifier = _Verifier(artifacts, store, calls, ledger)
    return [verifier.check(index, claim) for index, claim in enumerate(conclusion.claims)]


def problems(conclusion: Conclusion, checks: Sequence[ClaimCheck], ledger: Ledger) -> list[str]:
    """Return why a conclusion is not accepted, a line each, claims counted from 0; none means that it is."""
    found = [
        f"claim {item.index}: {conclusion.claims[item.index].type}: {item.why}"
        for item in checks
        if item.status == "unverified"
    ]
    shown = {_place(cited) for item in checks if item.status == "verified" for cited in item.citations}
    for name in conclusion.causes:
        links = ledger.hypotheses[name].links if name in ledger.hypotheses else []
        grounds = {_place(ledger.evidence[link.evidence].citation) for link in links if link.matched}
        if not grounds & shown:
            found.append(f"cause {name}: no verified claim cites any output that its evidence cites")
    return found


def _place(cited: Citation) -> tuple[str, str]:
    return cited.host, cited.path or cited.sha256


class _Verifier:
    def __init__(
        self,
        artifacts: Mapping[str, ArtifactRef],
        store: ArtifactStore,
        calls: Mapping[str, ToolFinished],
        ledger: Ledger,
    ) -> None:
        self._artifacts = artifacts
        self._calls = calls
        self._hosts = ledger.hosts
        self._texts = StoredTexts(store)
        self._sources: dict[tuple[str, int], Source] = {}
        self._cited: list[Citation] = []

    def check(self, index: int, claim: Claim) -> ClaimCheck:
        """Check one claim; the citations of what was found are kept even when the claim fails."""
        self._cited = []
        if isinstance(claim, OpinionClaim):
            return ClaimCheck(index=index, status="opinion", why="no evidence type covers it")
        try:
            self._dispatch(claim)
        except (ToolError, RecursionError) as error:
            why = " ".join(str(error).split())
            return ClaimCheck(index=index, status="unverified", why=why, citations=self._cited)
        return ClaimCheck(index=index, status="verified", citations=self._cited)

    def _dispatch(
        self, claim: SettingClaim | GuardClaim | LogClaim | MeasurementClaim | AbsenceClaim
    ) -> None:
        if isinstance(claim, SettingClaim):
            self._setting(claim)
        elif isinstance(claim, GuardClaim):
            self._guard(claim)
        elif isinstance(claim, LogClaim):
            self._found(claim.cite)
        elif isinstance(claim, MeasurementClaim):
            self._measurement(claim)
        elif isinstance(claim, AbsenceClaim):
            self._absence(claim)
        else:
            assert_never(claim)

    def _ref(self, handle: str) -> ArtifactRef:
        ref = self._artifacts.get(handle)
        if ref is None:
            raise ToolError(f"there is no artifact {handle}")
        if self._hosts and ref.host not in (*self._hosts, STDIN):
            raise ToolError(f"{handle} is from {ref.host}, which is not a host of this investigation")
        call = self._calls.get(handle.split(".")[0])
        if call is None or ref not in call.artifacts:
            raise ToolError(f"{handle} was returned by no finished call of this investigation")
        return ref

    def _places(self, cite: Cite) -> tuple[ArtifactRef, Iterator[Found]]:
        ref = self._ref(cite.artifact)
        refuse_own_words(self._calls[ref.handle.split(".")[0]].tool, ref, cite.quote)
        return ref, self._texts.each(ref, cite)

    def _listed(self, cite: Cite) -> tuple[ArtifactRef, list[Found]]:
        ref, places = self._places(cite)
        return ref, list(places)

    def _found(self, cite: Cite) -> Found:
        ref, places = self._places(cite)
        place = next(places)
        self._cited.append(citation(ref, place))
        return place

    def _setting(self, claim: SettingClaim) -> None:
        ref, _ = self._value(claim.name, claim.value, claim.cite)
        if claim.layer == "requested" and ref.package:
            raise ToolError(f"{ref.handle} is installed source, which says nothing of what was requested")
        if claim.layer == "default" and (_is_command_line(ref) or ref.path is None):
            raise ToolError(f"{ref.handle} ({ref.label}) is no source file, so it shows no default")

    def _value(self, name: str, value: str, cite: Cite) -> tuple[ArtifactRef, str]:
        """Return where the quote gives the name this value, and how; a cited command line must mean it."""
        ref, places = self._places(cite)
        given = ((place, seen) for place in places if (seen := gives(place, name, value)) is not None)
        place, seen = next(given, (None, ""))
        if place is None:
            raise ToolError(f"the quote in {ref.handle} does not give {name} the value {value}")
        self._cited.append(citation(ref, place))
        if _is_command_line(ref):
            meant = flag_on_command_line(self._texts.of(ref), name)
            if meant is not None and not same_value(meant, value):
                raise ToolError(f"the command line in {ref.handle} gives {name} the value {meant} in the end")
        return ref, seen

    def _guard(self, claim: GuardClaim) -> None:
        if claim.statement.artifact != claim.condition.artifact:
            raise ToolError("statement and condition are cited from different outputs; cite one file")
        ref, statements = self._listed(claim.statement)
        if len(statements) > 1:
            lines = ", ".join(str(place.lines[0]) for place in statements[:8])
            raise ToolError(f"the statement stands at lines {lines} of {ref.handle}; say which with `lines`")
        _, conditions = self._listed(claim.condition)
        source = self._source(ref)
        guarding = [
            (guard, place)
            for guard in guards(source, statements[0])
            for place in conditions
            if quoted(source, guard, place)
        ]
        if not guarding:
            raise ToolError(
                "the quoted condition does not decide, inside one function, whether the statement runs"
            )
        self._cited += [citation(ref, statements[0]), citation(ref, guarding[0][1])]
        facts = {plain_name(fact.name): self._fact(fact, ref) for fact in claim.facts}
        facts |= {fact.name: facts[plain_name(fact.name)] for fact in claim.facts}
        truths = [verdict(guard, facts) for guard, _ in guarding]
        held = False if False in truths else None if None in truths else True
        computed = "unknown" if held is None else str(held).lower()
        if computed != claim.verdict:
            raise ToolError(f"with the cited facts the guard is {computed}, not {claim.verdict}")

    def _source(self, ref: ArtifactRef) -> Source:
        key = (ref.sha256, ref.first_line)
        if key not in self._sources:
            self._sources[key] = parse(self._texts.of(ref))
        return self._sources[key]

    def _fact(self, fact: GuardFact, source: ArtifactRef) -> Literal:
        ref, seen = self._value(fact.name, fact.value, fact.cite)
        if ref.host != source.host:
            raise ToolError(f"the fact {fact.name} is from {ref.host}, the source from {source.host}")
        if ref.package:
            self._not_overridden(fact, ref)
        return literal(
            seen, origin="source" if ref.package else "command line" if _is_command_line(ref) else "data"
        )

    def _not_overridden(self, fact: GuardFact, ref: ArtifactRef) -> None:
        """Refuse a default as a fact when a stored command line of that host sets the flag otherwise."""
        for other in self._artifacts.values():
            if other.host == ref.host and _is_command_line(other):
                meant = flag_on_command_line(self._texts.of(other), fact.name)
                if meant is not None and not same_value(meant, fact.value):
                    raise ToolError(
                        f"{fact.name} = {fact.value} is a default, but {other.handle} sets it to {meant}"
                    )

    def _measurement(self, claim: MeasurementClaim) -> None:
        numbers = {
            name: number_in(number.pattern, self._found(number.cite).text)
            for name, number in claim.numbers.items()
        }
        computed = compute(claim.expression, numbers)
        if not close(claim.value, computed, claim.tolerance):
            raise ToolError(f"`{claim.expression}` is {computed:.6g}, not {claim.value:g}")

    def _absence(self, claim: AbsenceClaim) -> None:
        call = self._calls.get(claim.call)
        if call is None:
            raise ToolError(f"there is no call {claim.call}")
        if call.tool not in _SEARCHES or call.status != "ok":
            raise ToolError(f"{claim.call} ({call.tool}) is no search that ended well")
        if self._hosts and call.host is not None and call.host not in self._hosts:
            raise ToolError(f"{claim.call} ran on {call.host}, which is not a host of this investigation")
        compile_pattern(claim.pattern)
        view = _view(call)
        if call.tool == "run":
            self._absent_in_command(claim, call, view)
        else:
            self._absent_in_search(claim, call, view)
        self._not_in_artifacts(claim, call)

    def _absent_in_search(self, claim: AbsenceClaim, call: ToolFinished, view: dict[str, Any]) -> None:
        pattern = view.get("pattern")
        if claim.scope not in {view.get("scope"), view.get("unit")}:
            raise ToolError(f"{claim.call} searched {view.get('scope')}, not {claim.scope}")
        if pattern != claim.pattern and (call.tool == "grep" or pattern is not None):
            raise ToolError(f"{claim.call} searched for {pattern!r}, not {claim.pattern!r}")
        if view.get("complete") is not True:
            raise ToolError(f"{claim.call} was cut short, so it shows no absence")
        if view.get("not_permitted"):
            raise ToolError(f"{claim.call} could not read everything in its scope")
        if pattern is not None and view.get("matches") != 0:
            raise ToolError(f"{claim.call} found {view.get('matches')} matches")
        if pattern is None and not call.artifacts:
            raise ToolError(f"{claim.call} kept no output in which the pattern could be looked for")

    def _absent_in_command(self, claim: AbsenceClaim, call: ToolFinished, view: dict[str, Any]) -> None:
        """Accept a whole output without the pattern, or a plain grep that ended with "nothing found"."""
        if view.get("outcome") != "exited" or view.get("truncated") or view.get("stderr"):
            raise ToolError(f"{claim.call} did not end cleanly, so it shows no absence")
        command = str(view.get("command", ""))
        if view.get("exit_code") == 0 and claim.scope == command and call.artifacts:
            return
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ToolError(f"the command of {claim.call} cannot be taken apart") from error
        plain = bool(words) and PurePosixPath(words[0]).name in _GREPS
        options = [word for word in words[1:] if word.startswith("-") and word != claim.pattern]
        named = {claim.pattern, claim.scope} <= set(words[1:])
        if not (plain and named and all(_HARMLESS.fullmatch(word) for word in options)):
            raise ToolError(f"{claim.call} is no plain search for {claim.pattern!r} in {claim.scope}")
        if view.get("exit_code") != 1:
            raise ToolError(f"{claim.call} found something, or failed: exit code {view.get('exit_code')}")

    def _not_in_artifacts(self, claim: AbsenceClaim, call: ToolFinished) -> None:
        compiled = compile_pattern(claim.pattern)
        for ref in call.artifacts:
            if not ref.complete:
                raise ToolError(f"{ref.handle} is not complete, so it shows no absence")
            if call.tool != "grep" and compiled.search(self._texts.of(ref).raw):
                raise ToolError(f"{claim.pattern!r} stands in {ref.handle}")


def _view(call: ToolFinished) -> dict[str, Any]:
    try:
        view = json.loads(call.view)
    except ValueError:
        view = None
    if not isinstance(view, dict):
        raise ToolError(f"the record of {call.call} cannot be read")
    return view


def _is_command_line(ref: ArtifactRef) -> bool:
    return re.fullmatch(r"/proc/\d+/cmdline", ref.path or "") is not None
