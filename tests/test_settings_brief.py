"""What a model is shown of settings: few lines, each quotable, and claims of them that the verifier holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.events import Started, ToolFinished
from agent.ledger import Ledger
from agent.models.claims import guards
from agent.models.explain import explain
from agent.models.explained import answered, as_search
from agent.models.views import Facts, find_quote, matches
from agent.state import Conclusion
from agent.verifier import check
from tests.settings_small import SmallTree, given
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef
from tools.definitions import HIDDEN
from tools.settings.brief import MOST_READERS, cited_places, settings_brief, with_handles
from tools.settings.define import definitions
from tools.settings.difference import Difference
from tools.settings.fitting import fit
from tools.settings.requested import Asked
from tools.settings.subject import Subject
from tools.settings.types import HostFacts

ARGUMENTS = """\
import dataclasses
from typing import Optional

@dataclasses.dataclass
class ServerArgs:
    enable_mis: bool = False
    pp_size: int = 1
    api_key: Optional[str] = None
    backend: Optional[str] = None
    off: bool = False

    def __post_init__(self):
        self._mis()
        self._pipeline()
        self._probe()

    def _mis(self):
        if not self.enable_mis:
            return
        self.off = True

    def _pipeline(self):
        if self.pp_size > 1:
            self.off = (
                True
            )
        if self.api_key == "x":
            self.off = True

    def _probe(self):
        if self.pp_size > 1:
            if torch.seems_slow():
                self.off = True
"""
RUNNER = """\
class Runner:
    def capture(self):
        if self.server_args.off:
            return
        self.graphs = 1
"""
DEFAULTS: dict[str, Any] = {"enable_mis": False, "pp_size": 1, "api_key": None, "backend": None, "off": False}
FILES = {"srt/server_args.py": ARGUMENTS, "srt/runner.py": RUNNER}
HANDLES = {"srt/server_args.py": "t2.1", "srt/runner.py": "t2.2", "server_info": "t2.3"}
CMDLINE = b"python\n-m\nsglang.launch_server\n--pp-size\n8\n"
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def subject_of(flags: dict[str, Any], files: dict[str, str] | None = None) -> Subject:
    tree = SmallTree(files or FILES)
    evaluation = given(DEFAULTS, flags)
    subject = Subject(tree, (), {}, HostFacts(), definitions(tree), evaluation)
    for name, value in flags.items():
        option = "--" + name.replace("_", "-")
        subject.asked.append(Asked(name, option, str(value), "command line", "/proc/7/cmdline"))
    subject.compare()
    return subject


def view_of(flags: dict[str, Any], *names: str) -> dict[str, Any]:
    brief = settings_brief(subject_of(flags), names)
    head = {"source": "/opt/sglang", "artifacts": HANDLES}
    shown: dict[str, Any] = with_handles(brief, HANDLES) | head
    return shown


def facts_of() -> Facts:
    argv = CMDLINE.decode().split()
    engine = {"engine": "sglang", "pid": 7, "argv": argv, "flags": {"pp_size": "8"}}
    return Facts({"artifacts": {"cmdline:7": "t1.1"}, "engines": [engine]}, engine)


def rows(view: dict[str, Any], result: str) -> list[dict[str, Any]]:
    return [row for group in view["settings"]["off"]["assigned"] for row in group["rows"]
            if group["result"] == result]  # fmt: skip


def test_each_assignment_stands_with_the_guard_that_decides_it() -> None:
    view = view_of({"pp_size": 8}, "off")
    (never, keyed) = rows(view, "cannot fire")
    assert never == {
        "at": "t2.1:20",
        "guard_at": "t2.1:18",
        "guard": "if not self.enable_mis:",
        "since": {"enable_mis": False},
    }
    assert keyed["since"] == {"api_key": HIDDEN}
    (fires,) = rows(view, "fires")
    assert fires["at"] == "t2.1:24-26"
    assert fires["guards"][-1] == {
        "guard_at": "t2.1:23",
        "guard": "if self.pp_size > 1:",
        "since": {"pp_size": 8},
    }
    (open_one,) = rows(view, "unknown")
    assert open_one["needs"] == ["torch.seems_slow()"]
    assert view["settings"]["off"]["default"] == {"at": "t2.1:10", "text": "off: bool = False"}
    assert view["settings"]["off"]["readers"] == [
        {"text": "if self.server_args.off:", "at": ["t2.2:3"], "then": "return"}
    ]


def test_a_value_that_nothing_quotes_is_said_to_have_no_line() -> None:
    view = view_of({"pp_size": 8}, "off")
    assert view["facts"]["enable_mis"] == {"at": "t2.1:6", "text": "enable_mis: bool = False"}
    assert "pp_size" not in view["facts"]  # it stands on the launch line
    assert view["facts"]["api_key"] is None


def test_what_the_engine_tells_needs_no_line() -> None:
    subject = subject_of({"pp_size": 8})
    subject.rows = [
        Difference("enable_mis", "default", False, True, "/server_info") if row.name == "enable_mis" else row
        for row in subject.rows
    ]
    assert "enable_mis" not in settings_brief(subject, ["off"])["facts"]
    search = as_search(
        with_handles(settings_brief(subject, ["off"]), HANDLES) | {"artifacts": HANDLES}, facts_of()
    )
    (fact,) = [
        fact
        for _, match in matches(search)
        for guard in match.get("guards", ())
        for fact in guard["decided_by"]
        if fact["name"] == "enable_mis"
    ]
    assert (fact["artifact"], fact["text"]) == ("t2.3", '"enable_mis": false')


def test_lines_that_read_a_setting_stand_once_and_the_rest_is_counted() -> None:
    lines = "".join(
        f"        if self.server_args.off and self.x{n}:\n            run({n})\n" for n in range(9)
    )
    twice = "    def two(self):\n        if self.server_args.off and self.x0:\n            run(1)\n"
    runner = f"class Runner:\n    def one(self):\n{lines}{twice}"
    subject = subject_of({}, {"srt/server_args.py": ARGUMENTS, "srt/runner.py": runner})
    view = settings_brief(subject, ["off"])["settings"]["off"]
    assert len(view["readers"]) == MOST_READERS
    assert view["more_readers"] == 9 - MOST_READERS
    assert any(len(reader["at"]) == 2 for reader in view["readers"])


def test_every_place_is_a_handle_of_what_is_kept() -> None:
    view = view_of({"pp_size": 8}, "off")
    places = list(cited_places(view))
    assert places and all(place.partition(":")[0] in HANDLES.values() for place in places)


@pytest.mark.parametrize("limit", [1200, 900, 700])
def test_a_view_is_cut_to_what_fits_and_says_so(limit: int) -> None:
    view = view_of({"pp_size": 8}, "off", "enable_mis")
    cut = fit(json.loads(json.dumps(view)), limit)
    assert len(json.dumps(cut)) <= limit and cut["cut"]
    assert fit(json.loads(json.dumps(view)), 100_000) == json.loads(json.dumps(view))


class Stored:
    """The stored output of an investigation that asked for settings."""

    def __init__(self, root: Path) -> None:
        self.store = ArtifactStore(root)
        self.artifacts: dict[str, ArtifactRef] = {}
        self.calls: dict[str, ToolFinished] = {}
        self.ledger = Ledger()
        self.ledger.apply(
            Started(
                thread="x", product="0", recorded="playbook", symptom="s", hosts=["lab"], mode="read-only"
            )
        )
        self.add("t1", "facts", [("t1.1", CMDLINE, "/proc/7/cmdline", None)])
        files = [
            (HANDLES[path], text.encode(), f"/opt/sglang/{path}", "sglang") for path, text in FILES.items()
        ]
        self.add("t2", "settings", files)

    def add(self, call: str, tool: str, kept: Sequence[tuple[str, bytes, str, str | None]]) -> None:
        refs = [
            ArtifactRef(handle=handle, sha256=self.store.put(data), size=len(data), label=path, host="lab",
                        path=path, package=package, version="1.0", taken_at=NOW)
            for handle, data, path, package in kept
        ]  # fmt: skip
        self.artifacts |= {ref.handle: ref for ref in refs}
        self.calls[call] = ToolFinished(
            call=call, tool_call_id=call, tool=tool, host="lab", status="ok", view="{}", artifacts=refs
        )


def test_what_is_claimed_of_assignments_holds_against_the_stored_source(tmp_path: Path) -> None:
    search = as_search(view_of({"pp_size": 8}, "off"), facts_of())
    made = list(guards(facts_of(), "off", [search], [], {"true", "false", "unknown"}))
    assert {claim["statement"]["lines"][0]: claim["verdict"] for claim in made} == {20: "false", 24: "true"}
    stored = Stored(tmp_path)
    conclusion = Conclusion.model_validate({"outcome": "diagnosed", "summary": "s", "claims": made})
    checks = check(conclusion, stored.artifacts, stored.store, stored.calls, stored.ledger)
    assert [item.status for item in checks] == ["verified", "verified"], [item.why for item in checks]


def test_a_claim_on_changed_source_does_not_hold(tmp_path: Path) -> None:
    search = as_search(view_of({"pp_size": 8}, "off"), facts_of())
    (claim, *_) = guards(facts_of(), "off", [search], [], {"false"})
    stored = Stored(tmp_path)
    other = ARGUMENTS.replace("if not self.enable_mis:", "if not self.enable_abc:").encode()
    stored.add("t2", "settings", [("t2.1", other, "/opt/sglang/srt/server_args.py", "sglang")])
    conclusion = Conclusion.model_validate({"outcome": "diagnosed", "summary": "s", "claims": [claim]})
    (item,) = check(conclusion, stored.artifacts, stored.store, stored.calls, stored.ledger)
    assert item.status == "unverified" and "the quote is not in t2.1" in item.why


def test_the_flag_behind_an_override_is_found_in_the_answer() -> None:
    search = as_search(view_of({"pp_size": 8}, "off"), facts_of())
    found = explain("off", "True", facts_of(), [search])
    assert [(reason.flag, reason.value) for reason in found.reasons] == [("pp_size", "8")]
    assert find_quote([search], r"if self\.server_args\.off") is not None


@pytest.mark.parametrize("view", [{}, {"error": "no source"}, {"settings": []}, {"settings": {"off": 3}}])
def test_an_answer_that_is_none_gives_no_lines(view: dict[str, Any]) -> None:
    assert not list(matches(as_search(view, facts_of())))
    assert not answered(view)


def test_the_line_that_copies_a_setting_stands_before_those_that_read_the_copy() -> None:
    loop = (
        "class Loop:\n"
        "    def __init__(self, server_args):\n"
        "        self.overlap = not server_args.off\n"
        "    def run(self):\n"
        "        if self.overlap:\n"
        "            return self.overlapped()\n"
    )
    subject = subject_of({}, {"srt/server_args.py": ARGUMENTS, "srt/loop.py": loop})
    readers = settings_brief(subject, ["off"])["settings"]["off"]["readers"]
    assert [reader["text"] for reader in readers] == [
        "self.overlap = not server_args.off",
        "if self.overlap:",
    ]


@pytest.mark.parametrize(
    ("guard", "since", "claimed"),
    [
        ("if self.a:", {"a": False}, True),
        ("elif ( self.a or self.b == 'x'", {"a": False, "b": "y"}, True),
        ("if self.a and slow():", {"a": False}, True),
        ("if self.a or slow():", {"a": False}, False),
        ("if get_args().a:", {"a": False}, False),
        ("if self.model.deep.a:", {"a": False}, False),
        ("if self.a:  # (why not", {"a": False}, True),
        ("if self.a in [1, 2]:", {"a": 3}, True),
        ("if self.a !:", {"a": 3}, False),
    ],
)
def test_only_a_guard_that_its_values_decide_is_claimed(
    guard: str, since: dict[str, Any], *, claimed: bool
) -> None:
    row = {"at": "t2.1:20", "guard_at": "t2.1:18", "guard": guard, "since": since}
    group = {"result": "cannot fire", "text": "self.off = True", "rows": [row]}
    view = {"settings": {"off": {"assigned": [group]}}, "artifacts": HANDLES}
    made = list(guards(facts_of(), "off", [as_search(view, facts_of())], [], {"false"}))
    assert bool(made) is claimed
