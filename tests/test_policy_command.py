"""leadline policy: what it says of commands on stdin, of rules, and of a site's file; it runs nothing."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.errors import LeadlineError
from agent.surfaces.cli import app
from agent.surfaces.policy_command import rows
from tools.policy_load import shipped

SITE = {
    "rules": [
        {
            "names": ["fabricctl"],
            "words": ["status"],
            "style": "words",
            "accepts": ["fabricctl status"],
            "rejects": ["fabricctl x"],
        }
    ],
    "limits": [
        {"names": ["df"], "verdict": "ask", "why": "the disks are another team's", "matches": ["df -h"]}
    ],
}


class Output:
    """Run the command line on some bytes and give back what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch = monkeypatch
        self.capsys = capsys

    def __call__(self, *words: str, stdin: bytes = b"") -> tuple[int, str]:
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            app(["policy", *words])
        return int(left.value.code or 0), self.capsys.readouterr().out


@pytest.fixture
def leadline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Output:
    return Output(monkeypatch, capsys)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(SITE))
    return path


def parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_commands_and_argument_lists_are_judged_line_by_line(leadline: Output) -> None:
    argv = ["grep", "-n", "it's a $HOME", "/opt/x"]
    lines = ["ps aux  |  grep 'a b'", json.dumps(argv), "rm -rf /opt", "", "frob", "[ -f /opt/x ]"]
    code, out = leadline("check", stdin="\n".join(lines).encode())
    assert code == 0
    first, second, third, fourth, fifth = parsed(out)
    assert first == {
        "line": 1,
        "command": "ps aux  |  grep 'a b'",
        "verdict": "allow",
        "reason": "only reads",
        "runs": [["ps", "aux"], ["grep", "a b"]],
        "rendered": "ps aux | grep 'a b'",
    }
    assert (second["argv"], second["runs"], second["verdict"]) == (argv, [argv], "allow")
    assert shlex.split(second["rendered"]) == argv
    assert (third["verdict"], third["runs"]) == ("refuse", [])
    assert (fourth["line"], fourth["verdict"], fourth["runs"]) == (5, "ask", [])
    assert fifth["command"] == "[ -f /opt/x ]"
    assert fifth["verdict"] == "ask"


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"[]", b"[1, 2]", b'["a", null]', b"x" * 70_000])
def test_a_bad_line_is_reported_and_the_rest_go_on(leadline: Output, bad: bytes) -> None:
    code, out = leadline("check", stdin=b"ls\n" + bad + b"\nuptime\n")
    assert code == 1
    first, second, third = parsed(out)
    assert (first["verdict"], third["verdict"], third["line"]) == ("allow", "allow", 3)
    assert second["line"] == 2
    assert second["error"]


def test_what_is_printed_is_ascii_and_one_line(leadline: Output) -> None:
    """A terminal that shows the answer does not obey what stands in a command."""
    code, out = leadline("check", stdin="ls \x1b[2J\u202e\u200b\t\x07\nls\r\n".encode())
    assert code == 0
    assert out.isascii()
    assert "\x1b" not in out
    first, second = parsed(out)
    assert (first["verdict"], second["verdict"]) == ("refuse", "allow")


def test_deep_and_odd_json_is_taken_for_a_command() -> None:
    said = list(rows([b"[" * 50_000 + b"\n", b'["a"\n', b"{}\n"], shipped(), free_form=True))
    assert [row["verdict"] for row in said] == ["ask", "ask", "ask"]


def test_switched_off_means_refused(leadline: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_POLICY__FREE_FORM", "false")
    code, out = leadline("check", stdin=b"ls\n")
    (row,) = parsed(out)
    assert code == 0
    assert (row["verdict"], row["runs"]) == ("refuse", [])
    assert "free_form" in row["reason"]


def test_a_sites_file_can_be_tried_before_it_is_installed(leadline: Output, site: Path) -> None:
    assert parsed(leadline("check", stdin=b"df -h\nfabricctl status\n")[1])[0]["verdict"] == "allow"
    first, second = parsed(leadline("check", "--rules", str(site), stdin=b"df -h\nfabricctl status\n")[1])
    assert (first["verdict"], first["reason"]) == ("ask", "df: the disks are another team's")
    assert second["verdict"] == "allow"


def test_rules_are_listed_with_where_they_come_from(leadline: Output, site: Path) -> None:
    text = leadline("show", "--rules", str(site))[1]
    assert f"fabricctl  [{site}]" in text
    assert "df  ask: the disks are another team's" in text
    (row,) = parsed(leadline("show", "--json")[1])
    assert row["free_form"] is True
    assert {"name": "journalctl", "from": "shipped"} in row["rules"]
    assert len(row["digest"]) == 64


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("journalctl", "--vacuum-size=1"),
        ("rm", "always refused"),
        ("frob", "no rule: needs a person"),
        ("awk", "use cut"),
    ],
)
def test_one_rule_is_shown_with_its_examples(leadline: Output, name: str, said: str) -> None:
    assert said in leadline("show", name)[1]
    (row,) = parsed(leadline("show", name, "--json")[1])
    assert said in json.dumps(row)


def test_a_good_file_is_counted_and_a_broken_one_named(leadline: Output, site: Path) -> None:
    code, out = leadline("verify", str(site))
    assert code == 0
    assert "1 rules, 1 limits, 3 examples" in out
    (row,) = parsed(leadline("verify", str(site), "--json")[1])
    assert (row["rules"], row["limits"], row["examples"]) == (1, 1, 3)
    site.write_text(site.read_text().replace("fabricctl x", "fabricctl status"))
    with pytest.raises(
        LeadlineError, match=r"site\.yaml: rule fabricctl: rejects: 'fabricctl status' is allowed"
    ):
        app(["policy", "verify", str(site)])
    with pytest.raises(LeadlineError, match="cannot be read"):
        app(["policy", "verify", str(site.parent / "absent")])
