"""read_file: ranges, symbols, paging, and everything that is no bounded text file."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tools import read_file
from tools.artifacts import ArtifactStore
from tools.contract import ArtifactRef, ToolContext, ToolError, ToolSettings
from tools.local import LocalHost

SOURCE = """import os

LIMIT = 3


class A:
    x: int = 1

    @property
    def p(self):
        return os.name  # hunter2

    def q(self):
        pass


def free():
    return A
"""


class Calls:
    """Make calls of one investigation."""

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.host = LocalHost("here")
        self.store = ArtifactStore(tmp_path / "store")
        self.settings = ToolSettings(**settings)
        self.artifacts: dict[str, ArtifactRef] = {}
        self.cache: dict[str, Any] = {}
        self.number = 0

    async def __call__(self, **args: Any) -> dict[str, Any]:
        self.number += 1
        ctx = ToolContext(
            call_id=f"t{self.number}",
            hosts={"here": self.host},
            store=self.store,
            redact=lambda data: data.replace(b"hunter2", b"[hidden]"),
            settings=self.settings,
            artifacts=self.artifacts,
            cache=self.cache,
        )
        view = await read_file.run(ctx, read_file.Args(**args))
        self.artifacts |= {ref.handle: ref for ref in ctx.kept}
        json.dumps(view)
        return view


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.py"
    path.write_text(SOURCE)
    return path


async def test_a_file_is_shown_with_line_numbers_and_kept_whole(tmp_path: Path, source: Path) -> None:
    call = Calls(tmp_path)
    view = await call(path=str(source))
    assert (view["lines"], view["total_lines"], view["complete"]) == ([1, 18], 18, True)
    assert view["text"].split("\n")[2] == "3: LIMIT = 3"
    assert view["text"].split("\n")[9:11] == [
        "10:     def p(self):",
        "11:         return os.name  # [hidden]",
    ]
    ref = call.artifacts[view["artifact"]]
    assert (ref.first_line, ref.path, ref.complete) == (1, str(source), True)
    assert call.store.get(ref.sha256).decode() == SOURCE.replace("hunter2", "[hidden]")
    import hashlib

    assert view["sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()


async def test_ranges_and_symbols(tmp_path: Path, source: Path) -> None:
    call = Calls(tmp_path)
    part = await call(path=str(source), start=3, end=4)
    assert (part["lines"], part["text"]) == ([3, 4], "3: LIMIT = 3\n4: ")
    assert (await call(path=str(source), start=17))["lines"] == [17, 18]
    for symbol, lines in (
        ("A.p", [9, 11]),
        ("A", [6, 14]),
        ("free", [17, 18]),
        ("LIMIT", [3, 3]),
        ("A.x", [7, 7]),
    ):
        assert (await call(path=f"{source}::{symbol}"))["lines"] == lines
        assert (await call(path=str(source), symbol=symbol))["symbol"] == symbol
    assert len(call.artifacts) == 1, "the same bytes at the same path keep their handle"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"symbol": "A.nothing"}, r"no symbol A.nothing .* there are: A, A.p"),
        ({"symbol": "fre"}, "there are: free"),
        ({"start": 19}, "has lines 1 to 18, not 19"),
        ({"start": 5, "end": 4}, "comes before"),
    ],
)
async def test_what_is_not_there_is_said_with_what_is(
    tmp_path: Path, source: Path, args: dict[str, Any], says: str
) -> None:
    with pytest.raises(ToolError, match=says):
        await Calls(tmp_path)(path=str(source), **args)


async def test_long_files_are_paged_on_from_the_artifact(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("".join(f"row {n}\n" for n in range(1, 5001)))
    call = Calls(tmp_path, view_chars=3000)
    view = await call(path=str(path))
    assert len(json.dumps(view)) < 3000
    assert view["complete"] is False and view["total_lines"] == 5000
    last = view["lines"][1]
    assert f"lines {last + 1} to 5000 are left out" in view["cut"]
    page = await call(artifact=view["artifact"], start=last + 1, end=last + 2)
    assert page["text"] == f"{last + 1}: row {last + 1}\n{last + 2}: row {last + 2}"
    assert page["artifact"] == view["artifact"]
    with pytest.raises(ToolError, match="no artifact t9"):
        await call(artifact="t9.9")


async def test_a_range_of_a_huge_file_is_read_and_says_it_is_a_part(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    path.write_text("".join(f"row {n} {'x' * 100}\n" for n in range(1, 60_001)))
    call = Calls(tmp_path)
    view = await call(path=str(path), start=40_000, end=40_001)
    assert view["text"].startswith("40000: row 40000 ")
    assert (view["lines"], view["total_lines"]) == ([40_000, 40_001], None)
    assert "only a part" in view["note"]
    assert call.artifacts[view["artifact"]].first_line == 40_000
    page = await call(artifact=view["artifact"], start=40_001)
    assert page["lines"] == [40_001, 40_001]
    with pytest.raises(ToolError, match="symbols are found in files up to"):
        await call(path=f"{path}::A")
    with pytest.raises(ToolError, match="has no line 70000"):
        await call(path=str(path), start=70_000)


@pytest.mark.threat(8)
async def test_what_is_no_text_file_is_refused_at_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("cases", 14)
    os.mkfifo(tmp_path / "fifo")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    (tmp_path / "shadow").symlink_to("/etc/shadow")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 10 << 30)
    call = Calls(tmp_path)
    for path, says in (
        (str(tmp_path / "fifo"), "a FIFO"),
        (str(tmp_path / "socket"), "a socket"),
        (str(tmp_path / "shadow"), "not read: .*password hashes"),
        (str(tmp_path / "zero"), "not read"),
        (str(tmp_path / "binary"), "binary"),
        (str(tmp_path / "sparse"), "binary"),
        (str(tmp_path), "a folder; search it with grep"),
        (str(tmp_path / "absent"), "does not exist"),
        ("/etc/shadow", "not read"),
        ("/tmp/../etc/shadow", "not read"),
        ("/proc/self/environ", "not read"),
        ("/tmp/a\nb", "not a plain path"),
        ("/tmp/a\0b", "NUL"),
        ("relative.py", "absolute path"),
    ):
        begun = time.monotonic()
        with pytest.raises(ToolError, match=says):
            await call(path=path)
        assert time.monotonic() - begun < 15
    listening.close()


async def test_files_without_a_size_are_read(tmp_path: Path) -> None:
    view = await Calls(tmp_path)(path="/proc/self/status")
    assert view["text"].startswith("1: Name:")


async def test_awkward_content_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\r\n\x1b[31m red\nlast")
    view = await Calls(tmp_path)(path=str(path))
    assert view["lines"] == [1, 3] and view["text"].endswith("3: last")
    path.write_bytes(b"")
    empty = await Calls(tmp_path)(path=str(path))
    assert empty["text"] == "" and empty["total_lines"] == 0
    path.write_text("x" * 100_000 + "\nend\n")
    wide = await Calls(tmp_path)(path=str(path))
    assert "more]" in wide["text"] and wide["text"].endswith("2: end")


async def test_either_path_or_artifact(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="either path or artifact"):
        await Calls(tmp_path)()
    with pytest.raises(ToolError, match="either path or artifact"):
        await Calls(tmp_path)(path="/etc/hostname", artifact="t1.1")
    with pytest.raises(ValidationError):
        read_file.Args(path="/x", start=0)


async def test_a_process_root_without_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("inside\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    call = Calls(tmp_path)
    view = await call(path=f"{tmp_path}/real/a.txt", process_root=os.getpid())
    assert view["text"] == "1: inside"
    assert view["path"] == f"{tmp_path}/real/a.txt"
    with pytest.raises(ToolError, match="is a link to"):
        await call(path=f"{tmp_path}/link/a.txt", process_root=os.getpid())
