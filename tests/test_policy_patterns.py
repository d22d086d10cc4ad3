"""No argument makes a rule's own pattern run away: a decision ends, whatever is written into a command."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tools.policy import judge, read_denied, tree_denied
from tools.policy_examples import _expressions, _kinds
from tools.policy_load import shipped

SOON_S = 2.0
"""Seconds of processor time: a pattern that runs away takes hours, a decision a thousandth of one."""
_LONG = 3_900
FILLINGS = (
    *(
        "a",
        "-",
        "/",
        "0",
        " ",
        ".",
        ",",
        ":",
        "=",
        "a ",
        "- ",
        "0 ",
        "a-",
        "a.",
        "a,",
        "/a",
        "0.",
        "0:",
        "aA",
        "()",
    ),
    *(
        "( ",
        "= ",
        "state ",
        "sport ",
        "show ",
        "-s ",
        "a=",
        "../",
        "\\n",
        "[:space:]",
        "1,2p;",
        "src 1 ",
        "and ",
    ),
)
ENDINGS = ("", "!", "\\", "\x7e", " !", "'")


@contextmanager
def soon() -> Iterator[None]:
    """Raise when what is inside takes too long."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError("a pattern ran away")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SOON_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def patterns() -> set[str]:
    rules = shipped().rules.values()
    found = {pattern for rule in rules for _, pattern in _expressions(rule)}
    return found | {kind[1:-1] for rule in rules for _, kind in _kinds(rule) if kind.startswith("/")}


@pytest.mark.threat(10)
def test_no_pattern_of_a_rule_runs_away(record_property: Callable[[str, object], None]) -> None:
    found = sorted(patterns())
    texts = [filling * (_LONG // len(filling)) + ending for filling in FILLINGS for ending in ENDINGS]
    for pattern in found:
        compiled = re.compile(pattern)
        with soon():
            for text in texts:
                compiled.fullmatch(text)
    record_property("cases", len(found) * len(texts))
    assert len(found) > 200


@pytest.mark.threat(10)
def test_no_command_takes_long_to_judge(record_property: Callable[[str, object], None]) -> None:
    cases = 0
    for name in sorted(shipped().rules):
        with soon():
            judge(f"{name} {'-a ' * 900}")
            for filling in FILLINGS:
                judge(f"{name} '{filling * (3_000 // len(filling))}!'")
        cases += 1 + len(FILLINGS)
    record_property("cases", cases)


@pytest.mark.threat(10)
def test_no_path_takes_long_to_judge(record_property: Callable[[str, object], None]) -> None:
    cases = 0
    for piece in (
        "/",
        "a/",
        "/proc/1/root",
        "/proc/self/task/1/root",
        "./",
        "/.",
        ".ssh/",
        "a.pem",
        "net/",
        "/net",
    ):
        cases += 1
        with soon():
            read_denied(piece * (100_000 // len(piece)))
            tree_denied(piece * (100_000 // len(piece)))
    record_property("cases", cases)
