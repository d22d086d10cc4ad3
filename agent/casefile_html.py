"""Make the case file one HTML page: no script, nothing from elsewhere, text of any origin inert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.case_context import Contexts, Snippet
from agent.case_guards import derive
from agent.case_records import CaseFile
from agent.case_timeline import spans, turns
from agent.case_trials import Trial, before_after, course, power, trials
from agent.events import Event, ToolFinished
from agent.models.views import parse_view, rows
from agent.plots import Bar, Group, bars, strip
from agent.state import Change, Outcome
from prompts.page import render_page
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef
from tools.display import printable

_LONGEST = 6_000
_SNIPPETS = 500
_ROWS = 300

_HEADLINES: dict[Outcome, tuple[str, str]] = {
    "fixed": ("Fixed", "A change was applied, measured and kept."),
    "diagnosed": ("Diagnosed", "The cause is established."),
    "configuration_fine": ("Configuration is fine", "No setting explains the symptom."),
    "needs_person": ("Needs a person", "What remains cannot be decided from here."),
    "inconclusive": ("Inconclusive", "The evidence does not settle the cause."),
    "answered": ("Answered", "What was read says so."),
    "not_known": ("Not known", "Nothing that could be read says so."),
}
_TOUCHED = ("applied", "verified", "rolled_back")


def to_html(case: CaseFile, events: Sequence[Event], store: ArtifactStore) -> str:
    """Return the case file as one self-contained page."""
    made = _Snippets(Contexts(_artifacts(events), store))
    claims = {row.number: made.of(row.check.citations) for row in case.claims[:_ROWS]}
    told, turns_left_out = turns(events)
    tried = trials(events)
    return render_page(
        "case",
        _shown,
        case=case,
        headline=headline(case, tried),
        todo=[(change, wording(change)) for change in case.changes],
        claims=case.claims[:_ROWS],
        claims_left_out=max(0, len(case.claims) - _ROWS),
        snippets=claims,
        reasons={
            entry.hypothesis.id: [
                one for reason in entry.reasons for one in made.of([reason.evidence.citation])
            ]
            for entry in case.ledger[:_ROWS]
        },
        derivations=derive(case, events)[:_ROWS],
        charts=[chart for chart in [_course_chart(tried)] if chart] or _charts(case, events),
        trials=tried,
        trial_charts={name: _trial_charts(trial, events) for name, trial in tried.items()},
        strip=strip(spans(events)),
        turns=told,
        turns_left_out=turns_left_out,
        seconds=(case.last_at - case.started_at).total_seconds(),
        by_hand=_by_hand(case),
    )


def headline(case: CaseFile, tried: Mapping[str, Trial]) -> tuple[str, str]:
    """Return the outcome as a word and a sentence."""
    if case.outcome is None:
        return "Not finished", case.failed or "There is no conclusion yet; what was gathered is below."
    word, sentence = _HEADLINES[case.outcome]
    if case.outcome == "diagnosed" and case.conclusion and len(case.conclusion.causes) > 1:
        sentence = "The causes are established."
    touched = any(change.status in _TOUCHED for change in case.changes)
    if not touched and not any(trial.touched for trial in tried.values()):
        sentence += " Nothing on the host was changed."
    return word, sentence


def wording(change: Change) -> tuple[str, str, str]:
    """Return what a change does as a verb, the setting, and the rest."""
    if change.to_value is None:
        return "Leave out", change.setting, ""
    if change.from_value is None:
        plain = change.to_value == "true"
        return ("Add" if plain else "Set"), change.setting, "" if plain else f"to {change.to_value}"
    return "Change", change.setting, f"from {change.from_value} to {change.to_value}"


def _shown(value: Any) -> Any:
    """Make every text on its way into the page visible and bounded; markup made here passes as it is."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    if len(value) > _LONGEST:
        value = f"{value[:_LONGEST]} … [{len(value) - _LONGEST:,} more characters, in case.json]"
    return printable(value)


def _by_hand(case: CaseFile) -> str:
    """Return the commands that check the first citation of the case; a digest is hexadecimal by its type."""
    handles = {source.handle: source for source in case.sources}
    cited = (citation for row in case.claims for citation in row.check.citations)
    first = next((one for one in cited if one.artifact in handles), None)
    if first is None:
        return "sha256sum artifacts/SHA256\nsed -n LINEp artifacts/SHA256"
    line = first.lines[0] - handles[first.artifact].first_line + 1
    return f"sha256sum artifacts/{first.sha256}\nsed -n {line}p artifacts/{first.sha256}"


class _Snippets:
    """Count snippets, so that a case with very many citations still makes a page that opens."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._left = _SNIPPETS

    def of(self, citations: Sequence[Any]) -> list[Snippet]:
        """Return the snippets of some citations, as long as there is room."""
        taken = list(citations)[: max(0, self._left)]
        self._left -= len(taken)
        return self._contexts.together(taken)


def _artifacts(events: Sequence[Event]) -> Mapping[str, ArtifactRef]:
    return {ref.handle: ref for event in events if isinstance(event, ToolFinished) for ref in event.artifacts}


_WHISKERS = "The bar is the mean of the repeats; the line spans the lowest and the highest."


def _course_chart(tried: Mapping[str, Trial]) -> dict[str, Any] | None:
    groups = course(list(tried.values()))
    if not groups:
        return None
    title = "Decode throughput, change by change"
    return {"title": title, "note": _WHISKERS, "svg": bars(title, "tok/s", groups)}


def _trial_charts(trial: Trial, events: Sequence[Event]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if trial.after is None:
        return found
    if groups := before_after(trial):
        title = "Decode throughput before and after"
        found.append({"title": title, "note": _WHISKERS, "svg": bars(title, "tok/s", groups)})
    if groups := power(trial):
        title, limit = "Mean power of a GPU", _power_limit(events)
        named = (limit, f"limit {limit:g} W") if limit else None
        found.append({"title": title, "note": "", "svg": bars(title, "W", groups, named)})
    return found


def _charts(case: CaseFile, events: Sequence[Event]) -> list[dict[str, Any]]:
    runs = _runs(case)
    found: list[dict[str, Any]] = []
    if any("output_throughput" in run for run in runs):
        title = "Throughput by requests in flight"
        groups, marked = _throughput(runs)
        note = "Dashed: the rate of one request, times the requests." if marked else ""
        found.append({"title": title, "note": note, "svg": bars(title, "tok/s", groups)})
    power = [Bar(_in_flight(run), run["power_w_mean"]) for run in runs if "power_w_mean" in run]
    if power:
        limit = _power_limit(events)
        title = "Mean power of a GPU"
        named = (limit, f"limit {limit:g} W") if limit else None
        found.append({"title": title, "note": "", "svg": bars(title, "W", [Group("", power)], named)})
    return found


def _runs(case: CaseFile) -> list[dict[str, Any]]:
    """Return the numbers of the last benchmark call, the mean over its repeats at each concurrency."""
    calls = [run["call"] for run in case.benchmarks]
    last = [run for run in case.benchmarks if run["call"] == calls[-1]] if calls else []
    merged: dict[float, list[Mapping[str, Any]]] = {}
    for run in last:
        if isinstance(run.get("concurrency"), float | int):
            merged.setdefault(float(run["concurrency"]), []).append(run)
    return [
        {"concurrency": level} | {key: _mean(group, key) for key in _shared(group)}
        for level, group in sorted(merged.items())
    ]


def _shared(group: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = ("output_throughput", "power_w_mean")
    return [key for key in keys if all(isinstance(run.get(key), int | float) for run in group)]


def _mean(group: Sequence[Mapping[str, Any]], key: str) -> float:
    return sum(float(run[key]) for run in group) / len(group)


def _throughput(runs: Sequence[Mapping[str, Any]]) -> tuple[list[Group], bool]:
    alone = next((run["output_throughput"] for run in runs if run["concurrency"] == 1), None)
    made = [
        Bar(
            _in_flight(run),
            run["output_throughput"],
            mark=alone * run["concurrency"] if alone and run["concurrency"] > 1 else None,
        )
        for run in runs
        if "output_throughput" in run
    ]
    return [Group("", made)], any(bar.mark for bar in made)


def _in_flight(run: Mapping[str, Any]) -> str:
    return f"{run['concurrency']:g} request{'' if run['concurrency'] == 1 else 's'}"


def _power_limit(events: Sequence[Event]) -> float | None:
    limits = [gpu.get("power_limit_w") for gpu in _gpus(events)]
    known = {float(limit) for limit in limits if isinstance(limit, int | float) and limit > 0}
    return known.pop() if len(known) == 1 else None


def _gpus(events: Sequence[Event]) -> Iterator[Mapping[str, Any]]:
    for event in events:
        if isinstance(event, ToolFinished) and event.tool == "facts" and event.status == "ok":
            hardware = parse_view(event.view).get("hardware")
            yield from rows(hardware if isinstance(hardware, dict) else {}, "gpus")
