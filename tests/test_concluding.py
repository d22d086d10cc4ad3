"""How an outcome is worded: what is true and explains nothing, and what of several changes is in force."""

from __future__ import annotations

from typing import Any

import pytest

from agent.models.concluding import build
from agent.models.method import Case, Lead
from agent.models.odd import odd_settings
from agent.models.results import in_part
from agent.models.views import Facts
from prompts.playbooks import Playbook, load_all

FACTS = Facts.of(
    {
        "host": "gpu1",
        "engines": [{"pid": 7, "engine": "sglang", "unit": "s.service", "flags": {"disable_x": True}}],
        "services": [],
    }
)
BOOKS = {book.name: book for book in load_all()}


def ended(*found: tuple[Playbook, str]) -> dict[str, Any]:
    leads = [Lead(book, id=f"H{number}") for number, (book, _) in enumerate(found, 1)]
    statuses = {f"H{number}": status for number, (_, status) in enumerate(found, 1)}
    return build(Case("decode is slow", FACTS, leads, statuses=statuses))


@pytest.mark.parametrize(
    ("book", "kind"),
    [
        (BOOKS["pp-single-request"], "inherent, so no setting removes it"),
        (BOOKS["radix-cache-off"], "no cause by itself"),
        (next(iter(odd_settings(FACTS, set()))), "its effect on the symptom is not shown"),
    ],
)
@pytest.mark.parametrize("status", ["supported", "confirmed"])
def test_a_hypothesis_that_is_true_and_no_cause_is_named_as_that(
    book: Playbook, kind: str, status: str
) -> None:
    said = ended((book, status))
    assert said["outcome"] == "inconclusive"
    first = said["summary"].split("\n")[0]
    assert first == f"No cause is established among what can be changed: H1 is {status}, and {kind}."


def test_where_nothing_is_true_no_cause_is_known() -> None:
    said = ended((BOOKS["pp-single-request"], "refuted"), (BOOKS["cuda-graphs-off"], "open"))
    assert said["summary"].startswith("No cause that I know is established.\nNot told apart here: ")


def change(setting: str, result: str) -> dict[str, str]:
    return {"change": "C1", "setting": setting, "result": result}


def test_of_several_changes_it_is_said_which_are_in_force() -> None:
    mixed = [change("--a", "kept"), change("--b", "rolled_back"), change("--c", "denied")]
    assert list(in_part(mixed)) == [
        "Of 3 changes 1 is kept: --a. As before: --b (rolled back), --c (denied)."
    ]
    two = [change("--a", "kept"), change("--b", "kept"), change("--c", "not_applied")]
    assert list(in_part(two)) == ["Of 3 changes 2 are kept: --a, --b. As before: --c (not applied)."]
    assert list(in_part(mixed[:1])) == [] and list(in_part(mixed[1:])) == []
