"""Whatever text a host or a model writes, what a person looks at does nothing: terminal, pages, JSON."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from agent.casefile import build, to_json, to_markdown
from agent.events import (
    ActionFinished,
    ActionStarted,
    ApprovalGiven,
    ApprovalVoided,
    Event,
    Failed,
    Live,
    Progress,
    SystemNote,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from agent.inert import cell, code, line, prose
from agent.surfaces.answer_text import answer
from agent.surfaces.ask import _print_event
from agent.surfaces.console import open_console
from agent.surfaces.terminal import Terminal
from agent.surfaces.wrapping import wrapped
from tests.test_casefile import parse
from tests.test_casefile_html import Page, full, page
from tools.display import printable, visible_json

CONTROLS = [chr(number) for number in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))]
UNSEEN = [
    *map(chr, (0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070))),
    "\ufeff",
]
SEQUENCES = [
    "\x1b[2J\x1b[H",
    "\x1b[31mred\x1b[0m",
    "\x1b[8mhidden\x1b[28m",
    "\x1b[1A\x1b[2Kover the line above",
    "\x1b[?1049h\x1b[?25l",
    "\x1b[6n\x1b[c\x1b[21t",
    "\x1b]0;title\x07",
    "\x1b]2;title\x1b\\",
    "\x1b]8;;http://evil.example/\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]52;c;cm0gLXJmIC8=\x07",
    "\x1b]4;1;?\x07\x1b]10;?\x07",
    "\x1bP+q544e\x1b\\",
    "\x1b_Gf=100;AAAA\x1b\\",
    "\x1b^private\x1b\\",
    "\x1bX string\x1b\\",
    "\x1bc",
    "\x1b(0lqqk\x1b(B",
    "\x9b31mred\x9b0m",
    "\x9d0;title\x9c",
    "\x90q#0;2;0;0;0\x9c",
    "progress 99%\rprogress 00%",
    "rm -rf\b\b\b\b\b\bls -la",
    "\u202erm -rf /\u202c",
    "\u2066a\u2067b\u2068c\u2069",
    "pass\u200bword=\u2060x",
    "\U000e0061\U000e0062",
]
MARKUP = [
    "[bold red]x[/bold red] [link=http://evil.example]y[/link]",
    "[/] [/bold] [[x]] \\[x]",
    ":skull: :warning:",
    "<script>fetch('http://evil.example')</script>",
    "<img src=http://evil.example/x onerror=alert(1)><svg onload=alert(1)>",
    "</pre></code></td></table><h1>Approved</h1>",
    "\"' onmouseover='x' style=\"background:url(http://evil.example)\"",
    "![x](http://evil.example/?q=1) [y](javascript:alert(1)) <http://evil.example>",
    "[z]: http://evil.example\n\n[z]",
    "http://evil.example/x www.evil.example mailto:a@evil.example",
    "| a | b |\n|---|---|\n# Heading\n> quote\n```\ncode\n```\n- [x] done",
    "{{ 7*7 }} {% raw %} ${HOME} `id` $(id) %s {0} &lt;b&gt; &#x3c;b&#x3e; ]]> -->",
]
HOSTILE = [*CONTROLS, *UNSEEN, *SEQUENCES, *MARKUP]

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def unseen(text: str) -> set[str]:
    """Return the characters of a text that are no letters, signs or blanks anyone sees."""
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {sign for sign in text if unicodedata.category(sign) in hidden and sign not in "\n\t"}


def live(word: str, root: Path) -> Sequence[Live]:
    """Return events of every kind that carries text, with a word in every place for it."""
    story: list[Event] = full(root, word, word).events
    more: list[Live] = [
        TextDelta(text=f"{word} said\n"),
        Progress(call="t9", text=word),
        ToolStarted(call="t9", tool_call_id="c", tool="run", describe=word, arguments={"command": word}),
        ToolStarted(call="t9", tool_call_id="c", tool="grep", arguments={"pattern": word, "path": word}),
        ToolStarted(call="t9", tool_call_id="c", tool="journal", arguments={"pattern": word, "unit": word}),
        *(
            ToolFinished(call="t9", tool_call_id="c", tool=word, status="tool_error", view=view)
            for view in (word, json.dumps({"error": word}))
        ),
        SystemNote(text=word),
        Failed(error=word, exit_code=1),
        ActionStarted(action="C1.1", change="C1", step="apply", digest="d" * 64),
        ActionFinished(action="C1.1", change="C1", step="apply", outcome="applied", detail=word),
        ApprovalGiven(change="C1", digest="d" * 64, decision="denied", by=word, reason=word),
        ApprovalVoided(change="C1", digest="d" * 64, why=word),
    ]
    return [*story, *more]


def shown(events: Sequence[Live], console: Console) -> str:
    terminal = Terminal(console)
    for event in events:
        terminal.show(event)
    out = console.file
    assert isinstance(out, io.StringIO)
    return out.getvalue()


@pytest.mark.threat(7)
def test_lines_on_a_terminal_hold_text_alone(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for number, word in enumerate(HOSTILE):
        events = live(word, tmp_path / str(number))
        assert unseen(shown(events, open_console(io.StringIO()))) == set(), repr(word)
    record_property("cases", len(HOSTILE))


@pytest.mark.threat(7)
def test_colours_on_a_terminal_are_ours_alone(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A terminal in colour is sent the colours that it is sent for plain words, and no other sequence."""

    def seen(word: str, root: Path) -> str:
        console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="256",
            width=100,
            highlight=False,
            emoji=False,
        )
        return shown(live(word, root), console)

    ours = set(COLOUR.findall(seen("plain", tmp_path / "plain")))
    assert len(ours) > 3
    for number, word in enumerate(HOSTILE):
        text = seen(word, tmp_path / str(number))
        assert set(COLOUR.findall(text)) <= ours, repr(word)
        assert unseen(COLOUR.sub("", text)) == set(), repr(word)
    record_property("cases", len(HOSTILE))


@pytest.mark.threat(7)
def test_markup_is_shown_as_it_is_written() -> None:
    """Square brackets, emoji names and quotes in a command are what runs, so they are what is seen."""
    for word in ("[bold]x[/bold]", ":skull:", "[link=http://e.example]y[/link]", "\\[x]", "a  b"):
        event = ToolStarted(call="t1", tool_call_id="c", tool="run", arguments={"command": word})
        assert f"$ {word}\n" in shown([event], open_console(io.StringIO()))


@pytest.mark.threat(7)
def test_a_page_has_the_elements_of_a_plain_one_and_nothing_unseen(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tried = [*SEQUENCES, *MARKUP, "".join(CONTROLS), "".join(UNSEEN)]
    plain = Page(page(full(tmp_path / "plain", "plain\nplain", "plain")))

    def forms(found: Page) -> set[tuple[str, str, str | None]]:
        named = {"class", "id", "href"}
        given = {(tag, key, value) for tag, attrs in found.skeleton for key, value in attrs}
        return {(tag, key, value if key in named else None) for tag, key, value in given}

    for number, word in enumerate(tried):
        html = page(full(tmp_path / str(number), word, word))
        hostile = Page(html)
        assert hostile.tags == plain.tags and forms(hostile) <= forms(plain), repr(word)
        assert hostile.wrong == [] and hostile.open == [] and unseen(html) == set(), repr(word)
        assert "default-src 'none'" in "".join(hostile.attributes("content"))
    record_property("cases", len(tried))


@pytest.mark.threat(7)
def test_a_case_file_in_markdown_has_no_link_no_picture_and_no_html(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tried = [*SEQUENCES, *MARKUP, "".join(CONTROLS), "".join(UNSEEN)]
    for number, word in enumerate(tried):
        story = full(tmp_path / str(number), word, word)
        text = to_markdown(build(story.events, story.store))
        kinds = {token.type for token in parse(text)}
        assert not kinds & {"link_open", "image", "html_inline", "html_block"}, repr(word)
        assert unseen(text) == set(), repr(word)
    record_property("cases", len(tried))


@pytest.mark.threat(7)
def test_json_holds_no_control_and_means_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    """JSON is read by programs, and now and then by a person's terminal."""
    tried = [word for word in HOSTILE if not 0xD800 <= ord(word[0]) < 0xE000]
    for number, word in enumerate(tried):
        given = json.dumps({word: [word]}, ensure_ascii=False)
        assert unseen(visible_json(given)) == set() and json.loads(visible_json(given)) == {word: [word]}
        story = full(tmp_path / str(number), word, word)
        case = to_json(build(story.events, story.store))
        assert unseen(case) == set() and word in json.loads(case)["symptom"]
        _print_event(SystemNote(text=word))
        printed = capsys.readouterr().out
        assert unseen(printed) == set() and json.loads(printed)["text"] == word
    record_property("cases", len(tried))


@pytest.mark.threat(7)
def test_ten_thousand_tabs_hide_nothing() -> None:
    """A line is not broken inside a command, so what is far to the right is on the screen below."""
    hidden = "ls" + "\t" * 10_000 + "; rm -rf /"
    for text in (
        hidden,
        hidden.replace("\t", " "),
        hidden.replace("\t", "\u3000"),
        hidden.replace("\t", "\n"),
    ):
        for put in (line, code, cell, prose, printable, lambda one: wrapped(printable(one), 80)):
            assert "rm -rf /" in put(text)


def test_the_answer_is_text_alone(tmp_path: Path) -> None:
    for number, word in enumerate(HOSTILE):
        story = full(tmp_path / str(number), word, word)
        case = build(story.events, story.store)
        assert case.conclusion is not None
        assert unseen(answer(case.conclusion, [f"case {word}.md"], case.changes)) == set()
