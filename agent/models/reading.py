"""Read the installed source for the leads: by what `settings` explains of it, the rest by searches."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final

import re2

from agent.models.explained import answered, as_search
from agent.models.method import Call, Case, Lead, Step, Steps, weighed
from agent.models.views import View, find_quote, rows
from prompts.playbooks import Playbook

EXPLAINED: Final = ("sglang", "vllm")
"""Engines whose installed source tells how their settings come about."""
_AT_ONCE: Final = 8
"""Settings that one call takes."""
_DEFINITION: Final = r"): .*="
NO_PACKAGE: Final = "was not found on the host; give an absolute path"
"""How a search says that there is no source to read."""


def read_source(case: Case) -> Steps:
    """Read the installed source for the leads that are not refuted yet: definitions, writes, readers."""
    leads = [lead for lead in case.leads if not weighed(case, lead).against]
    names = list(dict.fromkeys(name for lead in leads for name in lead.book.settings))
    if not names or not case.facts.pid:
        return
    if case.explains and case.facts.engine.get("engine") in EXPLAINED:
        names = yield from _explained(case, leads, names)
    if names:
        yield from _searched(case, leads, names)


def _explained(
    case: Case, leads: Sequence[Lead], names: Sequence[str]
) -> Generator[Step, list[View], list[str]]:
    """Ask for the settings, and beside it for lines of something else; return those left to search."""
    judged = [claim.pattern for lead in leads for claim in lead.book.source if claim.judged]
    every = list(dict.fromkeys(pattern for lead in leads for pattern in _patterns(lead.book)))
    beside = [one for one in every if one not in judged and not any(name in one for name in names)]
    pid = case.facts.pid
    calls: list[Call] = [("settings", {"names": list(names[:_AT_ONCE]), "pid": pid})]
    calls += [("grep", _lines_grep(found, pid, judge=found is judged)) for found in (judged, beside) if found]
    says = "Now I ask what the source that this process runs makes of: " + ", ".join(names)
    view, *searches = yield Step(says, calls)
    case.source += [as_search(view, case.facts), *searches]
    told = answered(view)
    if not told and searches and all(NO_PACKAGE in str(one.get("error")) for one in searches):
        return []  # each further search would say the same
    if not told:
        return list(names)
    settings = [view["settings"][name] for name in told]
    missing = [one for one in every if one not in (*judged, *beside) and not find_quote(case.source, one)]
    if missing and any("more_readers" in setting or "cut" in setting for setting in settings):
        says = "I search for lines that were not among those shown."
        case.source += yield Step(says, [("grep", _lines_grep(missing, pid, judge=False))])
    return list(names[_AT_ONCE:])


def _searched(case: Case, leads: Sequence[Lead], names: Sequence[str]) -> Steps:
    """Search for the definitions, then for the assignments and for the lines that the playbooks name."""
    says = "Now I read the source that this process runs, for: " + ", ".join(names)
    definitions = yield Step(says, [("grep", definition_grep(names, case.facts.pid))])
    case.source += definitions
    if all(NO_PACKAGE in str(view.get("error")) for view in definitions):
        return
    paths = list(dict.fromkeys(str(row.get("path")) for view in definitions for row in rows(view, "results")))
    calls: list[Call] = [("grep", writes_grep(name, case.facts.pid, paths)) for name in names]
    for lead in leads:
        if patterns := _patterns(lead.book):
            calls.append(("grep", _lines_grep(patterns, case.facts.pid)))
    case.source += yield Step(
        "I follow who sets these values, who reads them, and under which conditions.", calls
    )


def definition_grep(settings: Sequence[str], pid: int) -> dict[str, Any]:
    """Search the lines that define settings with a default, as fields of a class."""
    names = "|".join(re2.escape(name) for name in settings)
    return {"pattern": rf"^    ({names}{_DEFINITION}", "pid": pid, "judge": False, "max_matches": 40}


def writes_grep(name: str, pid: int, paths: Sequence[str]) -> dict[str, Any]:
    """Search the assignments of a setting, in the file that defines it when there is just one."""
    arguments: dict[str, Any] = {"pattern": rf"\.{re2.escape(name)} = ", "pid": pid, "max_matches": 60}
    return arguments | ({"path": paths[0]} if len(paths) == 1 else {})


def _patterns(book: Playbook) -> list[str]:
    """Return what a playbook's source claims and predictions look for in the source."""
    patterns = [claim.pattern for claim in book.source]
    patterns += [prediction.find for prediction in book.predictions if prediction.probe == "source"]
    return list(dict.fromkeys(patterns))


def _lines_grep(patterns: Sequence[str], pid: int, *, judge: bool = True) -> dict[str, Any]:
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    arguments: dict[str, Any] = {"pattern": joined, "pid": pid, "max_matches": 30}
    return arguments if judge else arguments | {"judge": False}


def began_with_searches(calls: Iterator[Mapping[str, Any]]) -> bool:
    """Tell whether a thread has searched for definitions without having asked for settings first.

    Such a thread goes on as it began: it was started before the tool was there, or where it is not.
    """
    for call in calls:
        if call.get("name") == "settings":
            return False
        if call.get("name") == "grep" and _searches_definitions(str(call.get("arguments"))):
            return True
    return False


def _searches_definitions(arguments: str) -> bool:
    try:
        pattern = json.loads(arguments).get("pattern")
    except (ValueError, AttributeError):
        return False
    return isinstance(pattern, str) and pattern.startswith("^    (") and pattern.endswith(_DEFINITION)
