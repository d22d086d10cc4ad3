"""Judge what a conclusion asserts: which true causes it names, and which of its statements are not true.

A statement is one hypothesis that the conclusion names as a cause. It names a true cause when one of the
cause's patterns stands in it and none of those that must not, or when the run bases a change of one of the
cause's settings on it. It is false when it names none, when it names a distractor, when it names more than
one statement can mean (`evals.matters`), or when nothing backs it: status supported or confirmed, and a piece
of evidence that is really there.

It counts for those causes alone that its own evidence speaks of (a pattern or a setting of the cause stands
in what is cited), or that a change of their settings is based on; one that names a single cause counts also
when its evidence meets a proof of the case. Where that leaves none, the statement is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agent.state import Citation, Evidence, Hypothesis
from evals.case import Case, Cause
from evals.findings import Findings
from evals.matters import is_list
from evals.patterns import any_in
from evals.settings_match import plain_setting, same_setting

Real = Callable[[Citation], bool]
_BACKED = frozenset({"supported", "confirmed"})


@dataclass(slots=True)
class Judged:
    """Say what a conclusion's causes amount to."""

    named: set[str] = field(default_factory=set)
    """Ids of true causes that are asserted."""
    true: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Return true statements over all; several statements of one cause count once."""
        right = min(self.true, len(self.named))
        count = right + len(self.wrong)
        return right / count if count else 0.0


def judge(case: Case, found: Findings, real: Real, proves: Real) -> Judged:
    """Hold the asserted causes of a run against those of its case.

    ``real`` tells whether a citation is really there, ``proves`` whether it meets a proof of the case, too.
    """
    judged = Judged()
    for name in dict.fromkeys(found.conclusion.causes if found.conclusion else ()):
        hypothesis = found.hypotheses.get(name)
        causes = _named(case, found, hypothesis, real, proves) if hypothesis else set()
        if causes:
            judged.named |= causes
            judged.true += 1
        else:
            judged.wrong.append(hypothesis.statement if hypothesis else name)
    return judged


def _named(case: Case, found: Findings, hypothesis: Hypothesis, real: Real, proves: Real) -> set[str]:
    """Return the true causes that a hypothesis stands for; empty when it is not true."""
    if hypothesis.status not in _BACKED or names_distractor(case, hypothesis.statement):
        return set()
    if is_list(hypothesis.statement):
        return set()
    evidence = [proof for proof in found.matched(hypothesis) if real(proof.citation)]
    if not evidence:
        return set()
    changed = [change.setting for change in found.based_on(hypothesis.id)]
    causes = [one for one in case.causes if _says(one, hypothesis.statement) or _changes(one, changed)]
    if len(causes) == 1 and any(proves(proof.citation) for proof in evidence):
        return {causes[0].id}
    return {cause.id for cause in causes if _changes(cause, changed) or _shown(cause, evidence)}


def names_distractor(case: Case, statement: str) -> bool:
    """Tell whether a statement names a popular wrong cause."""
    return any(any_in(distractor.any, statement) for distractor in case.distractors)


def _says(cause: Cause, statement: str) -> bool:
    return any_in(cause.any, statement) and not any_in(cause.none, statement)


def _changes(cause: Cause, settings: Iterable[str]) -> bool:
    return any(same_setting(setting, wanted) for setting in settings for wanted in cause.settings)


def _shown(cause: Cause, evidence: Iterable[Evidence]) -> bool:
    """Tell whether a quote speaks of a cause; what a model notes beside it shows nothing."""
    names = [plain_setting(setting) for setting in cause.settings]
    for proof in evidence:
        quote = proof.citation.quote
        if any_in(cause.any, quote) or any(name in quote.replace("-", "_").casefold() for name in names):
            return True
    return False
