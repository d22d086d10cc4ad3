"""No prompt or playbook holds a case's answer; each kind of leak is seen when it is planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals import case as cases
from evals.leaks import Answers, check, leaks, shown

CASE = """
description: A copper lamp burns slowly because its wick was cut too short.
source: made up
difficulty: 1
scenario: kimi-k26-pp8
symptom: the lamp is dim
causes:
  - {id: wick, says: Somebody trimmed the wick below the rim, any: [wick], settings: [--wick-length]}
fixes:
  - {id: wick, setting: --wick-length, least: 137, most: 4096}
evidence:
  - {id: rim, kind: source, package: sglang, path: srt/lamp/rim.py, lines: [1274, 1276]}
outcomes: [diagnosed]
"""


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    path = tmp_path / "lamp-host.yaml"
    path.write_text(CASE.replace("\\\\", "\\"), encoding="utf-8")
    return Answers.of(cases.load(str(path)))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Look whether somebody trimmed the wick below its rim", "phrase"),
        ("It may be that\n  the wick was cut too\n  short.", "phrase"),
        ("Expect about 137 of them", "number"),
        ("look at kimi-01 first", "name"),
        ("as on lamp-host, always", "name"),
        ("read srt/lamp/rim.py", "place"),
        ("it stands at rim.py:1274", "place"),
    ],
)
def test_what_gives_an_answer_away_is_seen(answers: Answers, text: str, kind: str) -> None:
    (found, *_) = leaks(answers, "prompts/x.md", f"# A title\n\n{text}\n")
    assert found.kind == kind and found.line >= 3, found


@pytest.mark.parametrize(
    "text",
    [
        "Look at --wick-length and wick_length in the source",
        "4096 is a power of two and 400 is round; 0.5.11 is a release",
        "the lamp and the rim",
        "1370, 0.137, sm137 and x-137 are other numbers",
        "other/lamp/rim.py.bak",
    ],
)
def test_names_of_the_package_and_common_words_are_free(answers: Answers, text: str) -> None:
    assert list(leaks(answers, "prompts/x.md", text)) == []


def test_everything_that_a_model_is_shown_is_looked_at() -> None:
    files = shown()
    assert "prompts/system.md.j2" in files and "prompts/playbooks/cuda-graphs-off.md" in files
    assert "agent/models/method.py" in files and "tools/grep.py" in files
    assert "prompts/questions.yaml" in files and "agent/guard_claims.py" in files


def test_a_figure_of_the_answer_to_a_question_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "lamps-of-two.yaml"
    path.write_text(
        "{description: Lamps are counted., source: made up, difficulty: 1, hosts: {one: kimi-k26-pp8}, "
        "symptom: how many lamps?, outcomes: [answered], answer: {turns: 1, rows: ['one . 2173']}}"
    )
    (found,) = leaks(Answers.of(cases.load(str(path))), "prompts/x.md", "Some have 12,\nand others 2173.")
    assert (found.kind, found.what, found.line) == ("number", "2173", 2)


@pytest.mark.parametrize("name", cases.names())
def test_no_prompt_holds_the_answer(name: str) -> None:
    assert [str(leak) for leak in check([name])] == []
