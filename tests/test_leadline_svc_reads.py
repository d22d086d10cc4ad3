"""What root's helper reads: the launch line, its allow file, and its arguments; and that it stays small."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.test_leadline_svc import FILE, ID, SVC, UNIT


def test_launch_line_as_busctl_prints_it() -> None:
    said = rb'a(sasbttttuii) 1 "/opt/x y" 3 "/opt/x y" "a\"b\\c\303\251\nd" "$$x" false 1 2 3 4 5 6 7'
    assert SVC.launch_line(said) == (["/opt/x y", 'a"b\\cé\nd', "$x"], False)
    assert SVC.launch_line(said.replace(b"false", b"true"))[1]
    for wrong in (
        said.replace(b" 1 ", b" 2 "),
        said.replace(b"$$x", b"$x"),
        said.replace(b' 3 "', b' 4 "'),
        said.replace(b'1 "/opt/x y"', b'1 "/opt/other"'),
        b"a(sasbttttuii) 0",
        b"",
    ):
        with pytest.raises(SVC.Refused):
            SVC.launch_line(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"units": {}, "more": 1}',
        '{"units": {"*.service": {}}}',
        '{"units": {"sglang*.service": {}}}',
        '{"units": {"../x.service": {}}}',
        '{"units": {"-x.service": {}}}',
        '{"units": {"sglang": {}}}',
        '{"units": {"a.service": {"flags": ["--x"]}}}',
        '{"units": {"a.service": {"flags": {"x": ".*"}}}}',
        '{"units": {"a.service": {"flags": {"--x": 1}}}}',
        '{"units": {"a.service": {"flags": {"--x": "("}}}}',
        '{"units": {"a.service": {"flags": {"--host": ".*"}}}}',
        '{"units": {"a.service": {"flags": {"--trust": ".*"}}}}',
        '{"units": {"a.service": {"environment": {"LD_PRELOAD": ".*"}}}}',
        '{"units": {"a.service": {"environment": {"PYTHONPATH": ".*"}}}}',
        '{"units": {"a.service": {"other": {}}}}',
        '{"units": {"a.service": {"service": {"ExecStart": ".*"}}}}',
        '{"units": {"a.service": {"service": {"User": ".*"}}}}',
        '{"units": {"a.service": {"service": {"Nice|User": ".*"}}}}',
        '{"units": {"a.service": {"ports": 30000}}}',
        '{"units": {"a.service": {"ports": ["30000"]}}}',
        '{"units": {"a.service": {"ports": [true]}}}',
        '{"units": {"a.service": {"ports": [0]}}}',
        '{"units": {"a.service": {"ports": [70000]}}}',
        '{"units": {"a.service": {}, "a.service": {}}}',
    ],
)
def test_a_mistake_in_the_allow_file_refuses_everything(text: str) -> None:
    with pytest.raises(SVC.Refused):
        SVC.allowed(text.encode())


def test_an_allow_file_without_settings_allows_none() -> None:
    assert SVC.allowed(b'{"units": {"a.service": {}}}') == {
        "a.service": {"flags": {}, "environment": {}, "service": {}, "ports": []}
    }


WRONG = (
    *([], ["version", "x"], ["begin"], ["begin", ID], ["shell", "id"], ["--help"], ["", ""], ["version\n"]),
    *(
        ["exe", "1/../2"],
        ["exe", "-1"],
        ["exe", "0"],
        ["exe", "1\n"],
        ["environ", "self"],
        ["cmdline", "1 2"],
    ),
    *(
        ["status", bad]
        for bad in ("../x", "a/b", "a b", "-a", "A", "a\n", "a\0", "", "a" * 40, "a;id", "$(id)")
    ),
    *(["begin", ID, bad] for bad in ("0" * 63, "G" * 64, "0" * 64 + "\n", "")),
    *(["extend", ID, bad] for bad in ("-1", "1e9", "inf", "99999", "0", "1;id", "")),
    *(
        ["journal", bad, "", "", "", ""]
        for bad in ("-u.service", "a/b.service", "*.service", "a", "a.service\n")
    ),
    *(
        ["journal", UNIT, *bad]
        for bad in (["x", "", "", ""], ["", "a=b", "", ""], ["", "", "\n", ""], ["", "", "", "yes"])
    ),
    *(["cat-unit", bad] for bad in ("--all", "a.service b.service", "a.timer", "/etc/shadow.service")),
)


@pytest.mark.parametrize("words", [list(one) for one in WRONG if one])
def test_arguments_are_checked_again_inside(words: list[str]) -> None:
    with pytest.raises(SVC.Refused):
        SVC.main(words)


def test_refusals_are_one_printable_line_with_exit_code_3() -> None:
    done = subprocess.run(
        [sys.executable, "-IS", str(FILE), "x\n\x1b[2Jé"], capture_output=True, check=False, text=True
    )
    assert done.returncode == 3 and done.stderr == ""
    assert done.stdout.count("\n") == 1 and done.stdout.isascii() and done.stdout.startswith("refused: ")
    asked = subprocess.run(
        [sys.executable, "-IS", str(FILE)], input="no\tsuch\n", capture_output=True, check=False, text=True
    )
    assert asked.stdout == "refused: 'no' is no verb of this program\n"


def test_it_stays_small_old_and_alone() -> None:
    text = FILE.read_text()
    tree = ast.parse(text, feature_version=(3, 6))
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert names <= set(sys.stdlib_module_names) and not any(
        isinstance(node, ast.ImportFrom) for node in ast.walk(tree)
    )
    assert len(text.splitlines()) < 450
    assert "shell=True" not in text and "eval(" not in text and text.startswith("#!/usr/bin/python3 -IS\n")


@pytest.mark.parametrize("name", ["a.service", "sglang@1.service", "9-x_y.service"])
def test_the_name_of_a_unit_on_the_bus(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def output(words: list[str]) -> bytes:
        asked.append(words)
        return b'a(sasbttttuii) 1 "/bin/x" 1 "/bin/x" false 0 0 0 0 0 0 0'

    monkeypatch.setattr(SVC, "output", output)
    SVC.launch_of(name)
    wanted = "".join(
        s if s.isalnum() and (at or not s.isdigit()) else f"_{ord(s):02x}" for at, s in enumerate(name)
    )
    assert asked[0][4] == f"/org/freedesktop/systemd1/unit/{wanted}"
