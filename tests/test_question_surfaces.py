"""The table of an answer on every surface, with cells that a hostile host may have written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.answer_table import AnswerTable
from agent.casefile import build, to_markdown
from agent.casefile_html import to_html
from agent.events import ConclusionChecked, Ended, Event, Started
from agent.slack import report
from agent.slack.text import Cleaner
from agent.state import Conclusion
from agent.surfaces.answer_text import answer
from agent.surfaces.wrapping import wrapped
from tools.artifacts import ArtifactStore

HOSTILE = "a|b\x1b[2J `x` ``` <script>alert(1)</script> <!channel> @here"
TABLE = AnswerTable(head=["HOST", "UNIT"], rows=[["gpu1, gpu2", "s.service"], ["gpu3", HOSTILE]])
SAID = Conclusion(outcome="answered", summary="Two of three.", claims=[], table=TABLE)


def events() -> list[Event]:
    """Return a thread that ended with the table."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    fields: dict[str, Any] = {"product": "0", "recorded": "playbook", "mode": "read-only", "at": now}
    started = Started(thread="t", hosts=["gpu1"], symptom="which hosts?", question=True, **fields)
    checked = ConclusionChecked(conclusion=SAID, checks=[], accepted=True, at=now, turn=1, seq=1)
    return [started, checked, Ended(outcome="answered", summary="Two of three.", at=now, turn=1, seq=2)]


def test_the_terminal_shows_columns_that_are_not_wrapped() -> None:
    text = answer(SAID, ["case.md"])
    assert "    HOST        UNIT" in text
    assert "    gpu1, gpu2  s.service" in text
    assert "\x1b" not in text
    assert "    gpu1, gpu2  s.service" in wrapped(text, 20)


def test_slack_shows_a_block_that_a_cell_cannot_leave() -> None:
    ended = events()[-1]
    assert isinstance(ended, Ended)
    text = "\n".join(report.answer(events(), ended, Cleaner(lambda data: data)))
    assert "gpu1, gpu2  s.service" in text
    assert text.count("```") == 2
    assert "<!channel>" not in text


def test_the_case_file_holds_the_table_inert(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    case = build(events(), store)
    page = to_html(case, events(), store)
    assert "<td>gpu1, gpu2</td>" in page
    assert "<script>alert" not in page
    text = to_markdown(case)
    assert "`gpu1, gpu2`" in text
    assert "a|b" not in text
