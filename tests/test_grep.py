"""grep on a real host: rg, rg that is sent, plain grep; hostile names, limits, and judged matches."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import grep
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.local import LocalHost

ARGS = """
import dataclasses

@dataclasses.dataclass
class ServerArgs:
    model_path: str = ""
    turbo_off: bool = False
    enable_x: bool = False
    pp_size: int = 1

    def __post_init__(self):
        self._first()

    def _first(self):
        if not self.enable_x:
            return
        self.turbo_off = True

    def _second(self):
        if self.pp_size > 1:
            self.turbo_off = True

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--turbo-off", action="store_true")  # turbo_off by hand
        parser.add_argument("--pipeline-size", "--pp-size", type=int, default=ServerArgs.pp_size)

    @classmethod
    def from_cli_args(cls, args):
        args.pp_size = args.pipeline_size
"""
RUNNER = """
class Runner:
    def start(self, server_args):
        keep_turbo_off = server_args.turbo_off
        server_args.turbo_off = True
        self.load()
        server_args.turbo_off = keep_turbo_off

    def capture(self):
        if self.server_args.turbo_off:
            return
        self.graph()
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return site-packages of a venv that holds a small engine."""
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python3").symlink_to(base)
    (venv / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    site = venv / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    package = site / "sglang"
    (package / "srt").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text("import time\ntime.sleep(60)\n")
    (package / "srt" / "server_args.py").write_text(ARGS)
    (package / "srt" / "runner.py").write_text(RUNNER)
    (package / "notes.txt").write_text("turbo_off is odd\n")
    (site / "sglang-9.9.dist-info").mkdir()
    return site


@contextlib.contextmanager
def running(site: Path, *flags: str) -> Iterator[int]:
    python = site.parents[2] / "bin" / "python3"
    command = [str(python), "-m", "sglang.launch_server", "--port", "9", *flags]
    process = subprocess.Popen(command, cwd="/")
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


class Calls:
    """Make calls of one investigation."""

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.host = LocalHost("here")
        self.store = ArtifactStore(tmp_path / "store")
        self.settings = ToolSettings(**settings)
        self.cache: dict[str, Any] = {}
        self.number = 0
        self.ctx: ToolContext | None = None

    async def __call__(self, pattern: str, **args: Any) -> dict[str, Any]:
        self.number += 1
        self.ctx = ToolContext(
            call_id=f"t{self.number}",
            hosts={"here": self.host},
            store=self.store,
            redact=lambda data: data.replace(b"hunter2", b"[hidden]"),
            settings=self.settings,
            cache=self.cache,
        )
        view = await grep.run(self.ctx, grep.Args(pattern=pattern, **args))
        json.dumps(view)
        return view


def matches(view: dict[str, Any], name: str) -> dict[int, dict[str, Any]]:
    found = next(r for r in view["results"] if r["path"].endswith(name))
    return {match["line"]: match for match in found["matches"]}


def line_of(text: str, needle: str, nth: int = 0) -> int:
    return [n for n, row in enumerate(text.split("\n"), 1) if needle in row][nth]


async def test_every_match_is_explained(tmp_path: Path, site: Path) -> None:
    call = Calls(tmp_path)
    with running(site, "--pp-size", "8", "--turbo-off") as pid:
        view = await call("turbo_off", pid=pid)
    assert (view["complete"], view["files"], view["matches"]) == (True, 3, 9)
    assert (view["pid"], view["package"], view["version"]) == (pid, "sglang", "9.9")
    assert view["results"][0]["path"].endswith("srt/server_args.py")
    found = matches(view, "server_args.py")
    default = found[line_of(ARGS, "turbo_off: bool")]
    assert (default["kind"], default["value"], default["symbol"]) == ("definition", False, "ServerArgs")
    first = found[line_of(ARGS, "self.turbo_off = True")]
    assert (first["kind"], first["value"], first["verdict"]) == ("write", True, "false")
    assert first["symbol"] == "ServerArgs._first"
    (guard,) = first["guards"]
    assert guard["condition"] == "self.enable_x"
    assert guard["source"] == "if not self.enable_x:"
    line = line_of(ARGS, "enable_x: bool")
    assert guard["because"] == f"enable_x is False (default, line {line})"
    assert guard["decided_by"] == [
        {
            "name": "enable_x",
            "value": False,
            "origin": "default",
            "line": line,
            "text": "enable_x: bool = False",
            "last_line": line,
        }
    ]
    second = found[line_of(ARGS, "self.turbo_off = True", 1)]
    assert second["verdict"] == "true"
    assert second["guards"][0]["decided_by"][0] == {
        "name": "pp_size",
        "value": 8,
        "origin": "flag",
        "line": None,
    }
    runner = matches(view, "runner.py")
    assert runner[line_of(RUNNER, "keep_turbo_off =")]["note"].startswith("saved here")
    assert runner[line_of(RUNNER, "= True")]["note"].startswith("temporary")
    assert runner[line_of(RUNNER, "= keep_turbo_off")]["restores"] is True
    assert matches(view, "notes.txt")[1] == {"line": 1, "text": "turbo_off is odd"}


async def test_the_test_of_a_branch_is_judged_with_what_it_leads_to(tmp_path: Path, site: Path) -> None:
    call = Calls(tmp_path)
    with running(site) as pid:
        view = await call("server_args.turbo_off:", pid=pid)
    (match,) = matches(view, "runner.py").values()
    assert match["test"]["condition"] == "self.server_args.turbo_off"
    assert match["test"]["then"] == "return"
    # In this engine it is written elsewhere, and this server says nothing: open, not wrong.
    assert match["test"]["verdict"] == "unknown"


async def test_artifacts_hold_whole_files_and_are_kept_once(tmp_path: Path, site: Path) -> None:
    call = Calls(tmp_path)
    with running(site) as pid:
        first = await call("turbo_off", pid=pid)
        again = await call("turbo_off", pid=pid)
        (site / "sglang" / "srt" / "runner.py").write_text(RUNNER + "# turbo_off\n")
        changed = await call("turbo_off", pid=pid)
    handles = {r["path"]: r["artifact"] for r in first["results"]}
    ref = next(r for r in first["results"] if r["path"].endswith("runner.py"))
    assert call.store.get(ref["sha256"]).decode() == RUNNER
    assert {
        r["path"]: r["artifact"] for r in again["results"] if ".py" in r["path"]
    }.items() <= handles.items()
    new = next(r for r in changed["results"] if r["path"].endswith("runner.py"))
    assert new["artifact"] != ref["artifact"]
    assert call.store.get(new["sha256"]).decode() == RUNNER + "# turbo_off\n"


async def test_an_absence_is_complete_and_counted(tmp_path: Path, site: Path) -> None:
    call = Calls(tmp_path)
    with running(site) as pid:
        view = await call("nothing_of_this_name", pid=pid)
    assert (view["matches"], view["complete"], view["results"]) == (0, True, [])
    assert view["files_searched"] == 5
    assert view["scope"] == str(site / "sglang")


async def test_ignored_and_hidden_files_are_searched(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / ".gitignore").write_text("*.py\n")
    (tree / "a.py").write_text("needle = 1\n")
    (tree / ".hidden.py").write_text("needle = 2\n")
    view = await Calls(tmp_path)("needle", path=str(tree))
    assert view["files"] == 2


async def test_hostile_names_and_bytes_do_not_break_the_reading(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in (b"new\nline.py", b"\x1b[31m.py", b"\xff\xfe.py", b'quo"te.py', b"sp ace.py", b"-rf.py"):
        Path(os.fsdecode(os.fsencode(tree) + b"/" + name)).write_bytes(b"needle = 1  # \xff\n")
    (tree / "fine.py").write_text("def f():\n    needle = 1\n")
    (tree / "broken.py").write_text("def f(:\n    needle = 1\n")
    view = await Calls(tmp_path)("needle", path=str(tree))
    assert (view["files"], view["complete"]) == (8, True)
    assert next(iter(matches(view, "/fine.py").values()))["symbol"] == "f"
    broken = next(r for r in view["results"] if r["path"].endswith("broken.py"))
    assert broken["note"].startswith("no conditions")
    assert broken["matches"][0]["verdict"] == "unknown"


@pytest.mark.threat(8)
async def test_what_may_not_be_read_is_refused_or_named(tmp_path: Path) -> None:
    call = Calls(tmp_path)
    (tmp_path / "fifo").touch()
    (tmp_path / "fifo").unlink()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/shadow")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "id_rsa").write_text("needle hunter2\n")
    (tree / "inner").symlink_to("/etc/passwd")
    (tree / "open.txt").write_text("needle root hunter2\n")
    for path, says in (
        ("/etc/shadow", "not read"),
        (str(tmp_path / "link"), "not read"),
        (str(tmp_path / "fifo"), "no regular file"),
        ("/dev/zero", "not read"),
        (str(tmp_path / "absent"), "does not exist"),
        ("relative/path", "absolute path"),
    ):
        with pytest.raises(ToolError, match=says):
            await call("root", path=path)
    view = await call("root|needle", path=str(tree))
    assert [r["path"] for r in view["results"]] == [str(tree / "open.txt")]
    assert view["results"][0]["matches"][0]["text"] == "needle root [hidden]"
    assert view["complete"] is False
    assert view["not_permitted"] == [f"{tree}/id_rsa: refused by policy"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
async def test_unreadable_files_make_a_search_incomplete(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "closed").write_text("needle")
    (tree / "closed").chmod(0)
    view = await Calls(tmp_path)("needle", path=str(tree))
    assert view["complete"] is False and "closed" in view["not_permitted"][0]


async def test_a_bad_pattern_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="unclosed group"):
        await Calls(tmp_path)("x(", path=str(tmp_path))


async def test_text_is_text_with_fixed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("x(1)\nX(2)\nxx1\n")
    call = Calls(tmp_path)
    assert (await call("x(", path=str(tree), fixed=True))["matches"] == 1
    assert (await call("x(", path=str(tree), fixed=True, ignore_case=True))["matches"] == 2
    assert (await call("--files", path=str(tree)))["matches"] == 0
    assert (await call("x", path=str(tree), glob="*.py"))["matches"] == 0


async def test_views_are_bounded_and_say_what_is_left_out(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(30):
        (tree / f"f{number}.py").write_text("def f(a):\n    if a:\n" + "        needle = 'long'\n" * 40)
    (tree / "wide.txt").write_text("needle " + "x" * 5000)
    call = Calls(tmp_path, view_chars=6000)
    view = await call("needle", path=str(tree), max_matches=1000)
    assert len(json.dumps(view)) <= 6000
    assert view["matches"] == 1201
    shown = sum(len(r["matches"]) for r in view["results"])
    assert view["cut"]["matches_left_out"] == 1201 - shown
    assert call.ctx is not None
    listing = next(ref for ref in call.ctx.kept if ref.handle == view["cut"]["artifact"])
    assert call.store.get(listing.sha256).count(b"needle") == 1201
    wide = await call("needle", path=str(tree / "wide.txt"))
    assert wide["results"][0]["matches"][0]["text"].endswith("more]")
    few = await call("needle", path=str(tree), max_matches=10)
    assert few["complete"] is False and few["matches"] == 1201


async def test_a_restarted_process_is_looked_at_again(tmp_path: Path, site: Path) -> None:
    call = Calls(tmp_path)
    with running(site) as pid:
        await call("turbo_off", pid=pid)
    with pytest.raises(ToolError, match="no process"):
        await call("turbo_off", pid=pid)


@pytest.fixture
def no_rg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let commands find only plain tools, not rg."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ["sh", "cat", "grep", "find", "sed", "head", "wc", "sha256sum", "readlink", "tr", "uniq"]:
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    script = (Path(grep.__file__).parent / "grep.sh").read_text()
    bare = script.replace("PATH=$PATH:/usr/local/bin:/usr/bin:/bin", f"PATH={tools}")
    assert bare != script
    changed = tmp_path / "grep.sh"
    changed.write_text(bare)
    monkeypatch.setattr("tools.search._SCRIPT", changed)
    return tools


async def test_without_rg_plain_grep_does_it_and_says_so(tmp_path: Path, site: Path, no_rg: Path) -> None:
    call = Calls(tmp_path)
    with running(site, "--pp-size", "8") as pid:
        view = await call("turbo_off = (True|1)", pid=pid, glob="*.py")
    assert view["engine"].startswith("grep: no rg on this host")
    assert view["matches"] == 3
    assert matches(view, "server_args.py")[line_of(ARGS, "self.turbo_off = True", 1)]["verdict"] == "true"
    empty = await call("nothing_of_this_name", path=str(site))
    assert (empty["matches"], empty["complete"]) == (0, True)
    with pytest.raises(ToolError):
        await call("x(", path=str(site))


async def test_where_allowed_a_static_rg_is_sent_privately(
    tmp_path: Path, site: Path, no_rg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.setattr(
        "tools.search._SEND", f"XDG_RUNTIME_DIR={run}\n" + __import__("tools.search").search._SEND
    )
    call = Calls(tmp_path, allow_send_rg=True)
    view = await call("turbo_off", path=str(site))
    assert view["engine"].startswith("ripgrep")
    sent = Path(view["sent"].split()[6])
    assert sent.parent.parent == run
    assert (sent.parent.stat().st_mode & 0o777, sent.stat().st_mode & 0o777) == (0o700, 0o700)
    written = sent.stat().st_mtime_ns
    await call("turbo_off", path=str(site))
    assert sent.stat().st_mtime_ns == written, "it is there already"
    sent.write_bytes(b"something else")
    assert (await call("turbo_off", path=str(site)))["engine"].startswith("ripgrep"), (
        "what was changed is replaced"
    )
