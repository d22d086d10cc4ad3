from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agent import inert
from agent.actions import ConcludeArgs, HypothesisArgs, ProposeChangeArgs
from agent.casefile import build, to_json, to_markdown
from agent.events import (
    BudgetUsed,
    ConclusionChecked,
    Ended,
    Event,
    Failed,
    Started,
    ToolFinished,
    ToolStarted,
    TurnTaken,
)
from agent.ledger import Ledger
from agent.verifier import check, problems
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
EVIL = (
    "``` x\n# Owned <script>alert(1)</script> [a](http://e.x) ![i](//e.x/i.png) **b** | c \x1b[2J \u202egnp"
    " https://e.x"
)
SOURCE = (
    b"disable_cuda_graph: bool = False\nif not self.enable_mis:\n    return\nself.disable_cuda_graph = True\n"
)
CMDLINE = b"sglang\n--disable-cuda-graph\n--pp-size\n8\n"
BENCH = {"runs": [{"concurrency": 1, "output_throughput": 24.4, "gpu": {"power_w_mean": 85.0}}]}


def cite(artifact: str, quote: str) -> dict[str, Any]:
    return {"artifact": artifact, "quote": quote}


class Story:
    """Drive a whole small investigation, with ``word`` in every place where free text may stand."""

    def __init__(self, root: Path, word: str, scenario: str | None = None) -> None:
        self.store = ArtifactStore(root)
        self.ledger = Ledger()
        self.events: list[Event] = []
        self.word = word
        self.feed(
            Started(
                thread="t-1",
                product="0.1.0",
                recorded="playbook",
                scenario=scenario,
                symptom=f"slow {word}",
                hosts=["lab"],
                mode="read-only",
                budget={"max_turns": 40, "max_tokens": 2_000_000},
            )
        )
        self.call("t1", "facts", CMDLINE, path="/proc/7/cmdline")
        self.feed(TurnTaken(model="playbook"))

    def feed(self, event: Event) -> None:
        event = event.model_copy(update={"seq": len(self.events), "at": NOW})
        self.events.append(event)
        self.ledger.apply(event)

    def call(
        self, call: str, tool: str, data: bytes, view: dict[str, Any] | None = None, **more: Any
    ) -> None:
        ref = ArtifactRef(
            handle=f"{call}.1",
            sha256=self.store.put(data),
            size=len(data),
            host="lab",
            taken_at=NOW,
            label=f"{tool} {self.word}",
            **more,
        )
        self.feed(ToolStarted(call=call, tool_call_id=call, tool=tool, describe=f"{tool} {self.word}"))
        self.feed(
            ToolFinished(
                call=call,
                tool_call_id=call,
                tool=tool,
                status="ok",
                view=json.dumps(view or {}),
                artifacts=[ref],
            )
        )

    def hypothesis(self, **args: Any) -> None:
        for event in self.ledger.hypothesis(HypothesisArgs.model_validate(args), self.store).events:
            self.feed(event)

    def state(self) -> None:
        def text(name: str, favours: str, pattern: str) -> dict[str, Any]:
            return {
                "id": name,
                "favours": favours,
                "says": f"{name} {self.word}",
                "check": {"kind": "text", "pattern": pattern},
            }

        predictions = [text("P1", "for", "disable-cuda-graph"), text("P2", "against", "owned")]
        for rank in (1, 2):
            statement = f"cause {rank} {self.word}"
            self.hypothesis(add=[{"statement": statement, "rank": rank, "predictions": predictions}])

    def gather(self) -> None:
        self.call("t2", "grep", SOURCE, path="/opt/sglang/x.py", package="sglang", version="0.5.11")
        self.call("t3", "journal", f"log {self.word} owned\n".encode())
        self.call("t4", "benchmark", b'{"output_throughput": 24.4}\n', view=BENCH)
        first = {"prediction": "P1", "kind": "configuration", "note": f"note {self.word}"}
        self.hypothesis(update=[{"id": "H1", "evidence": [first | cite("t1.1", "--disable-cuda-graph")]}])
        second = {"prediction": "P2", "kind": "log", **cite("t3.1", f"log {self.word} owned")}
        self.hypothesis(update=[{"id": "H2", "evidence": [second]}])
        word = self.word[:1000]  # a longer proposal is refused
        change = {
            "unit": f"u {word}",
            "setting": "--disable-cuda-graph",
            "from_value": f"true {word}",
            "reason": word,
            "hypotheses": ["H1"],
            "predicted_effect": word,
            "mechanism": word,
            "rollback": word,
            "cautions": [word],
        }
        for event in self.ledger.propose_change(ProposeChangeArgs.model_validate(change)).events:
            self.feed(event)

    def conclude(self) -> None:
        word = self.word
        args = {
            "outcome": "diagnosed",
            "summary": f"summary {word}",
            "causes": ["H1"],
            "claims": self._claims(),
            "changes": ["C1"],
            "ruled_out": [{"hypothesis": "H2", "because": f"because {word}"}],
            "inherent": [f"inherent {word}"],
            "next_step": f"next {word}\n\nand {word}",
        }
        conclusion = ConcludeArgs.model_validate(args).conclusion()
        self.ledger.may_conclude(conclusion)
        checks = check(conclusion, self.ledger.artifacts, self.store, self.ledger.calls, self.ledger)
        wrong = problems(conclusion, checks, self.ledger)
        self.feed(ConclusionChecked(conclusion=conclusion, checks=checks, accepted=True, problems=wrong))
        self.feed(BudgetUsed(turns=3, tokens=10, cost_usd=0.5, wall_s=2.5))
        self.feed(Ended(outcome="diagnosed", summary=conclusion.summary))

    def _claims(self) -> list[dict[str, Any]]:
        """Return a claim of each kind, one of which is false."""
        word = self.word
        guard = {
            "type": "guard",
            "says": f"guard {word}",
            "verdict": "unknown",
            "statement": cite("t2.1", "self.disable_cuda_graph = True"),
            "condition": cite("t2.1", "if not self.enable_mis:"),
        }
        setting = {
            "type": "setting",
            "says": f"set {word}",
            "name": "disable_cuda_graph",
            "value": "true",
            "layer": "requested",
            "cite": cite("t1.1", "--disable-cuda-graph"),
        }
        number = {"cite": cite("t4.1", '"output_throughput": 24.4'), "pattern": r"(\d+\.\d)"}
        return [
            setting,
            setting
            | {
                "layer": "default",
                "value": "False",
                "cite": cite("t2.1", "disable_cuda_graph: bool = False"),
            },
            guard,
            {"type": "log_event", "says": f"log {word}", "cite": cite("t3.1", f"log {word} owned")},
            {
                "type": "measurement",
                "says": f"speed {word}",
                "value": 24.4,
                "unit": "tok/s",
                "expression": "a",
                "numbers": {"a": number},
            },
            {"type": "log_event", "says": f"false {word}", "cite": cite("t3.1", f"nowhere {word}")},
            {"type": "opinion", "says": f"opinion {word}"},
        ]


def whole(root: Path, word: str = "plain", scenario: str | None = None) -> Story:
    story = Story(root, word, scenario)
    story.state()
    story.gather()
    story.conclude()
    return story


def parse(markdown: str) -> list[Token]:
    flat: list[Token] = []
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(markdown):
        flat += [token, *(token.children or [])]
    return flat


def headings(markdown: str) -> list[str]:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    return [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]


def test_a_whole_case(tmp_path: Path) -> None:
    story = whole(tmp_path)
    case = build(story.events, story.store)
    text = to_markdown(case)
    assert [row.check.status for row in case.claims] == ["verified"] * 5 + ["unverified", "opinion"]
    assert [name for name in headings(text) if name[:2] not in ("H1", "H2", "C1", "Hy", "Ho")] == [
        "Case file: slow plain",
        "Causes",
        "What no setting changes",
        "Changes",
        "Settings explained",
        "Guards judged",
        "Ruled out",
        "Measurements",
        "Verified claims",
        "Not verified",
        "Opinions",
        "Next step",
        "Timeline",
        "Budget",
    ]
    assert "**Outcome: diagnosed.** summary plain" in text
    assert "5 of 6 verified, 1 shown as opinion" in text
    assert "lab:/opt/sglang/x.py:4@0.5.11#" in text
    assert "| `disable_cuda_graph` | `False` | `true` |  |  |" in text
    assert "- --disable-cuda-graph true plain\n  (left out, so that its default holds)" in text
    assert "| t4 | 1 | 24.4 |  |  |  | 85 |" in text
    assert "- turns: 3 of 40\n" in text and "- tokens: 10 of 2,000,000\n" in text
    assert "Simulated" not in text
    assert "\n\n\n\n" not in text


def test_a_simulated_host_is_said_first(tmp_path: Path) -> None:
    story = whole(tmp_path, scenario="kimi-k26-pp8")
    text = to_markdown(build(story.events, story.store))
    assert text.index("> **Simulated host.**") < text.index("**Outcome")
    assert "`kimi-k26-pp8`" in text


@pytest.mark.parametrize("word", [EVIL, "- list", "1. one", "a|b", "&lt;b&gt;", "$x$ ~~y~~ _z_ \\", "`"])
def test_text_of_any_origin_stays_text(tmp_path: Path, word: str) -> None:
    same_shape = "\n".join("plain" for _ in word.splitlines())
    plain, story = whole(tmp_path / "a", same_shape), whole(tmp_path / "b", word)
    expected, text = (to_markdown(build(each.events, each.store)) for each in (plain, story))
    kinds = [
        [token.type for token in parse(each) if token.type not in {"text", "text_special"}]
        for each in (expected, text)
    ]
    assert kinds[1] == kinds[0]
    assert not {"html_block", "html_inline", "link_open", "image"} & set(kinds[1])
    assert "\x1b" not in text and "\u202e" not in text


def test_what_is_unseen_becomes_visible() -> None:
    assert inert.code("a\u202eb") == "`a<U+202E>b`"
    assert inert.code("a|b") == "`a|b`" and inert.cell("a|b") == "`a\\|b`"
    assert inert.block("a\x1b[2J\r\n````\nb") == "`````text\na\\x1b[2J\n````\nb\n`````"
    assert inert.code("``x") == "``` ``x ```"
    assert inert.line("  a_b\n*c* ") == "a_b \\*c\\*"
    assert inert.line("# no") == "\\# no" and inert.line("12. x") == "12\\. x"
    assert inert.line("see https://e.x and www.e.x") == (
        "see https\\[:\\]//e\\[.\\]x and www\\[.\\]e\\[.\\]x"
    )


def test_an_unfinished_case_shows_what_was_gathered(tmp_path: Path) -> None:
    story = Story(tmp_path, "plain")
    story.state()
    story.gather()
    text = to_markdown(build(story.events, story.store))
    assert "**Not finished.**" in text and "## Causes" not in text and "## Hypotheses" in text
    story.feed(Failed(error="host lab is gone", exit_code=6))
    assert "**Not finished: host lab is gone**" in to_markdown(build(story.events, story.store))


def test_a_conclusion_that_was_sent_back_is_not_shown(tmp_path: Path) -> None:
    story = whole(tmp_path)
    sent_back = [event for event in story.events if not isinstance(event, Ended)]
    last = next(event for event in sent_back if isinstance(event, ConclusionChecked))
    sent_back[sent_back.index(last)] = last.model_copy(update={"accepted": False})
    case = build(sent_back, story.store)
    assert case.conclusion is None and case.claims == []
    assert "sent back; 5 of 7 claims verified" in to_markdown(case)


def test_changed_artifacts_are_told(tmp_path: Path) -> None:
    story = whole(tmp_path)
    story.store.path(story.ledger.artifacts["t2.1"].sha256).write_bytes(b"other")
    case = build(story.events, story.store)
    assert [source.handle for source in case.sources if not source.intact] == ["t2.1"]
    assert to_markdown(case).count("**changed or missing**") == 1


def test_json_holds_the_same_and_reads_back(tmp_path: Path) -> None:
    story = whole(tmp_path, EVIL)
    case = build(story.events, story.store)
    assert type(case).model_validate_json(to_json(case)) == case


def test_a_transcript_begins_with_its_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="begins with a started event"):
        build([TurnTaken(model="m")], ArtifactStore(tmp_path))
