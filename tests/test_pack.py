"""The packed form of values: nothing is lost, and copied lines are left out of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.pack import Index, PackError, Text, loads, pack, refs, unpack

PLACE = "demo@1.0/demo/settings.py"
SOURCE = """\
class Settings:
    graphs_enabled: bool = True
    def check_graphs(self) -> None:
        if not self.graphs_enabled and self.backend != "eager":
            raise ValueError("graphs can only be left out with the eager backend\\n")
        self.ready = 1
        self.n = 2
\tself.tabbed_line_with_a_tab_in_front = [1, 2, 3]

def last_function_of_the_file(argument: str) -> str:
    return argument
"""
LINES = SOURCE.split("\n")
TEXT = Text(PLACE, SOURCE)


def index() -> Index:
    found = Index()
    found.add(TEXT)
    return found


def find(place: str) -> Text:
    if place != PLACE:
        raise PackError(f"no such place: {place}")
    return TEXT


def packed(value: Any) -> Any:
    form = pack(value, index())
    assert unpack(form, find) == value
    return form


SNIPPETS = st.builds(
    lambda start, length: SOURCE[start : start + length],
    st.integers(0, len(SOURCE)),
    st.integers(0, len(SOURCE)),
)
NUMBERED = st.builds(
    lambda first, count: "\n".join(f"{n}: {LINES[n - 1]}" for n in range(first, min(first + count, 11))),
    st.integers(1, 11),
    st.integers(0, 11),
)
TEXTS = st.lists(st.one_of(st.text(), SNIPPETS, NUMBERED), max_size=6).map("".join)
STRINGS = st.one_of(
    TEXTS,
    TEXTS.map(json.dumps),
    TEXTS.map(lambda text: json.dumps({"text": text}, ensure_ascii=False)),
    TEXTS.map(lambda text: json.dumps([json.dumps(text)])),
    TEXTS.map(lambda text: json.dumps({"a": text}, ensure_ascii=False)[:-4]),
    TEXTS.map(lambda text: json.dumps({"a": text}, indent=1)),
)
VALUES = st.recursive(
    st.one_of(STRINGS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.text(), st.sampled_from(["$text", "$json", "$items", "lines"])), inner),
    ),
    max_leaves=8,
)


@given(STRINGS)
def test_any_string_comes_back(string: str) -> None:
    packed(string)


@given(VALUES)
def test_any_value_comes_back(value: Any) -> None:
    packed(value)


@given(st.text(alphabet='"\\ntu0041{}[]:, ab\n', max_size=60))
def test_text_that_looks_like_json_comes_back(string: str) -> None:
    packed(string)


def test_whole_file_is_one_reference() -> None:
    assert packed(SOURCE) == {"$text": [{"lines": f"{PLACE}:1-11"}, "\n"]}


def test_part_of_a_line_is_named_by_its_columns() -> None:
    quote = 'self.graphs_enabled and self.backend != "eager":'
    assert packed(f"see `if not {quote}`") == {
        "$text": ["see `", {"lines": f"{PLACE}:4.8-4"}, "`"],
    }


def test_numbered_lines_are_one_reference() -> None:
    shown = "\n".join(f"{n}: {LINES[n - 1]}" for n in range(2, 9))
    assert packed(shown) == {"$text": [{"lines": f"{PLACE}:2-8", "numbered": True}]}


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_lines_inside_json_are_found_however_deep(levels: int) -> None:
    value: str = "\n".join(LINES[3:5])
    for _ in range(levels):
        value = json.dumps({"view": value}, ensure_ascii=False)
    form = packed(value)
    assert list(refs(form)) == [f"{PLACE}:4-5"]
    assert "raise ValueError" not in json.dumps(form)


def test_json_that_was_cut_off_holds_no_source() -> None:
    view = (
        json.dumps({"text": "\n".join(LINES[2:8]), "more": "x"}, ensure_ascii=False)[:-15] + " [cut: about 9]"
    )
    form = packed(view)
    assert [*refs(form)] != []
    assert "self.graphs_enabled and" not in json.dumps(form)


def test_short_copies_stay_as_they_are() -> None:
    assert packed("self.ready = 1") == "self.ready = 1"


def test_objects_with_our_keys_are_not_taken_for_ours() -> None:
    assert packed({"$text": ["a"]}) == {"$items": [["$text", ["a"]]]}


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ('{"$text": [{"lines": "demo@1.0/demo/other.py:1-2"}]}', "no such place"),
        ('{"$text": [{"lines": "demo@1.0/demo/settings.py:1-200"}]}', "there are 12 lines"),
        ('{"$text": [{"lines": "nowhere"}]}', "not a reference"),
        ('{"$text": "a"}', "where a list is due"),
    ],
)
def test_a_form_that_leads_nowhere_is_refused(form: str, says: str) -> None:
    with pytest.raises(PackError, match=says):
        loads(form, find)
