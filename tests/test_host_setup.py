"""What ``leadline host`` prints and finds, without a host of its own: text, refusals, exit codes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.surfaces.host_account import report_text
from tests.in_process import leadline
from tools import account, account_clean
from tools.account_setup import Account, allow_file, authorized_key, script, sudoers
from tools.contract import ToolError
from tools.local import LocalHost
from tools.transaction import HELPER, helper_version

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJrKk me@desk"
WANTED = Account(
    "gpu1",
    units=("sglang.service", "a@1.service"),
    settings=("--max-x", "NCCL_DEBUG"),
    key=KEY,
    ports=(30000,),
)


def test_the_commands_are_whole_and_hold_the_files_that_are_compared() -> None:
    text = script(WANTED)
    assert subprocess.run(["sh", "-n"], input=text.encode(), check=False).returncode == 0
    put = r"put (\S+) (0\d+) ([0-9a-f]{64}) <<'LEADLINE_END_OF_FILE'\n(.*?)LEADLINE_END_OF_FILE\n"
    bodies = re.findall(put, text, re.DOTALL)
    assert [body[0] for body in bodies] == [
        HELPER,
        "/usr/local/lib/leadline/transaction.sh",
        "/usr/local/lib/leadline/transaction_enter.sh",
        "/etc/leadline/allow.json",
    ]
    for _, mode, digest, body in bodies:
        assert hashlib.sha256(body.encode()).hexdigest() == digest and mode in ("0755", "0644")
    assert helper_version().split()[2:] == [body[2] for body in bodies[:3]]
    assert "visudo -cqf" in text and "passwd" not in text.replace("getent passwd", "")
    assert json.loads(bodies[3][3]) == json.loads(allow_file(WANTED))


def test_nothing_is_allowed_that_was_not_named() -> None:
    assert json.loads(allow_file(Account("x"))) == {"units": {}}
    assert json.loads(allow_file(Account("x", units=("a.service",)))) == {
        "units": {"a.service": {"environment": {}, "flags": {}, "service": {}, "ports": []}}
    }
    rule = sudoers(Account("x"), patterns=True)
    assert "journal" not in rule and "*" not in rule and "ALL=(root) NOPASSWD: LEADLINE" in rule
    assert re.findall(r"NOPASSWD: (.*)", sudoers(WANTED, patterns=False)) == [f'{HELPER} ""']
    assert "(sglang[.]service|a@1[.]service)" in sudoers(WANTED, patterns=True)


def test_the_key_opens_no_more_than_commands() -> None:
    assert authorized_key(Account("x", key=KEY)) == f"restrict {KEY}"
    opened = authorized_key(WANTED)
    assert opened == f'restrict,port-forwarding,permitopen="127.0.0.1:30000" {KEY}'


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": "root"},
        {"user": "a b"},
        {"user": "x; id"},
        {"user": "-x"},
        {"units": ("*.service",)},
        {"units": ("sglang",)},
        {"units": ("a.service\nx",)},
        {"units": ("../a.service",)},
        {"units": ("$(id).service",)},
        {"units": ("a.service",), "settings": ("--x y",)},
        {"units": ("a.service",), "settings": ("x",)},
        {"settings": ("--x",)},
        {"settings": ("--x",), "units": ("a.service",)},
        {"key": "ssh-ed25519"},
        {"key": f'command="id" {KEY}'},
        {"key": f"{KEY}\nssh-rsa AAAA"},
        {"host": "gpu1\ntouch /tmp/x #"},
        {"host": "gpu1\x1b[2J"},
        {"host": "gpu1\N{RIGHT-TO-LEFT OVERRIDE}"},
    ],
)
def test_what_cannot_be_written_as_it_is_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ToolError):
        script(Account(**{"host": "x"} | wrong))


@pytest.mark.parametrize(
    "setting",
    [
        *("--host", "--port", "--po", "--api-key", "--admin_api_key", "--trust_remote_code"),
        *("LD_PRELOAD", "PATH", "ENV", "BASH_ENV", "HOME", "PYTHONPATH", "PYTHONHASHSEED"),
        *("--max-x", "--hosts", "NCCL_DEBUG", "CPUWeight"),
    ],
)
def test_what_the_helper_would_refuse_in_its_file_is_not_written_there(setting: str) -> None:
    helper = runpy.run_path(str(Path(__file__).parent.parent / "deploy/leadline-svc"), run_name="helper")
    wanted = Account("x", units=("a.service",), ports=(1,), settings=(setting,))
    if helper["for_people"](setting):
        with pytest.raises(ToolError, match="cannot be listed"):
            script(wanted)
    else:
        helper["allowed"](allow_file(wanted).encode())
        assert setting in script(wanted)


def test_nothing_of_the_account_runs_on_the_terminal_of_root() -> None:
    """What holds a terminal can be made to type into it; the account's shells get sessions of their own."""
    calls = re.findall(r"(?m)^.*\bsu -s .*$", script(WANTED))
    assert len(calls) == 2 and all("setsid -w su -s " in line for line in calls)
    assert " setsid " in script(WANTED).partition("for program in")[2].partition("; do")[0]


def said(**more: list[str]) -> dict[str, list[str]]:
    """Return what the probe says of a good account with the helper."""
    about = {
        "uid": ["1001"],
        "user": ["leadline"],
        "group": ["leadline"],
        "CapEff": ["0000000000000000"],
        "CapAmb": ["0000000000000000"],
        "has": ["rg", "timeout", "base64", "journalctl"],
        "systemd": ["yes"],
        "file": [f"root 755 0 {HELPER}"],
        "version": [helper_version()],
        "allowed": [json.dumps({"a.service": {"flags": {"--x": ".*"}, "environment": {}, "ports": [1]}})],
        "journal": ["own"],
        "rule": [f"(root) NOPASSWD: {HELPER} ^version$"],
        "end": ["yes"],
    }
    return {name: values for name, values in (about | more).items() if values}


def test_a_good_account_has_nothing_to_put_right() -> None:
    found = account.report("gpu1", said())
    assert (found.kind, found.helper, found.problems) == ("helper", "ours", [])
    assert report_text(found).endswith("in order\n")


@pytest.mark.parametrize(
    ("more", "kind", "says"),
    [
        ({"uid": ["0"], "user": ["root"]}, "root", "is root"),
        ({"sudo": ["anything"]}, "sudo", "anything as root"),
        ({"group": ["leadline", "docker"]}, "helper", "in group docker"),
        ({"group": ["disk"]}, "helper", "in group disk"),
        ({"CapEff": ["0000000000000080"]}, "helper", "capabilities"),
        ({"polkit": ["manage-units"]}, "helper", "polkit"),
        ({"rule": ["(ALL) NOPASSWD: /usr/bin/systemctl *"]}, "helper", "sudo allows more than the helper"),
        ({"writes-unit": ["/etc/systemd/system/a.service"]}, "helper", "without an approval"),
        (
            {"writes-code": ["/opt/venv/lib/python3.12/site-packages/sglang"]},
            "helper",
            "which a service runs",
        ),
        ({"writes-socket": ["/run/docker.sock"]}, "helper", "which gives root"),
        ({"reads-secret": ["/etc/shadow"]}, "helper", "may read /etc/shadow"),
        ({"version": ["leadline-svc 1 0 0 0"]}, "helper", "another version"),
        ({"file": [f"root 777 0 {HELPER}"]}, "helper", "must be root's alone"),
        ({"file": [f"me 755 0 {HELPER}"]}, "helper", "must be root's alone"),
        (
            {"allowed": [json.dumps({"a.service": {"flags": {"--x": ".*"}, "environment": {}}})]},
            "helper",
            "names no port",
        ),
        ({"refuses": ["/etc/leadline/allow.json: no"]}, "helper", "/etc/leadline/allow.json: no"),
    ],
)
def test_what_is_too_much_or_broken_is_a_problem(more: dict[str, list[str]], kind: str, says: str) -> None:
    found = account.report("gpu1", said(**more))
    assert found.kind == kind
    assert any(says in one.what for one in found.problems), found.problems
    assert "to put right" in report_text(found)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"file": [], "version": [], "allowed": []}, "may only read"),
        ({"version": [], "unusable": ["a password is required"]}, "a password is required"),
        ({"allowed": ["{}"]}, "names no unit"),
        ({"unit": ["a.service not-found"]}, "no unit a.service"),
        ({"lacks": ["rg"]}, "rg is not installed"),
        ({"systemd": []}, "no systemd"),
        ({"arguments": ["unchecked"]}, "older than 1.9.10"),
    ],
)
def test_what_is_missing_is_told_and_no_problem(more: dict[str, list[str]], says: str) -> None:
    found = account.report("gpu1", said(**more))
    assert found.problems == [] and any(says in one.what for one in found.findings)


def test_the_commands_have_their_exit_codes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    done = leadline("host", "setup", "gpu1")
    assert done.returncode == 2 and "runs nothing by itself" in done.stderr
    done = leadline("host", "setup", "gpu1", "--print", "--units", "sglang.service")
    assert done.returncode == 0
    assert done.stdout.startswith("# An unprivileged account for Leadline on gpu1")
    done = leadline("host", "setup", "gpu1", "--print", "--units", "*.service")
    assert done.returncode == 2 and "no patterns" in done.stderr
    done = leadline("host", "check", "local", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == (3 if found["problems"] else 0) and found["findings"]


async def test_a_sent_rg_is_listed_and_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    private = tmp_path / f"leadline-{os.getuid()}"
    private.mkdir(mode=0o700)
    (private / "rg-0").write_text("x")
    (tmp_path / "other").write_text("x")
    host = LocalHost("here")
    try:
        found = [one for one in await account_clean.left_on(host) if one.kind == "rg"]
        assert [(one.state, one.name) for one in found] == [("over", str(private / "rg-0"))]
        lies = account_clean.Left(kind="rg", state="over", name=str(tmp_path / "other"))
        left = await account_clean.remove(host, [*found, lies])
        assert not private.exists() and (tmp_path / "other").exists()
        assert not any(one.kind == "rg" for one in left)
    finally:
        await host.close()
