from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from agent.plots import Bar, Group, Span, bars, number, strip

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '</text></svg><script>alert(1)</script>" onload="x" \x1b[2J \u202e &lt;'


def tree(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(markup)


def boxes(markup: str, name: str = "bar") -> list[ElementTree.Element]:
    return [one for one in tree(markup).iter(f"{SVG}rect") if name in one.get("class", "").split()]


def lines(markup: str, name: str) -> list[ElementTree.Element]:
    return [one for one in tree(markup).iter(f"{SVG}line") if one.get("class") == name]


def at(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name, "").rstrip("%"))


def test_bars_are_to_scale_from_zero() -> None:
    one, two = boxes(bars("t", "tok/s", [Group("", [Bar("a", 25.0), Bar("b", 100.0)])]))
    assert at(two, "width") == pytest.approx(4 * at(one, "width"), rel=0.01)
    assert at(one, "x") == at(two, "x")


def test_intervals_and_marks_stand_on_the_same_scale() -> None:
    bar = Bar("a", 100.0, interval=(90.0, 110.0), mark=200.0)
    drawn = bars("t", "tok/s", [Group("", [bar])])
    [box] = boxes(drawn)
    origin, scale = at(box, "x"), at(box, "width") / 100
    whole, low, high = lines(drawn, "plot-interval")
    assert [at(low, "x1"), at(high, "x1")] == pytest.approx(
        [origin + 90 * scale, origin + 110 * scale], abs=0.2
    )
    assert (at(whole, "x1"), at(whole, "x2")) == (at(low, "x1"), at(high, "x1"))
    [mark] = lines(drawn, "plot-mark")
    assert at(mark, "x1") == pytest.approx(origin + 200 * scale, abs=0.2)


def test_nothing_leaves_the_picture() -> None:
    groups = [Group("g", [Bar("a", 96.5, mark=192.0), Bar("b", 192.0, interval=(150.0, 260.0))])]
    drawn = bars("t", "W", groups, (600.0, "limit 600 W"))
    width, height = (float(part) for part in tree(drawn).get("viewBox", "").split()[2:])
    assert all(at(box, "x") + at(box, "width") <= width for box in boxes(drawn))
    assert all(at(text, "y") <= height for text in tree(drawn).iter(f"{SVG}text"))
    assert all(at(line, "x1") <= width for line in tree(drawn).iter(f"{SVG}line"))
    for text in tree(drawn).iter(f"{SVG}text"):
        if text.get("class") == "plot-value":
            assert at(text, "x") + 7 * len(text.text or "") <= width


@pytest.mark.parametrize("value", [0.0, 1e-9, 5e8, float("inf"), float("nan"), -3.0])
def test_odd_numbers_still_make_a_picture(value: float) -> None:
    drawn = bars("t", "x", [Group("", [Bar("a", value), Bar("b", 1.0)])])
    assert len(boxes(drawn)) == 2
    assert not re.search(r'="-?(nan|inf)', drawn)
    assert all(at(box, "width") >= 0 for box in boxes(drawn))


def test_no_bars_make_no_error() -> None:
    assert boxes(bars("t", "x", [])) == []
    assert boxes(strip([])) == []


def test_text_stays_text() -> None:
    for drawn in (
        bars(EVIL, EVIL, [Group(EVIL, [Bar(EVIL, 1.0)])], (2.0, EVIL)),
        strip([Span(0, 1, EVIL, "tool")]),
    ):
        names = {element.tag.removeprefix(SVG) for element in tree(drawn).iter()}
        assert names <= {"svg", "title", "text", "rect", "line"}
        assert all(not key.startswith("on") for element in tree(drawn).iter() for key in element.attrib)
        assert "\x1b" not in drawn and "\u202e" not in drawn


def test_a_picture_says_its_numbers_in_words() -> None:
    title = tree(bars("Throughput", "tok/s", [Group("", [Bar("1 request", 24.4)])])).find(f"{SVG}title")
    assert title is not None and title.text == "Throughput: 1 request 24.4 tok/s"


def test_spans_that_overlap_stand_below_each_other() -> None:
    spans = [Span(0, 10, "t1 a", "tool"), Span(2, 4, "t2 b", "tool"), Span(5, 6, "t3 c", "tool")]
    first, second, third = boxes(strip(spans))
    assert at(first, "y") < at(second, "y") == at(third, "y")
    assert (at(second, "x"), at(second, "width")) == pytest.approx((20.0, 20.0))


def test_a_short_span_can_still_be_seen() -> None:
    spans = [Span(0, 1000, "t1 a", "tool"), Span(10, 10.001, "t2 b", "model")]
    assert min(at(box, "width") for box in boxes(strip(spans))) >= 0.3


def test_numbers_have_three_figures() -> None:
    assert [number(value) for value in (0, 24.42, 148.5, 315, 0.1234, 12345.6, 600)] == [
        "0", "24.4", "148.5", "315", "0.123", "12,346", "600",
    ]  # fmt: skip
