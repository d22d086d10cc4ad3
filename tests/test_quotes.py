from __future__ import annotations

from agent.checks import evaluate
from agent.quotes import StoredText
from agent.state import JudgementCheck, RatioCheck, TextCheck, ValueCheck


def test_checks_compare_whole_numbers() -> None:
    below = ValueCheck(pattern=r"tok/s: (\S+)", op="<", value=30)
    assert evaluate(below, "tok/s: 24.4", "", None)
    assert not evaluate(below, "tok/s: 44.3", "", None)
    assert not evaluate(below, "nothing", "", None)
    assert not evaluate(ValueCheck(pattern=r"(2)", op="==", value=2), "24.4", "", None)
    ratio = RatioCheck(pattern=r"(\d+\.\d) W of (\d+) W", op="<", value=0.2)
    assert evaluate(ratio, "85.0 W of 600 W", "", None)
    assert not evaluate(ratio, "185.0 W of 600 W", "", None)
    assert not evaluate(ratio, "85.0 W of 0 W", "", None)
    assert evaluate(JudgementCheck(), "", "", True) and not evaluate(JudgementCheck(), "", "", None)
    assert not evaluate(TextCheck(pattern="a b", present=False), "x", "a\n b", None)


def test_quotes_never_cut_words_or_numbers() -> None:
    stored = StoredText(
        b"--pp-size\0" + b"80\nspeed 24.41 tok/s -5\n\n if  not  self.enable_mis:\n", first_line=10
    )
    for cut in ("--pp-size 8", "speed 24", "24.4", "peed 24.41", "5", "self.enable"):
        assert not list(stored.find(cut)), cut
    for whole, lines in (("--pp-size 80", (10, 10)), ("24.41 tok/s", (11, 11)), ("-5 if not", (11, 13))):
        assert [place.lines for place in stored.find(whole)] == [lines]
    assert stored.last_line == 13
    assert stored.between(11, 12) == "speed 24.41 tok/s -5\n\n"
    assert stored.between(14, 20) == "" and stored.between(1, 9) == ""
    assert stored.line(13) == " if  not  self.enable_mis:"
