"""For every accepted command, bash and dash start the arguments that were judged; so does what is rendered.

A parser with one rule missing is found out by the same comparison.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evals.policy_shells import NAMES, SHELLS, Found, Shells, compare
from tools import policy_parse
from tools.policy import judge
from tools.policy_parse import PLAIN, Stage, Unreadable, parse

COUNT = 5_000
SEED = 20_261_128


@pytest.mark.threat(19)
def test_shells_start_what_was_judged(record_property: Callable[[str, object], None]) -> None:
    found = compare(COUNT, SEED)
    record_property("cases", found.accepted)
    assert found.differences == []
    assert found.accepted == COUNT
    assert found.generated < 10 * COUNT, "most of what is generated is refused: it says little"


@pytest.mark.threat(19)
def test_the_corpus_starts_as_judged(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    batch = []
    for command in (Path(__file__).parent / "data" / "policy_allow.txt").read_text().splitlines():
        decision = judge(command)
        known = all(argv[0] in NAMES for argv in decision.argv)
        if decision.verdict == "allow" and known and "<" not in command:
            batch.append((command, parse(command)))
            assert tuple(stage.argv for stage in batch[-1][1]) == decision.argv
    record_property("cases", len(batch))
    assert len(batch) >= 150
    assert Shells(tmp_path).differences(batch) == []


def _double_quoted_as_it_is(text: str) -> str:
    return text[1:-1]


def _double_quoted_with_variables(text: str) -> str:
    return re.sub(r'\\([$`"\\])', r"\1", text[1:-1])


def _every_backslash_escapes(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _raw_strings_know_escapes(text: str) -> str:
    return text[1:-1].replace("\\n", "n")


class _BlindToComments:
    """Parse as if ``#`` were a letter."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def parse(self, source: bytes) -> Any:
        return self.real.parse(source.replace(b"#", b"h"))


def _rendered_without_quotes(stage: Stage) -> str:
    return " ".join(stage.argv)


def _line_breaks_are_blanks(real: Callable[[str], tuple[Stage, ...]]) -> Callable[[str], tuple[Stage, ...]]:
    return lambda command: real(command.replace("\n", " ").replace("\t", " "))


def _without_backgrounds(real: Callable[[str], tuple[Stage, ...]]) -> Callable[[str], tuple[Stage, ...]]:
    """Read what stands before ``;`` and ``&`` alone, as a judge of first words does."""

    def read(command: str) -> tuple[Stage, ...]:
        try:
            return real(command)
        except Unreadable:
            first = re.split(r"[;&]", command, maxsplit=1)[0]
            return real(first)

    return read


def _plant_blindness(patch: pytest.MonkeyPatch) -> None:
    blind = _BlindToComments(policy_parse._parser())
    patch.setattr(policy_parse, "PLAIN", PLAIN | set("#"))
    patch.setattr(policy_parse, "_parser", lambda: blind)


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "braces are letters": lambda patch: patch.setattr(policy_parse, "PLAIN", PLAIN | set("{},")),
    "globs are letters": lambda patch: patch.setattr(policy_parse, "PLAIN", PLAIN | set("*?[]")),
    "a tilde is a letter": lambda patch: patch.setattr(policy_parse, "PLAIN", PLAIN | set("~")),
    "a backslash is a letter": lambda patch: patch.setattr(policy_parse, "PLAIN", PLAIN | set("\\")),
    "quotes keep backslashes": lambda patch: patch.setattr(
        policy_parse, "_double_quoted", _double_quoted_as_it_is
    ),
    "quotes hide variables": lambda patch: patch.setattr(
        policy_parse, "_double_quoted", _double_quoted_with_variables
    ),
    "quotes drop backslashes": lambda patch: patch.setattr(
        policy_parse, "_double_quoted", _every_backslash_escapes
    ),
    "raw strings know escapes": lambda patch: patch.setattr(
        policy_parse, "_single_quoted", _raw_strings_know_escapes
    ),
    "comments are words": _plant_blindness,
    "nothing is quoted again": lambda patch: patch.setattr(
        Stage, "rendered", property(_rendered_without_quotes)
    ),
    "any redirect is silence": lambda patch: patch.setattr(policy_parse, "_SILENCED", re.compile(r"2?>.*")),
    "line breaks are blanks": lambda patch: patch.setattr(
        policy_parse, "parse", _line_breaks_are_blanks(parse)
    ),
    "the rest of a list is not looked at": lambda patch: patch.setattr(
        policy_parse, "parse", _without_backgrounds(parse)
    ),
}


@pytest.mark.threat(19)
@pytest.mark.parametrize("bug", BUGS)
def test_a_parser_with_a_bug_is_found_out(
    bug: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    BUGS[bug](monkeypatch)
    found: Found = compare(COUNT, SEED, until_different=True)
    record_property("cases", found.accepted)
    assert found.differences, f"{found.accepted} commands did not show it"
    assert {one.shell for one in found.differences} <= set(SHELLS)
