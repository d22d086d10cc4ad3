"""The corpora: nearly every read-only command may run, no trick may; and every rule's own examples hold."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.policy import judge, read_denied, tree_denied
from tools.policy_load import shipped
from tools.policy_rules import Rule

DATA = Path(__file__).parent / "data"


REFERENCE = re.compile(
    r"CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}|gtfobins:[A-Za-z0-9_.+-]+#[a-z-]+|CWE-\d+|attack:T\d{4}(\.\d{3})?"
    r"|bash-manual/[A-Za-z0-9_-]+|man:[a-z0-9-]+(\.\d)?|tracebit:gemini-cli-allow-list"
)


def corpus(name: str) -> Iterator[str]:
    """Return the commands of a corpus: whole lines, or the first column."""
    for line in (DATA / name).read_text().splitlines():
        if line and not line.startswith("# "):
            text, _, _ = line.partition("\t")
            yield text[3:].encode("ascii").decode("unicode_escape") if text.startswith("py:") else text


@pytest.mark.threat(18)
def test_read_only_commands_are_allowed(record_property: Callable[[str, object], None]) -> None:
    commands = list(corpus("policy_allow.txt"))
    record_property("cases", len(commands))
    refused = [command for command in commands if judge(command).verdict != "allow"]
    assert len(commands) >= 300
    assert 1 - len(refused) / len(commands) >= 0.95, refused


@pytest.mark.threat(18)
def test_no_trick_is_allowed(record_property: Callable[[str, object], None]) -> None:
    commands = list(corpus("policy_refuse.tsv"))
    record_property("cases", len(commands))
    assert [command for command in commands if judge(command).verdict == "allow"] == []


def test_every_trick_has_its_reference() -> None:
    rows = [line.split("\t") for line in (DATA / "policy_refuse.tsv").read_text().splitlines()]
    rows = [row for row in rows if not row[0].startswith("# ")]
    assert [row for row in rows if len(row) != 3 or not REFERENCE.fullmatch(row[1]) or not row[2]] == []
    published = [row for row in rows if row[1].startswith(("CVE-", "GHSA-", "gtfobins:"))]
    assert len(published) >= 300
    assert len({row[1] for row in published}) >= 100


def test_the_corpora_hold_no_line_twice() -> None:
    for name in ("policy_allow.txt", "policy_refuse.tsv"):
        commands = list(corpus(name))
        assert len(commands) == len(set(commands))


def test_what_is_rendered_is_what_was_judged() -> None:
    for command in corpus("policy_allow.txt"):
        decision = judge(command)
        if decision.verdict == "allow":
            again = judge(decision.rendered)
            assert again.verdict == "allow"
            assert again.argv == decision.argv
            assert again.rendered == decision.rendered
            if decision.direct:
                assert tuple(shlex.split(decision.rendered)) == decision.argv[0]


RULES = {rule.names[0]: rule for rule in shipped().rules.values()}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_examples_of_every_rule_hold(rule: Rule) -> None:
    assert rule.accepts, "give examples that must be allowed"
    assert rule.rejects, "give examples that must not"
    assert [example for example in rule.accepts if judge(example).verdict != "allow"] == []
    assert [example for example in rule.rejects if judge(example).verdict == "allow"] == []
    named = {example.split()[0].rsplit("/", 1)[-1] for example in (*rule.accepts, *rule.rejects)}
    assert named <= set(rule.names)


def test_no_command_has_two_rules() -> None:
    names = set(shipped().rules)
    assert not names & shipped().refused
    assert not names & {"env", "xargs", "awk", "git", "less", "sh", "bash", "tee", "ssh", "sudo", "eval"}


@pytest.mark.parametrize("name", sorted(shipped().rules))
def test_unknown_options_are_never_allowed(name: str) -> None:
    for option in ("--zzz-unknown", "--zzz=1", "--output=/tmp/x", "-\\", "-~"):
        if name not in ("echo", "printf"):
            assert judge(shlex.join([name, option])).verdict != "allow", option


@pytest.mark.parametrize("name", sorted(shipped().rules))
def test_a_program_of_the_same_name_elsewhere_is_not_allowed(name: str) -> None:
    example = shipped().rules[name].accepts[0]
    arguments = shlex.split(example)[1:]
    assert judge(shlex.join([f"/usr/bin/{name}", *arguments])).verdict == "allow"
    for folder in ("/tmp", ".", "/home/x/bin", "/usr/bin/..", "/dev/shm", "bin"):
        assert judge(shlex.join([f"{folder}/{name}", *arguments])).verdict != "allow"


def test_refuse_is_for_what_writes_and_ask_for_what_is_unknown() -> None:
    assert judge("rm -rf /opt").verdict == "refuse"
    assert judge("cat /etc/shadow").verdict == "refuse"
    assert judge("find /opt -delete").verdict == "refuse"
    assert judge("systemctl restart x").verdict == "refuse"
    assert judge("ls | rm x").verdict == "refuse"
    assert judge("ls\nid").verdict == "refuse"
    assert judge("frobnicate --now").verdict == "ask"
    assert judge("ls; id").verdict == "ask"
    assert judge("").verdict == "ask"
    assert judge("awk 1 /opt/x").verdict == "ask"


def test_reasons_say_what_to_do_instead() -> None:
    assert "facts" in judge("env").reason
    assert "quote" in judge("ls *.py").reason
    assert "tail -n" in judge("tail -f /opt/x").reason or "-n" in judge("tail -f /opt/x").reason
    assert "one command a call" in judge("ls; id").reason
    assert "propose_change" in judge("systemctl restart x").reason


def test_paths_and_forms_of_running() -> None:
    plain = judge("cat /opt/a /opt/b")
    assert plain.direct
    assert plain.reads == ("/opt/a", "/opt/b")
    assert judge("grep -rn x /opt/a").trees == ("/opt/a",)
    piped = judge("cat < /opt/a 2>/dev/null | head -n 5")
    assert not piped.direct
    assert piped.argv == (("cat",), ("head", "-n", "5"))
    assert piped.rendered == "cat < /opt/a 2>/dev/null | head -n 5"
    assert piped.reads == ("/opt/a",)
    assert not judge("command -v rg").direct


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/shadow", "/etc/gshadow-", "//etc/./shadow", "/root/.ssh/id_rsa", ".ssh/id_rsa", "id_ed25519"),
        *("/opt/tls/server.pem", "/opt/a.key", "/home/x/.aws/credentials", "/root/.netrc", "/root/.pgpass"),
        *("/root/.kube/config", "/etc/kubernetes/admin.conf", "/proc/1/environ", "/proc/self/task/1/environ"),
        *("/proc/1/mem", "/proc/1/root/etc/shadow", "/proc/self/root/proc/self/root/etc/shadow", "/dev/sda"),
        *("/dev/zero", "/opt/../etc/shadow", "/proc/1/fd/3", "/proc/kcore", "/run/secrets/x", "/opt/a\nb"),
    ],
)
def test_files_that_may_not_be_read(path: str) -> None:
    assert read_denied(path)
    assert tree_denied(path)


@pytest.mark.parametrize(
    "path",
    [
        *("/dev/null", "/etc/hosts", "/opt/sglang/server_args.py", "/root/.ssh/known_hosts", "/x/id_rsa.pub"),
        *("/proc/4242/cmdline", "/proc/4242/root/opt/x.py", "/x/cacert.pem", "relative.py", "/x/keys.py"),
    ],
)
def test_files_that_may_be_read(path: str) -> None:
    assert read_denied(path) is None


def test_folders_that_hold_secrets_deeper_down_are_not_searched() -> None:
    for path in (
        "/",
        "/root",
        "/home",
        "/home/x",
        "/etc",
        "/proc",
        "/proc/1",
        "/proc/1/root",
        "/proc/1/root/etc",
        ".",
    ):
        assert tree_denied(path), path
    for path in ("/opt", "/opt/sglang", "/etc/systemd/system", "/var/log", "/proc/1/root/opt"):
        assert tree_denied(path) is None, path


def test_importing_the_policy_loads_no_parser() -> None:
    code = "import sys, tools.policy; print('tree_sitter' in sys.modules, 'yaml' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False"]
