"""The pager that is built in breaks lines between words, at any width, and keeps its place."""

from __future__ import annotations

import asyncio

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from agent.surfaces.pager import _built_in, _fitted
from agent.surfaces.wrapping import cells

TEXT = "\n".join(
    f"{number}. the setting disable_piecewise_cuda_graph of the launch line of gpu{number} is read and judged"
    for number in range(60)
)


class Sized(DummyOutput):
    """Take what is drawn, on a screen of a size that can change."""

    columns = 80

    def get_size(self) -> Size:
        return Size(rows=20, columns=self.columns)


def shown(app: object) -> list[str]:
    """Return the rows of the screen as they were drawn last."""
    screen = app.renderer.last_rendered_screen  # type: ignore[attr-defined]
    rows = [screen.data_buffer[at] for at in range(19)]
    return ["".join(row[column].char for column in range(max(row, default=0))).rstrip() for row in rows]


@pytest.mark.parametrize("columns", [40, 80, 200])
async def test_no_word_is_broken(columns: int) -> None:
    output = Sized()
    output.columns = columns
    with create_pipe_input() as typed, create_app_session(input=typed, output=output):
        app = _built_in(TEXT, at_end=False)
        running = asyncio.create_task(app.run_async())
        while not app.renderer.last_rendered_screen:  # noqa: ASYNC110
            await asyncio.sleep(0)
        rows = shown(app)
        assert all(cells(row) <= columns for row in rows)
        words = " ".join(rows).split()
        assert words[:40] == TEXT.split()[:40]
        typed.send_text("q")
        await running


@pytest.mark.parametrize("at", [0, 1, 700, 3000, len(TEXT)])
def test_a_screen_of_another_width_keeps_the_place(at: int) -> None:
    wide = Document(TEXT, at)
    for columns in (39, 79):
        found = _fitted(TEXT, columns, wide)
        from_there = found.text[found.cursor_position :]
        assert found.text.split() == TEXT.split()
        word = TEXT[at:].split()[:1] or [TEXT.split()[-1]]
        assert at == 0 or word[0] in from_there.partition("\n")[0]
