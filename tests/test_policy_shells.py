"""For every accepted command, bash and dash run the arguments that were judged; so they do what is rendered.

The programs are stand-ins that write down their arguments. A judge without its rule for braces is found out.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tools import policy_parse
from tools.policy import Decision, judge

NAMES = ("grep", "tr", "cat", "head", "wc", "cut", "rg", "ls", "find", "uniq", "sort", "curl", "jq", "ss")
STAND_IN = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$@" '\036' >> "$RECORD"
"""

_PLAIN = ["x", "-n", "5", "a=b", "-e", "/opt/x", "-A3", "--", "!", "%s", "^a", "a,b", "@x", "+5", "-", "data"]
_QUOTED = [
    *(
        "'a b'",
        '"a b"',
        "''",
        '""',
        '"a$"',
        '"a$|b"',
        '"\\$x"',
        '"\\n"',
        '"a\\"b"',
        "'a\"b'",
        '"a\'b"',
        "a''b",
        '"\\\\"',
    ),
    *(
        "'*'",
        "'{a,b}'",
        "'$x'",
        "'\\n'",
        '"~"',
        '"!x"',
        "'#'",
        "';'",
        "2>/dev/null",
        "2>&1",
        "< data",
        "| cat",
        "|head -5",
    ),
]
_TRICKY = [
    *(
        "{a,b}",
        "{1..3}",
        "{-exec,id}",
        "a{b,c}d",
        "*",
        "?",
        "[a-z]",
        "~",
        "~root",
        "$x",
        "${x}",
        "$(id)",
        "`id`",
    ),
    *(
        "$'a'",
        '$"a"',
        "\\",
        "\\n",
        "\\ ",
        "#",
        "#a",
        "a#b",
        ";",
        "&",
        "|",
        "||",
        "&&",
        "|&",
        "(",
        ")",
        "<",
        ">",
    ),
    *(
        "<data",
        ">/dev/null",
        "2>x",
        "1",
        "2",
        "=",
        "=(a)",
        "a=(b)",
        '"$(x)"',
        '"`x`"',
        "'",
        '"',
        "%",
        "^",
        "]",
        "}",
        "{",
    ),
]
_PIECES = st.sampled_from(
    [" " + piece for piece in (*_PLAIN, *_PLAIN, *_QUOTED, *_QUOTED, *_TRICKY)]
    + _QUOTED
    + _TRICKY
    + list("ab,.-")
)
COMMANDS = st.tuples(
    st.sampled_from([*NAMES, "grep", "grep", "ls", "ls", "find"]), st.lists(_PIECES, min_size=1, max_size=4)
).map(lambda parts: parts[0] + "".join(parts[1]))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shells")
    (root / "bin").mkdir()
    (root / "work").mkdir()
    (root / "work" / "data").write_text("")
    (root / "work" / "ab").write_text("")
    for name in (*NAMES, "marker"):
        stand_in = root / "bin" / name
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)
    return root


def really_run(scratch: Path, shell: str, texts: tuple[str, ...]) -> list[list[tuple[str, ...]]]:
    """Return, for each line, the arguments of the programs the shell started, sorted: pipes start all."""
    record = scratch / "record"
    record.write_bytes(b"")
    subprocess.run(
        [shell, "-c", "\nmarker\n".join(texts)],
        cwd=scratch / "work",
        env={"PATH": str(scratch / "bin"), "RECORD": str(record), "x": "expanded", "HOME": "/nowhere"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=10,
        check=False,
    )
    lines: list[list[tuple[str, ...]]] = [[]]
    for run in record.read_text().split("\036\0")[:-1]:
        argv = tuple(run.split("\0")[:-1])
        if argv == ("marker",):
            lines.append([])
        else:
            lines[-1].append(argv)
    return [sorted(line) for line in lines]


def starts_here(command: str) -> bool:
    """Tell whether a command is read at all, and its stand-ins can start: their input exists."""
    try:
        stages = policy_parse.parse(command)
    except policy_parse.Unreadable:
        return False
    return all(stage.stdin in (None, "data") and stage.argv[0] in NAMES for stage in stages)


def check(scratch: Path, command: str, decision: Decision) -> None:
    judged = sorted(decision.argv)
    for shell in ("/bin/bash", "/bin/dash"):
        assert really_run(scratch, shell, (command, decision.rendered)) == [judged, judged], (shell, command)
    assert sorted(entry.name for entry in (scratch / "work").iterdir()) == ["ab", "data"]


def test_shells_run_what_was_judged(scratch: Path) -> None:
    accepted = 0

    @settings(
        max_examples=1300,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(COMMANDS)
    def holds(command: str) -> None:
        nonlocal accepted
        decision = judge(command)
        if decision.verdict == "allow" and starts_here(command):
            accepted += 1
            check(scratch, command, decision)

    holds()
    assert accepted >= 250, "too few of the generated commands are accepted to say anything"


def test_the_reading_of_a_command_holds_even_where_no_rule_accepts_it(scratch: Path) -> None:
    read = 0

    @settings(
        max_examples=350,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(COMMANDS)
    def holds(command: str) -> None:
        nonlocal read
        if not starts_here(command):
            return
        stages = policy_parse.parse(command)
        read += 1
        argv = tuple(stage.argv for stage in stages)
        rendered = " | ".join(stage.rendered for stage in stages)
        check(scratch, command, Decision("ask", "", argv, rendered))

    holds()
    assert read >= 90


def test_a_judge_without_the_rule_for_braces_is_found_out(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_parse, "PLAIN", policy_parse.PLAIN | set("{},"))

    @settings(
        max_examples=1500,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(COMMANDS)
    def holds(command: str) -> None:
        decision = judge(command)
        if decision.verdict == "allow" and starts_here(command):
            check(scratch, command, decision)

    with pytest.raises(AssertionError, match=r"/bin/bash"):
        holds()


def test_the_corpus_runs_as_judged(scratch: Path) -> None:
    lines = (Path(__file__).parent / "data" / "policy_allow.txt").read_text().splitlines()
    checked = 0
    for command in lines:
        decision = judge(command)
        known = all(argv[0] in NAMES for argv in decision.argv)
        if decision.verdict == "allow" and known and "<" not in command and checked < 60:
            checked += 1
            check(scratch, command, decision)
    assert checked == 60
