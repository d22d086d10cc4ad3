from __future__ import annotations

import json
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.casefile import build
from agent.casefile_html import to_html
from agent.events import (
    ActionFinished,
    ApprovalGiven,
    ChangeMoved,
    ConclusionChecked,
    Ended,
    Event,
    Failed,
    Judged,
    Measured,
    PlanMade,
)
from agent.state import Comparison, Level, LevelComparison, Measurement, MechanismValue
from agent.surfaces.cli import app
from tests.test_casefile import EVIL, NOW, SOURCE, Story, whole

HOSTILE = (
    EVIL,
    "<script>alert(1)</script></style></title><img src=x onerror=alert(1)>",
    "</pre></mark></span></details></main><a href='javascript:alert(1)'>x</a>",
    '" onmouseover="alert(1)" \' x=\'',
    "{{ 7 * 7 }} {% raw %} {# c #} ]]> --> <!-- &lt;b&gt; &#60;i&#62;",
    "\x1b]8;;http://e.x\x07link\x1b]8;;\x07 a\x00b \u202eevil\u202c \u200b\u2066 \ufeff",
)
VOID = {"meta", "br"}
URLS = {"href", "src", "action", "formaction", "data", "poster", "srcset", "background", "cite", "ping"}


class Page(HTMLParser):
    """Read a page as a browser's parser would, and keep its skeleton."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.skeleton: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.texts: list[str] = []
        self.wrong: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.skeleton.append((tag, tuple(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.skeleton.append((tag, tuple(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if "style" not in self.open[-1:]:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"comment {data}")

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.skeleton}

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, attrs in self.skeleton for key, value in attrs if key == name]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page(story: Story) -> str:
    return to_html(build(story.events, story.store), story.events, story.store)


def grepped(story: Story, word: str) -> None:
    """Search as `grep` does: two statements, one with a claim, with ``word`` wherever text may stand."""
    guard = {
        "line": 2,
        "condition": f"self.enable_mis {word}",
        "verdict": "false",
        "because": f"because {word}",
    }
    matches = [
        {"line": 4, "text": "self.disable_cuda_graph = True", "kind": "write", "symbol": f"A.b {word}",
         "verdict": "false", "guards": [guard]},
        {"line": 9, "text": f"self.disable_cuda_graph = x {word}", "kind": "write", "verdict": "true",
         "restores": True},
        {"line": 11, "text": "print(disable_cuda_graph)", "kind": "read", "verdict": "true"},
    ]  # fmt: skip
    results = [{"path": "/opt/sglang/x.py", "matches": matches}, {"path": 3, "matches": "no"}, "no"]
    story.call("t5", "grep", SOURCE, view={"results": results})


def tried(story: Story, word: str) -> None:
    """Record a trial of C1: 24.4 to 44.3 tok/s at one request, nothing at eight."""

    def measured(scale: float) -> Measurement:
        levels = [
            Level(concurrency=1, throughput=[24.0 * scale, 24.8 * scale], power_w=85.0),
            Level(concurrency=8, throughput=[97.0, 98.0], power_w=151.0),
        ]
        return Measurement(artifact="t4.1", taken_at=NOW, seed=0, levels=levels)

    row: dict[str, Any] = {
        "low": 0.99,
        "high": 1.01,
        "repeats": 2,
        "before": 97.5,
        "after": 97.5,
        "ratio": 1.0,
    }
    comparison = Comparison(
        levels=[
            LevelComparison(concurrency=1, before=24.4, after=44.3, ratio=1.81, low=1.7, high=1.92,
                            verdict="improved", repeats=2),
            LevelComparison(concurrency=8, verdict="no_effect", why=f"holds 1 {word}", **row),
        ],
        verdict="improved",
        mechanism=[MechanismValue(name=f"m {word}", before=0, after=f"1 {word}", moved=True)],
        mechanism_moved=True,
        mechanism_says=f"moved {word}",
        effective=MechanismValue(name="disable_cuda_graph", before=True, after=False, moved=True),
        outputs_equal=True,
        outputs_compared=4,
        outputs_different=0,
        kept=True,
        why=f"improved at 1 {word}",
    )  # fmt: skip
    ref = story.ledger.artifacts["t4.1"]
    plan = {
        "diff": f"--- a\n+++ b\n-x {word}\n+y",
        "dropin_path": f"/etc/x {word}",
        "rollback_after_s": 120.0,
    }
    events: list[Event] = [
        PlanMade(change="C1", tool_call_id="c", plan=plan, digest="d" * 64),
        ApprovalGiven(change="C1", digest="d" * 64, decision="approved", by=word, reason=word),
        Measured(change="C1", phase="baseline", artifact=ref, measurement=measured(1)),
        ActionFinished(action="C1.1", change="C1", step="apply", outcome="applied", detail=word),
        ActionFinished(action="C1.2", change="C1", step="confirm", outcome="failed", detail=word),
        Measured(change="C1", phase="after", artifact=ref, measurement=measured(1.816)),
        Judged(change="C1", comparison=comparison, predicted=f"p {word}", measured=f"m {word}", artifact=ref),
    ]
    for event in events:
        story.feed(event)


def full(root: Path, word: str, scenario: str | None = None) -> Story:
    story = Story(root, word, scenario)
    story.state()
    story.gather()
    grepped(story, word)
    tried(story, word)
    story.conclude()
    return story


def test_a_whole_page(tmp_path: Path) -> None:
    html = page(full(tmp_path, "plain"))
    found = Page(html)
    assert found.wrong == [] and found.open == []
    headings = [
        "Changes", "What no setting changes", "Settings and guards", "Measurements", "Hypotheses",
        "Ruled out", "Evidence, claim by claim", "Not verified", "Opinions", "Timeline",
        "Check a citation by hand", "Budget",
    ]  # fmt: skip
    places = [html.index(f"<h2>{heading}") for heading in headings]
    assert places == sorted(places)
    assert "Diagnosed The cause is established." in found.text
    assert "5 of 6 verified" in found.text and "Leave out --disable-cuda-graph" in found.text
    assert "lab:/opt/sglang/x.py:4@0.5.11#" in found.text
    ids = found.attributes("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in found.attributes("href")} <= set(ids)


def test_the_page_runs_nothing_and_loads_nothing(tmp_path: Path) -> None:
    html = page(full(tmp_path, EVIL, EVIL))
    found = Page(html)
    assert not found.tags & {"script", "iframe", "object", "embed", "link", "img", "form", "base", "a:href"}
    assert [value for name in URLS for value in found.attributes(name) if not value.startswith("#")] == []
    [policy] = [value for value in found.attributes("content") if value.startswith("default-src")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style and "@import" not in style


@pytest.mark.parametrize("word", HOSTILE)
def test_no_element_and_no_attribute_comes_from_text(tmp_path: Path, word: str) -> None:
    same_shape = "\n".join("plain" for _ in word.splitlines())
    plain, hostile = (
        Page(page(full(tmp_path / name, each, each))) for name, each in (("a", same_shape), ("b", word))
    )
    assert hostile.wrong == [] and hostile.open == []
    assert [tag for tag, _ in hostile.skeleton] == [tag for tag, _ in plain.skeleton]
    for (_, seen), (_, expected) in zip(hostile.skeleton, plain.skeleton, strict=True):
        assert [key for key, _ in seen] == [key for key, _ in expected]
        assert {value for key, value in seen if key in {"class", "id", "href"}} == {
            value for key, value in expected if key in {"class", "id", "href"}
        }


@pytest.mark.parametrize("word", HOSTILE)
def test_nothing_unseen_reaches_the_page(tmp_path: Path, word: str) -> None:
    html = page(full(tmp_path, word, word))
    assert not set("\x00\x07\x1b\u202e\u202c\u200b\u2066\ufeff") & set(html)


def test_what_was_unseen_can_be_read(tmp_path: Path) -> None:
    text = Page(page(full(tmp_path, "a\x1b[2J\u202eb\x00c"))).text
    assert "a\\x1b[2J<U+202E>b\\x00c" in text


def test_long_text_is_bounded_and_says_so(tmp_path: Path) -> None:
    short, long = (page(full(tmp_path / str(size), "x" * size)) for size in (10, 100_000))
    assert len(long) < len(short) + 120 * 8_000
    text = Page(long).text
    assert "more characters, in case.json]" in text
    assert "characters left out, whole in t3.1]" in text


def test_very_many_citations_still_make_a_page(tmp_path: Path) -> None:
    story = whole(tmp_path)
    checked = next(event for event in story.events if isinstance(event, ConclusionChecked))
    many = checked.model_copy(
        update={
            "checks": [checked.checks[0]] * 2000,
            "conclusion": checked.conclusion.model_copy(
                update={"claims": [checked.conclusion.claims[0]] * 2000}
            ),
        }
    )
    story.events[story.events.index(checked)] = many
    html = page(story)
    assert len(html) < 1_000_000 and "1700 more claims in case.json." in Page(html).text


def test_statements_stand_with_what_decides_them(tmp_path: Path) -> None:
    text = Page(page(full(tmp_path, "plain"))).text
    assert "/opt/sglang/x.py:4 in A.b plain · claim 3" in text
    assert "self.enable_mis plain false line 2 because plain" in text
    assert "1 more statement found, none of which a claim needs: 1 with nothing in the way" in text


def test_a_trial_stands_with_its_change(tmp_path: Path) -> None:
    html = page(full(tmp_path, "plain"))
    text = Page(html).text
    assert "Kept: improved at 1 plain" in text
    assert "24.4 tok/s 44.3 tok/s × 1.81 1.70 to 1.92 improved" in text
    assert "97.5 tok/s 97.5 tok/s × 1.00 0.99 to 1.01 no effect" in text
    assert "approved by plain: plain" in text and "confirm failed plain" in text
    assert "equal, 4 compared" in text
    assert "Nothing on the host was changed" not in text
    assert html.index("Decode throughput, change by change") < html.index("<h2>Changes")


def test_the_outcome_is_said_in_words(tmp_path: Path) -> None:
    story = whole(tmp_path)
    assert "Nothing on the host was changed." in Page(page(story)).text
    story.events[-1] = Ended(outcome="configuration_fine", summary="s", seq=len(story.events), at=NOW)
    assert "Configuration is fine No setting explains the symptom." in Page(page(story)).text


def test_an_unfinished_page_shows_what_was_gathered(tmp_path: Path) -> None:
    story = Story(tmp_path, "plain")
    assert "Not finished There is no conclusion yet" in Page(page(story)).text
    story.state()
    story.gather()
    story.feed(Failed(error="host lab is gone", exit_code=6))
    text = Page(page(story)).text
    assert "Not finished host lab is gone" in text and "cause 1 plain" in text


def test_a_simulated_host_is_said_first(tmp_path: Path) -> None:
    html = page(full(tmp_path / "a", "plain", "kimi-k26-pp8"))
    assert html.index("Simulated host.") < html.index("<h1>")
    assert "Decode throughput, change by change, simulated" in Page(html).text
    assert "imulated" not in Page(page(full(tmp_path / "b", "plain"))).text


def test_claims_that_failed_stand_apart(tmp_path: Path) -> None:
    html = page(whole(tmp_path))
    verified, unverified = html.index('<section id="evidence">'), html.index('<section id="unverified">')
    assert "false plain" not in html[verified:unverified]
    assert (
        "false plain" in html[unverified:]
        and "opinion plain" in html[html.index('<section id="opinions">') :]
    )


def test_the_strip_shows_how_long_calls_took(tmp_path: Path) -> None:
    story = whole(tmp_path)
    story.events = [
        event.model_copy(update={"at": NOW + timedelta(seconds=index)})
        for index, event in enumerate(story.events)
    ]
    html = page(story)
    assert "t4 benchmark (1 s)" in html


def test_cases_can_be_listed_shown_and_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    folder = tmp_path / "threads" / "t-1"
    story = whole(folder / "artifacts", "plain")
    (folder / "transcript.jsonl").write_text(
        "".join(event.model_dump_json() + "\n" for event in story.events), encoding="utf-8"
    )
    runner = CliRunner()
    assert "No case files yet" in runner.invoke(app, ["cases", "list"]).stdout
    opened = runner.invoke(app, ["cases", "open", "t-1"])
    assert opened.stdout.strip() == str(folder / "case.html")
    assert Page((folder / "case.html").read_text(encoding="utf-8")).wrong == []
    listed = json.loads(runner.invoke(app, ["cases", "list", "--json"]).stdout)
    assert (listed["session_id"], listed["page"]) == ("t-1", str(folder / "case.html"))
    assert runner.invoke(app, ["cases", "show", "t-1"]).stdout.startswith("# Case file: slow plain")
    assert runner.invoke(app, ["cases", "open", "t-2"]).exit_code != 0


def test_changes_that_were_tried_are_told_as_done(tmp_path: Path) -> None:
    story = full(tmp_path, "plain")
    assert "<h2>What to do</h2>" in page(story)
    change = story.ledger.changes["C1"].model_copy(update={"status": "verified"})
    story.feed(ChangeMoved(change=change))
    assert "<h2>What was done</h2>" in page(story) and "<h2>What to do</h2>" not in page(story)
