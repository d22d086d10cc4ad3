"""What the buttons below an answer show: hypotheses, exact quotes, the plot, the case file."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

from agent.answer_table import AnswerTable
from agent.events import ConclusionChecked, Ended, Event, Judged
from agent.models.concluding import ATTACH
from agent.slack.plot import before_after, has_plot
from agent.slack.report import answer
from agent.slack.text import Cleaner
from agent.state import Comparison, Conclusion, LevelComparison
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import BOT_USER
from tests.slack_parts import bot, settings_for, story
from tools.contract import ArtifactRef

ME = f"<@{BOT_USER}>"


def judged(change: str, before: float, after: float, *, kept: bool = True) -> Judged:
    level = LevelComparison(
        concurrency=1, before=before, after=after, ratio=after / before, low=0.9 * after / before,
        high=1.1 * after / before, verdict="improved" if kept else "worse", repeats=3,
    )  # fmt: skip
    comparison = Comparison(
        levels=[level], verdict=level.verdict, mechanism_moved=None, mechanism_says="", outputs_equal=True,
        outputs_compared=1, outputs_different=0, kept=kept, why="",
    )  # fmt: skip
    ref = ArtifactRef(
        handle="t1.1", sha256="0" * 64, size=1, label="comparison", host="gpu1", taken_at=datetime.now(UTC)
    )
    return Judged(change=change, comparison=comparison, predicted="", measured="", artifact=ref)


def test_the_plot_shows_the_state_after_each_change() -> None:
    import matplotlib.image

    events: list[Event] = [judged("C1", 24.0, 44.0), judged("C2", 44.0, 40.0, kept=False)]
    drawn = before_after(events)
    assert drawn is not None and "C1: concurrency 1: 24.0 -> 44.0 tok/s" in drawn[1] and "worse" in drawn[1]
    image = matplotlib.image.imread(io.BytesIO(drawn[0]), format="png")
    colours = {tuple(round(float(one) * 255) for one in pixel[:3]) for row in image for pixel in row}
    assert {(0x8A, 0x8F, 0x98), (0x1D, 0x8A, 0x4B), (0xD9, 0xA6, 0xA2)} <= colours
    assert not has_plot([]) and before_after([]) is None


def test_the_answer_begins_with_what_was_gained() -> None:
    fixed = Ended(outcome="fixed", summary="Graphs were off.")
    clean = Cleaner(lambda data: data)
    kept, worse = [judged("C1", 24.0, 44.0), judged("C2", 44.0, 48.0)], judged("C3", 48.0, 9.0, kept=False)
    events: list[Event] = [*kept, worse]
    (told,) = answer(events, fixed, clean)
    assert told == "*fixed*: 24.0 -> 48.0 tok/s at concurrency 1 (x2.00)\nGraphs were off."
    assert answer(events[2:], fixed, clean) == ["*fixed*: Graphs were off."]


def test_a_long_table_is_whole_in_every_message() -> None:
    rows = [[f"gpu{number}", "sglang", "0.5.11", "yes & <more>"] for number in range(150)]
    table = AnswerTable(head=["HOST", "PACKAGE", "VERSION", "BELOW"], rows=rows)
    conclusion = Conclusion(outcome="answered", summary="All.", claims=[], table=table)
    checked = ConclusionChecked(conclusion=conclusion, accepted=True, checks=[])
    pieces = answer([checked], Ended(outcome="answered", summary="All."), Cleaner(lambda data: data))
    assert len(pieces) > 2 and all(len(piece) <= 3000 and piece.count("```") % 2 == 0 for piece in pieces)
    assert all(f"gpu{number} " in "\n".join(pieces) for number in range(150))


def test_no_command_is_told_where_nobody_types_one() -> None:
    conclusion = Conclusion(outcome="inconclusive", summary="No cause.", claims=[], next_step=ATTACH)
    checked = ConclusionChecked(conclusion=conclusion, accepted=True, checks=[])
    ended = Ended(outcome="inconclusive", summary="No cause.")
    (told,) = answer([checked], ended, Cleaner(lambda data: data))
    assert (
        "leadline ask" not in told
        and "Attach a language model (`model` and `base_url` in the settings" in told
    )


async def test_hypotheses_quotes_and_files_are_behind_buttons_once_a_press(tmp_path: Path) -> None:
    async with FakeSlack() as slack, bot(settings_for(tmp_path, slack), story()):
        said = await slack.user("U0ADA").says("C0OPS", f"{ME} decode is slow")
        answer = await slack.message("C0OPS", action='"evidence"', thread=said.ts)
        assert "Graphs are off." in answer["text"] and len(answer["text"]) < 300
        ben = slack.user("U0BEN")
        await ben.clicks(answer, "hypotheses")
        await slack.message("C0OPS", containing="the launch line disables graphs - seen (E1)", thread=said.ts)
        press = await ben.clicks(answer, "evidence")
        quote = await slack.message("C0OPS", containing="*1. verified*", thread=said.ts)
        assert "```\n--disable-cuda-graph\n```" in quote["text"] and "gpu1:" in quote["text"]
        await slack.socket.send(press, same_envelope=False)  # delivered again
        await ben.clicks(answer, "case")
        await slack.until(lambda: len([u for u in slack.world.uploads.values() if u.shared]) == 2 or None)
        assert [u.name.rpartition("-")[2] for u in slack.world.uploads.values()] == ["case.md", "case.html"]
        await slack.user("U0GUEST").clicks(answer, "case")
        await slack.until(lambda: slack.world.ephemeral or None)
        quotes = [one for one in slack.posts("C0OPS", said.ts) if "*1. verified*" in one["text"]]
    assert len(quotes) == 1 and len(slack.world.uploads) == 2
