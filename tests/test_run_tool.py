"""The run tool on real hosts: what may run runs as judged, everything else comes back with a reason."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.sshd_fixtures import any_host
from tools.artifacts import ArtifactStore
from tools.contract import Capture, ToolContext, ToolError, ToolSettings
from tools.execution import CommandHost
from tools.policy import judge
from tools.policy_settings import PolicySettings
from tools.redact import redact
from tools.reshaped import _with_names
from tools.run import TOOL, Args, allowed, fit, run, source_of, whole_lines

CANARY = "c4N4ryV4lu3x7Qz"


@pytest.fixture(params=["local", "asyncssh"])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CommandHost]:
    async with any_host(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[CommandHost]:
    async with any_host("local", tmp_path) as opened:
        yield opened


def context(host: CommandHost, tmp_path: Path, **settings: Any) -> ToolContext:
    return ToolContext(
        call_id="t1",
        hosts={host.name: host},
        store=ArtifactStore(tmp_path / "store"),
        redact=redact,
        settings=ToolSettings(**settings),
    )


async def test_a_command_runs_and_its_output_is_kept(host: CommandHost, tmp_path: Path) -> None:
    (tmp_path / "a file.txt").write_text("one\ntwo $HOME *\nthree\n")
    ctx = context(host, tmp_path)
    view = await run(ctx, Args(command=f"cat '{tmp_path}/a file.txt'"))
    assert view["host"] == host.name
    assert view["outcome"] == "exited"
    assert view["exit_code"] == 0
    assert view["stdout"] == "one\ntwo $HOME *\nthree"
    assert view["lines"] == 3
    assert view["stderr_artifact"] is None
    assert "note" not in view
    (kept,) = ctx.kept
    assert view["artifact"] == kept.handle == "t1.1"
    assert kept.label == view["command"]
    assert kept.path == f"{tmp_path}/a file.txt"
    assert kept.complete
    assert ctx.store.get(kept.sha256) == b"one\ntwo $HOME *\nthree\n"


async def test_pipelines_and_redirects_run_as_rendered(host: CommandHost, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("b 1\na 2\nb 3\n")
    ctx = context(host, tmp_path)
    view = await run(ctx, Args(command=f'cut   -d " " -f1 < {tmp_path}/x 2>/dev/null | sort | uniq -c'))
    assert view["command"] == f"cut -d ' ' -f1 < {tmp_path}/x 2>/dev/null | sort | uniq -c"
    assert view["stdout"].split() == ["1", "a", "2", "b"]


async def test_failure_is_shown_with_both_streams(host: CommandHost, tmp_path: Path) -> None:
    ctx = context(host, tmp_path)
    view = await run(ctx, Args(command=f"ls {tmp_path}/absent"))
    assert view["exit_code"] not in (0, None)
    assert view["stdout"] == ""
    assert "absent" in view["stderr"]
    assert [ref.handle for ref in ctx.kept] == [view["artifact"], view["stderr_artifact"]]


async def test_a_command_that_does_not_end_is_no_success(local: CommandHost, tmp_path: Path) -> None:
    ctx = context(local, tmp_path)
    view = await run(ctx, Args(command="vmstat 1 300", timeout_s=1))
    assert view["outcome"] in ("timed_out_killed", "timed_out_orphan")
    assert view["exit_code"] is None
    assert "no success" in view["note"]
    assert not ctx.kept[0].complete
    assert ctx.kept[0].path is None


async def test_a_flood_is_cut_and_said_so(local: CommandHost, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"".join(b"line %d\n" % number for number in range(900_000)))
    ctx = context(local, tmp_path)
    view = await run(ctx, Args(command=f"cat {tmp_path}/big"))
    assert view["truncated"]
    assert "not absent" in view["note"]
    assert not ctx.kept[0].complete
    assert len(json.dumps(view)) <= ctx.settings.view_chars


async def test_long_output_is_bounded_and_names_the_rest(local: CommandHost, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("".join(f"line {number}\n" for number in range(1, 5001)))
    ctx = context(local, tmp_path, view_chars=4000)
    view = await run(ctx, Args(command=f"cat {tmp_path}/long"))
    assert len(json.dumps(view)) <= 4000
    assert view["lines"] == 5000
    assert view["stdout"].startswith("line 1\n")
    assert view["stdout"].endswith("line 5000")
    assert "t1.1" in view["cut"]
    assert ctx.store.get(ctx.kept[0].sha256).count(b"\n") == 5000


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("rm -rf /opt", "refused"),
        ("cat /etc/shadow", "password hashes"),
        ("ls; id", "one command a call"),
        ("systemctl restart x", "propose_change"),
        ("frobnicate", "needs a person"),
        ("find . {-exec,id,\\;}", "quote"),
    ],
)
async def test_what_may_not_run_comes_back_with_the_reason(
    local: CommandHost, tmp_path: Path, command: str, word: str
) -> None:
    before = local.execs
    with pytest.raises(ToolError, match=word):
        await run(context(local, tmp_path), Args(command=command))
    assert local.execs == before


@pytest.mark.threat(8)
async def test_a_link_to_a_secret_is_not_followed(host: CommandHost, tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to("/etc/shadow")
    (tmp_path / "folder").symlink_to("/root")
    (tmp_path / "zero").symlink_to("/dev/zero")
    ctx = context(host, tmp_path)
    for command in (
        f"cat {tmp_path}/innocent",
        f"head -n 1 < {tmp_path}/innocent",
        f"head -c 10 {tmp_path}/zero",
        f"grep -rn x {tmp_path}/folder",
        f"cat {tmp_path}/folder/.ssh/id_rsa",
    ):
        with pytest.raises(ToolError, match="refused"):
            await run(ctx, Args(command=command))
    assert ctx.kept == []


async def test_secrets_reach_neither_view_nor_store(local: CommandHost, tmp_path: Path) -> None:
    (tmp_path / "settings").write_text(f"PORT=30000\nAPI_KEY={CANARY}\nMODE=x\n")
    ctx = context(local, tmp_path)
    view = await run(ctx, Args(command=f"cat {tmp_path}/settings"))
    assert CANARY not in json.dumps(view)
    assert view["stdout"].splitlines()[::2] == ["PORT=30000", "MODE=x"]
    stored = b"".join(file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file())
    assert CANARY.encode() not in stored


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("cut -d= -f2 {}", True),
        ("cat {} | cut -c9-", True),
        ("cat {} | tr = ' '", True),
        ("grep -o '[A-Za-z0-9]*$' {}", True),
        ("grep -rho '[A-Za-z0-9]*$' {dir}", True),
        ("tail -c 10 {}", True),
        ("jq -R . {}", True),
        ("tail -n 1 {} | cut -c9-", True),
        ("head -n 1 {} | cut -c1-3", False),
        ("grep -oe 'KEY=[A-Za-z0-9]*' {}", True),
        ("grep -o 'ryV4[a-z0-9A-Z]*' {block}", True),
        ("grep -eo -e -eo {}", False),
        ("grep -o -e 'gen [a-z]*' {}", False),
        ("tr '\\0' '\\n' < {} | tail -n 1", False),
        ("grep -v key {words}", False),
        ("sort {words}", False),
        ("cat {words} | tail -n 1", False),
    ],
)
async def test_secrets_are_not_cut_out_of_their_lines(
    local: CommandHost, tmp_path: Path, command: str, *, refused: bool
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "env").write_text(f"gen throughput\nAPI_KEY={CANARY}\n")
    (folder / "words").write_text(f"serve\n--api-key\n{CANARY}\n")
    (folder / "block").write_text(f"password: |\n  {CANARY}\n")
    names = {"dir": folder, "words": folder / "words", "block": folder / "block"}
    ctx = context(local, tmp_path)
    asked = Args(command=command.format(folder / "env", **names))
    if refused:
        with pytest.raises(ToolError, match="holds secrets"):
            await run(ctx, asked)
    else:
        assert CANARY not in json.dumps(await run(ctx, asked))
    assert not any(CANARY.encode() in path.read_bytes() for path in (tmp_path / "store").glob("*"))


async def test_what_is_too_long_to_look_through_is_not_taken_apart(
    local: CommandHost, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(f"{'x' * 1023}\n" * 8200 + f"API_KEY={CANARY}\n")
    ctx = context(local, tmp_path)
    for command in (f"cut -c9- {tmp_path}/log", f"cat {tmp_path}/log | cut -c9- | tail -n 1"):
        with pytest.raises(ToolError, match="too much to look through"):
            await run(ctx, Args(command=command))
    with pytest.raises(ToolError, match="holds secrets"):
        await run(ctx, Args(command=f"tail -n 1 {tmp_path}/log | cut -c9-"))
    view = await run(ctx, Args(command=f"head -n 1 {tmp_path}/log | cut -c1-3"))
    assert view["stdout"] == "xxx"
    assert not any(CANARY.encode() in path.read_bytes() for path in (tmp_path / "store").glob("*"))


@pytest.mark.parametrize(
    ("command", "probe"),
    [
        ("grep -on x /opt/a", "grep -n x /opt/a"),
        ("grep -o x /opt/a", "grep -H x /opt/a"),
        ("rg --only-matching x /opt/a", "rg -H x /opt/a"),
        ("grep -eo -- -R /", "grep -eo -- -R /"),
        ("grep -e -o -- -R", "grep -e -o -- -R"),
        ("grep -oeo -- -R", "grep -eo -- -R"),
        ("grep --regexp -o x", "grep --regexp -o x"),
        ("grep x -- -o", "grep x -- -o"),
    ],
)
def test_a_look_at_the_lines_changes_no_other_argument(command: str, probe: str) -> None:
    assert _with_names(shlex.split(command)) == shlex.split(probe)


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
async def test_a_program_of_jq_cannot_take_the_memory_of_a_host(local: CommandHost, tmp_path: Path) -> None:
    doubled = "|".join(["(.+.)"] * 36)
    view = await run(context(local, tmp_path), Args(command=f"jq -n '\"xxxxxxxx\"|{doubled}|length'"))
    assert (view["outcome"], view["exit_code"]) in [("signaled", None), ("exited", 2), ("exited", 5)]
    view = await run(context(local, tmp_path), Args(command="jq -n '1+1'"))
    assert (view["exit_code"], view["stdout"], view["command"]) == (0, "2", "jq -n 1+1")


async def test_what_cannot_be_seen_is_shown_as_an_escape(local: CommandHost, tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\x1b[31mred\x1b[0m \xe2\x80\xae a\0b \xff\n")
    view = await run(context(local, tmp_path), Args(command=f"cat {tmp_path}/odd"))
    assert view["stdout"] == "\\x1b[31mred\\x1b[0m <U+202E> a b \ufffd"


async def test_a_site_may_switch_it_off(local: CommandHost, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="switched free-form commands off"):
        await run(context(local, tmp_path, policy=PolicySettings(free_form=False)), Args(command="ls"))


async def test_a_process_root_needs_consent(local: CommandHost, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="allow_container_exec"):
        await run(context(local, tmp_path), Args(command="ls", process_root=1))


def test_half_a_line_at_the_gap_is_left_out() -> None:
    capture = Capture(head=b"a=1\nAPI_KEY=c4N4", tail=b"ryV4lu3\nb=2\n", total=100)
    data = whole_lines(capture)
    assert b"c4N4" not in data
    assert b"ryV4lu3" not in data
    assert data.startswith(b"a=1\nAPI_KEY=c4N4"[:4])
    assert data.endswith(b"b=2\n")
    assert b"bytes left out" in data
    assert whole_lines(Capture(head=b"abc", total=3)) == b"abc"


def test_a_copy_of_a_file_is_cited_as_that_file() -> None:
    cases: Mapping[str, tuple[str | None, int]] = {
        "cat /opt/x": ("/opt/x", 1),
        "sed -n 100,120p /opt/x": ("/opt/x", 100),
        "sed -n 7p /opt/x": ("/opt/x", 7),
        "cat -n /opt/x": (None, 1),
        "cat /opt/x /opt/y": (None, 1),
        "cat /opt/x | head": (None, 1),
        "grep x /opt/x": (None, 1),
        "ps aux": (None, 1),
    }
    for command, expected in cases.items():
        assert source_of(allowed(command)) == expected, command


def test_fitting_keeps_head_and_tail() -> None:
    data = "".join(f"{number}\n" for number in range(1000)).encode()
    shown = fit(data, 600, "t1.1")
    assert len(shown.text) <= 600
    assert shown.text.startswith("0\n1\n")
    assert shown.text.endswith("998\n999")
    assert shown.lines == 1000
    moved = fit(data, 600, "t1.1", first_line=5001)
    assert "of 6000" in str(moved.cut)
    assert "of 1000" in str(shown.cut)
    one = fit(b"x" * 100_000, 5000, "t1.1")
    assert len(one.text) <= 5000
    assert one.cut
    assert fit(b"", 100, "t1.1").text == ""


def test_arguments_are_checked() -> None:
    for bad in ({"command": ""}, {"command": "ls", "timeout_s": 0}, {"command": "ls", "shell": True}):
        with pytest.raises(ValidationError):
            Args.model_validate(bad)
    assert TOOL.describe({"command": "ls /opt", "host": "gpu1"}) == "run command=ls /opt"
    assert judge("ls").verdict == "allow"
