"""Logs: reading under real shells, folding, decode rows, absence, rights."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tools import fold, journal
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.local import LocalHost

HEAD = "2026-11-29T13:{:02d}:{:02d}+0000 host {}"
DECODE = (
    "sglang[42]: [2026-11-29 13:00:00] Decode batch, #running-req: {}, #token: 300, token usage: 0.01, "
    "cuda graph: {}, gen throughput (token/s): {:.2f}, #queue-req: 0"
)


def stamped(number: int, text: str) -> str:
    return HEAD.format(number // 60, number % 60, text)


def log(*rates: float) -> str:
    start = "sglang[42]: [2026-11-29 13:00:00] server_args=ServerArgs(model_path='m', disable_cuda_graph={})"
    lines = ["systemd[1]: Started sglang.service - Test.", start.format("False")]
    lines += [DECODE.format(1, "True", 44.0)]
    lines += ["systemd[1]: Started sglang.service - Test.", start.format("True")]
    lines += [DECODE.format(1, "False", rate) for rate in rates]
    lines += [DECODE.format(8, "False", 97.0), "sglang[42]: shutting down"]
    return "-- Boot 0123 --\n" + "\n".join(stamped(at, line) for at, line in enumerate(lines)) + "\n"


@pytest.fixture
def tools_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder before all others on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


def put(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def with_log(folder: Path, text: str, load: str = "loaded") -> None:
    (folder / "log.txt").write_text(text)
    put(folder, "journalctl", f'echo "$*" >{folder}/asked\ncat {folder}/log.txt')
    put(folder, "systemctl", f"echo LoadState={load}")


async def read(tmp_path: Path, view_chars: int = 12_000, **values: Any) -> tuple[dict[str, Any], str]:
    store = ArtifactStore(tmp_path / "store")
    settings = ToolSettings(view_chars=view_chars)
    ctx = ToolContext("t3", {"local": LocalHost("local")}, store, lambda data: data, settings)
    view = await journal.run(ctx, journal.Args(**values))
    assert view["artifact"] == "t3.1" and len(json.dumps(view)) <= view_chars
    return view, store.get(ctx.kept[0].sha256).decode()


async def test_lines_fold_and_keep_their_numbers(tools_dir: Path, tmp_path: Path) -> None:
    with_log(tools_dir, log(24.1, 24.9, 24.5))
    view, stored = await read(tmp_path, unit="sglang")
    lines = stored.split("\n")
    assert (view["lines"], view["matches"], view["complete"], view["unit"]) == (
        10,
        10,
        True,
        "sglang.service",
    )
    assert sum(row["count"] for row in view["shown"]) == 10
    for row in view["shown"]:
        assert row["text"] in lines[row["line"] - 1]
        assert lines[row["line"] - 1].startswith(row["last_at"])
    decode = next(row for row in view["shown"] if "cuda graph: False" in row["text"])
    assert decode["count"] == 4 and decode["at"] == "2026-11-29T13:00:05+0000"
    asked = (tools_dir / "asked").read_text().split()
    assert asked[asked.index("-u") + 1] == "sglang.service" and "-b" in asked and "200" in asked


async def test_decode_rows_belong_to_the_last_start(tools_dir: Path, tmp_path: Path) -> None:
    with_log(tools_dir, log(24.1, 24.9, 95.0, 24.5))
    view, stored = await read(tmp_path)
    now, jumped, eight, before = view["decode"]
    assert (jumped["running_req"], jumped["count"], jumped["throughput_min"]) == (1, 1, 95.0)
    assert (now["running_req"], now["cuda_graph"], now["count"]) == (1, False, 3)
    assert (now["throughput_min"], now["throughput_median"], now["throughput_max"]) == (24.1, 24.5, 24.9)
    assert "24.50" in stored.split("\n")[now["line"] - 1] and now["text"] in stored
    assert (eight["running_req"], eight["throughput_median"]) == (8, 97.0)
    assert before["cuda_graph"] is True and before["after_start"] < now["after_start"]
    assert [row["line"] for row in view["starts"]] == [2, 3, 5, 6]


async def test_a_pattern_searches_all_and_zero_is_an_absence(tools_dir: Path, tmp_path: Path) -> None:
    with_log(tools_dir, log(24.1, 24.9))
    view, _ = await read(tmp_path, pattern="Capture cuda graph begin")
    assert (view["matches"], view["complete"], view["shown"]) == (0, True, []) and "absence" in view["note"]
    assert "-n" not in (tools_dir / "asked").read_text().split()
    view, _ = await read(tmp_path, pattern=r"#running-req: \d+")
    assert view["matches"] == 4
    assert [row["count"] for row in view["shown"]] == [1, 2, 1]  # 1 and 8 stay apart: they were searched for


async def test_a_long_line_is_cut_around_the_match_and_stays_quotable(
    tools_dir: Path, tmp_path: Path
) -> None:
    long = "a=1, " * 5000 + "disable_cuda_graph=True, " + "b=2, " * 5000
    with_log(tools_dir, stamped(1, f"sglang[1]: server_args=ServerArgs({long})") + "\n")
    view, stored = await read(tmp_path, pattern="disable_cuda_graph=")
    (row,) = view["shown"]
    assert "disable_cuda_graph=True" in row["text"] and row["text"] in stored and "of 5" in row["cut"]


async def test_a_log_too_long_is_not_complete(
    tools_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_HEAD", 2000)
    monkeypatch.setattr(journal, "_TAIL", 3000)
    with_log(tools_dir, "".join(stamped(n % 3000, f"app[1]: line {n}") + "\n" for n in range(4000)))
    view, stored = await read(tmp_path, pattern="no such thing")
    assert not view["complete"] and "narrow it" in view["why_incomplete"][0] and "note" not in view
    assert "line 0\n" in stored and "line 3999\n" in stored and "lines left out" in stored
    with_log(tools_dir, "".join(stamped(n, f"app[1]: line {n}") + "\n" for n in range(90)))
    view, stored = await read(tmp_path, pattern="line")
    assert view["complete"] and view["matches"] == 90 and "left out" not in stored


async def test_the_view_is_bounded_and_says_what_it_left_out(tools_dir: Path, tmp_path: Path) -> None:
    words = [f"{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}x" for n in range(600)]
    with_log(tools_dir, "".join(stamped(n, f"app[1]: {w} happened") + "\n" for n, w in enumerate(words)))
    view, _ = await read(tmp_path, view_chars=6000, last=1000)
    assert "older groups" in view["left_out"] and view["shown"][-1]["line"] == 600
    view, _ = await read(tmp_path, last=100, fold=False)
    assert not view["complete"] and "only the last 100" in view["why_incomplete"][0]


async def test_missing_rights_are_said(tools_dir: Path, tmp_path: Path) -> None:
    put(
        tools_dir,
        "journalctl",
        "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1",
    )
    view, _ = await read(tmp_path, pattern="x")
    assert view["not_permitted"] and not view["complete"] and "note" not in view


async def test_an_unknown_unit_and_a_failing_journalctl_are_one_line(tools_dir: Path, tmp_path: Path) -> None:
    with_log(tools_dir, "-- No entries --\n", load="not-found")
    with pytest.raises(ToolError, match=r"has no unit nosuch\.service"):
        await read(tmp_path, unit="nosuch")
    put(tools_dir, "journalctl", "echo 'Failed to parse timestamp: x' >&2; exit 1")
    with pytest.raises(ToolError, match="Failed to parse timestamp"):
        await read(tmp_path, since="x")


async def test_a_bad_pattern_or_unit_name_is_refused_before_reading(tools_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not RE2 syntax"):
        await read(tmp_path, pattern="(?=x)")
    for values in ({"unit": "-x"}, {"unit": "a;b"}, {"since": "$(id)"}, {"last": 0}):
        with pytest.raises(ValidationError):
            journal.Args.model_validate(values)


async def test_a_hostile_pattern_is_linear(tools_dir: Path, tmp_path: Path) -> None:
    with_log(tools_dir, stamped(1, "app[1]: " + "a" * 50_000 + "!") + "\n")
    view, _ = await read(tmp_path, pattern="(a+)+$")
    assert view["matches"] == 0 and view["complete"]


@pytest.mark.parametrize("shell", [["dash"], ["busybox", "sh"], ["bash", "--posix"]], ids=lambda s: s[0])
def test_without_journalctl_the_units_own_file_is_read(shell: list[str], tmp_path: Path) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    # A folder that holds all the script needs but journalctl; the script's own PATH is kept from adding more.
    folder = tmp_path / "only"
    folder.mkdir()
    for name in ("head", "tail", "sed", "cat", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "unit.log").write_text("[2026-11-29 13:00:00] hello\n")
    put(
        folder,
        "systemctl",
        f'case $1 in cat) echo "StandardOutput=append:{tmp_path}/unit.log";; *) echo LoadState=loaded;; esac',
    )
    script = journal.script().replace("PATH=$PATH:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", "")
    binary = str(shutil.which(shell[0]))
    done = subprocess.run(
        [binary, *shell[1:], "-c", script, "x", "app.service", "", "", "1000", "1000", "-u", "app.service"],
        env={"PATH": str(folder)},
        capture_output=True,
        check=True,
        timeout=20,
    )
    assert done.stdout == b"[2026-11-29 13:00:00] hello\n\n\x01cut\x01\n"
    assert f"ll-source={tmp_path}/unit.log" in done.stderr.decode()
    (line,) = fold.read("[2026-11-29 13:00:00] hello\n")
    assert (line.at, line.number) == ("2026-11-29 13:00:00", 1)


def test_folding_masks_ids_but_not_words() -> None:
    a = "req 12 id 0xdeadbeef 3f2504e0-4f89-11d3-9a0c-0305e82c3301 took 1.5 ms ok True"
    b = "req 99 id 0x1 6ba7b810-9dad-11d1-80b4-00c04fd430c8 took 22.75 ms ok True"
    assert fold.masked(a) == fold.masked(b) != fold.masked(b.replace("True", "False"))
    assert fold.masked("deadline facade") == "deadline facade"


def test_a_hostile_decode_line_is_read_in_no_time() -> None:
    text = "Decode batch. " * 20_000 + "#running-req: 1" * 20_000 + "cuda graph: True" * 20_000
    assert fold.decode_rows([fold.Line(1, None, text)]) == []
    (row,) = fold.decode_rows([fold.Line(1, None, f"{text} gen throughput (token/s): 24.4, ")])
    assert (row["running_req"], row["cuda_graph"], row["throughput_median"]) == (1, True, 24.4)


async def test_calls_side_by_side_read_the_same_log_once_and_later_ones_anew(
    tools_dir: Path, tmp_path: Path
) -> None:
    with_log(tools_dir, log(24.1))
    put(tools_dir, "journalctl", f'echo "$*" >>{tools_dir}/asked\nsleep 0.2\ncat {tools_dir}/log.txt')
    store, cache = ArtifactStore(tmp_path / "store"), dict[str, Any]()

    async def call(number: int, pattern: str, **values: Any) -> dict[str, Any]:
        hosts = {"local": LocalHost("local")}
        ctx = ToolContext(f"t{number}", hosts, store, lambda data: data, ToolSettings(), cache)
        return await journal.run(ctx, journal.Args(unit="sglang", pattern=pattern, **values))

    first, second, other = await asyncio.gather(
        call(1, "Decode"), call(2, "shutting"), call(3, "Decode", boot=False)
    )
    asked = (tools_dir / "asked").read_text().splitlines()
    assert len(asked) == 2 and (first["matches"], second["matches"], other["matches"]) == (3, 1, 3)
    assert (first["artifact"], second["artifact"]) == ("t1.1", "t2.1")
    with_log(tools_dir, log(24.1, 24.2))
    assert (await call(4, "Decode"))["matches"] == 4, "what runs later is read anew"


async def test_a_call_that_is_given_up_leaves_the_others_their_answer(
    tools_dir: Path, tmp_path: Path
) -> None:
    with_log(tools_dir, log(24.1))
    put(tools_dir, "journalctl", f"sleep 0.3\ncat {tools_dir}/log.txt")
    store, cache = ArtifactStore(tmp_path / "store"), dict[str, Any]()

    async def call(number: int) -> dict[str, Any]:
        hosts = {"local": LocalHost("local")}
        ctx = ToolContext(f"t{number}", hosts, store, lambda data: data, ToolSettings(), cache)
        return await journal.run(ctx, journal.Args(unit="sglang", pattern="Decode"))

    first, second = asyncio.create_task(call(1)), asyncio.create_task(call(2))
    await asyncio.sleep(0.1)
    first.cancel()
    assert (await second)["matches"] == 3
    with pytest.raises(asyncio.CancelledError):
        await first


def test_only_the_newest_logs_are_kept_as_read(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store")
    ctx = ToolContext("t1", {}, store, lambda data: data, ToolSettings())
    for rate in range(9):
        journal._log(ctx, store.put(log(float(rate)).encode()))
    assert len(ctx.cache["journal:logs"]) == 4
