"""How turns and text are counted, and how the table gets into the document."""

from __future__ import annotations

from pathlib import Path

from agent.events import Event, Started, ToolFinished, TurnTaken
from agent.state import ToolCall
from evals import case
from evals.settings_use import BEGIN, CASES, DOCUMENT, END, Row, Spent, rows_of, spent, table, write


def turn(number: int, text: str, *calls: tuple[str, str]) -> TurnTaken:
    made = [ToolCall(id=f"c{number}-{place}", name=name, arguments=arguments)
            for place, (name, arguments) in enumerate(calls)]  # fmt: skip
    return TurnTaken(turn=number, text=text, tool_calls=made, model="playbook")


def finished(number: int, tool: str, view: str) -> ToolFinished:
    return ToolFinished(
        turn=number, call=f"t{number}", tool_call_id=f"c{number}-0", tool=tool, status="ok", view=view
    )


def row(name: str, turns: int) -> Row:
    one = Spent(turns=turns, tokens=1000, source_turns=2, source_tokens=500, wall_s=1, success=1)
    return Row(case=name, grep=one, settings=one.model_copy(update={"turns": turns - 1, "tokens": 900}))


def test_text_is_what_was_said_written_and_shown_and_orienting_is_no_turn() -> None:
    events: list[Event] = [
        Started(thread="x", product="0", recorded="playbook", symptom="x" * 40, hosts=[], mode="read-only"),
        turn(0, "", ("facts", "{}")),
        finished(0, "facts", "f" * 38),
        turn(1, "look", ("grep", "a" * 16)),
        finished(1, "grep", "é" * 30),
        turn(2, "end!", ("conclude", "c" * 36)),
    ]
    found = spent(events, 2.04, 1.0)
    assert (found.turns, found.source_turns) == (2, 1)
    assert found.tokens == (40 + 2 + 38 + 4 + 16 + 60 + 4 + 36) // 4
    assert found.source_tokens == (16 + 60) // 4


def test_the_table_has_a_line_a_case_and_the_sums() -> None:
    lines = table([row("one", 8), row("two", 7)]).splitlines()
    assert lines[2] == "| one | 8 | 7 | 1,000 | 900 | 500 | 500 |"
    assert lines[-1] == "| all 2 | 15 | 13 | 2,000 | 1,800 | 1,000 | 1,000 |"


def test_the_table_replaces_the_one_in_the_document(tmp_path: Path) -> None:
    document = tmp_path / "settings.md"
    document.write_text(f"before\n\n{BEGIN}old\n{END}\nafter\n")
    write([row("one", 8)], document)
    write([row("two", 8)], document)
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    assert "| two | 8 | 7 |" in text and "old" not in text and "| one |" not in text


def test_rows_are_read_again_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    assert rows_of(file) == []
    file.write_text("".join(one.model_dump_json() + "\n" for one in (row("one", 8), row("two", 7))))
    assert [one.case for one in rows_of(file)] == ["one", "two"]


def test_the_measured_table_stands_in_the_document_and_its_cases_exist() -> None:
    part = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [line.split(" | ") for line in part.splitlines()[2:]]
    named = [cells[0].removeprefix("| ") for cells in rows]
    assert len(named) > 8 and set(named[:-1]) <= set(case.names())
    assert set(CASES) <= set(case.names())
    turns, text = rows[-1][1:3], rows[-1][3:5]
    assert int(turns[1]) < int(turns[0])
    assert int(text[1].replace(",", "")) < int(text[0].replace(",", ""))
