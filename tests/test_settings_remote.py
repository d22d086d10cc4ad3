"""Files of a package come over the connection as they lie in its folder, in few commands, and few bytes."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab.package import PackageError, fetch
from tools.contract import Result, ToolError
from tools.local import LocalHost
from tools.settings.fetch import asking, decode
from tools.settings.kept_sources import KeptSources
from tools.settings.remote import Place, RemoteTree
from tools.settings.source import LocalTree

PLAIN_TOOLS = ("sh", "env", "find", "grep", "awk", "sed", "cat", "wc", "head", "cksum", "readlink", "tr")


class PlainHost(LocalHost):
    """Run commands with few programs, as on a host without ripgrep, gzip and sha256sum."""

    def __init__(self, folder: Path) -> None:
        super().__init__("plain")
        self._folder = folder
        folder.mkdir()
        for name in PLAIN_TOOLS:
            (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")

    async def exec(self, argv: Sequence[str], **options: Any) -> Result:
        """Run a command with nothing else in its path."""
        return await super().exec(["/usr/bin/env", f"PATH={self._folder}", *argv], **options)


@pytest.fixture(scope="module")
def real() -> Path:
    try:
        return fetch("sglang", "0.5.11", Settings().cache_dir)
    except PackageError as error:
        pytest.skip(str(error))


def small(folder: Path) -> Path:
    package = folder / "sglang"
    (package / "srt" / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "srt" / "server_args.py").write_text("pp_size = 1\n")
    (package / "srt" / "other.py").write_text("print(args.pp_size)\n")
    (package / "srt" / "__pycache__" / "x.py").write_text("pp_size\n")
    (package / "srt" / "notes.txt").write_text("pp_size\n")
    return package


def tree_of(package: Path, cache: Path | None = None, host: LocalHost | None = None) -> RemoteTree:
    info = next(package.parent.glob("*.dist-info"), None)
    place = Place("sglang", "0.5.11", str(package), str(info or ""))
    return RemoteTree(host or LocalHost("here"), place, KeptSources(cache))


async def test_a_remote_tree_gives_what_the_folder_holds(real: Path, tmp_path: Path) -> None:
    local, remote = LocalTree(real), tree_of(real / "sglang", tmp_path / "cache")

    def read() -> None:
        assert list(remote.paths()) == list(local.paths())
        assert remote.read("srt/server_args.py") == local.read("srt/server_args.py")
        words = ["pp_async_batch_depth"]
        assert remote.mentions(words) == local.mentions(words)
        assert remote.distribution("METADATA") == local.distribution("METADATA")
        assert remote.read("srt/no_such_file.py") is None
        remote.remember()

    await asyncio.to_thread(read)
    assert 0 < remote.received < 1 << 20
    again = tree_of(real / "sglang", tmp_path / "cache")
    found = await asyncio.to_thread(again.mentions, ["disable_cuda_graph"])
    assert dict(found) == dict(local.mentions(["disable_cuda_graph"]))
    third = tree_of(real / "sglang", tmp_path / "cache")
    again.remember()
    await asyncio.to_thread(third.mentions, ["disable_cuda_graph"])
    assert third.received < again.received / 3


@pytest.mark.parametrize("plain", [False, True])
async def test_few_programs_are_enough(tmp_path: Path, plain: bool) -> None:
    package = small(tmp_path)
    host = PlainHost(tmp_path / "bin") if plain else LocalHost("here")
    tree = tree_of(package, tmp_path / "cache", host)
    found = await asyncio.to_thread(tree.mentions, ["pp_size"])
    assert sorted(found) == ["srt/other.py", "srt/server_args.py"]
    assert found["srt/other.py"] == b"print(args.pp_size)\n"
    assert list(tree.paths()) == ["__init__.py", "srt/other.py", "srt/server_args.py"]
    assert await asyncio.to_thread(tree.read, "srt/notes.txt") == b"pp_size\n"


async def test_what_leads_out_of_the_package_is_not_read(tmp_path: Path) -> None:
    package = small(tmp_path)
    (tmp_path / "secret.txt").write_text("s3cr3t")
    (package / "srt" / "link.py").symlink_to(tmp_path / "secret.txt")
    tree = tree_of(package)
    for path in ("../secret.txt", "/etc/passwd", "srt/link.py", "srt/*", "", "a\nb"):
        assert await asyncio.to_thread(tree.read, path) is None, path


async def test_a_giant_file_is_left_out_with_the_reason(tmp_path: Path) -> None:
    package = small(tmp_path)
    (package / "srt" / "table.py").write_bytes(b"pp_size = 1\n" * 400_000)
    tree = tree_of(package)
    found = await asyncio.to_thread(tree.mentions, ["pp_size"])
    assert sorted(found) == ["srt/other.py", "srt/server_args.py"]
    assert "4800000 bytes" in tree.skipped["srt/table.py"]


async def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "sglang")
    with pytest.raises(ToolError, match="may not be read"):
        await asyncio.to_thread(tree.paths)


async def test_the_event_loop_is_never_waited_for_from_itself(tmp_path: Path) -> None:
    tree = tree_of(small(tmp_path))
    with pytest.raises(RuntimeError, match="thread beside"):
        tree.paths()


def test_an_answer_cut_or_changed_on_the_way_gives_no_file() -> None:
    row = f"F {'0' * 64} 4 1 srt/a.py\n\n".encode()
    assert decode(b"x\n@@m files plain\n" + row + b"abcd", "m").contents == {}
    assert decode(b"x\n@@m files plain\n" + row + b"ab", "m").contents == {}
    packed = gzip.compress(b"F - 4 1 srt/a.py\n\nabcd")
    assert decode(b"@@m files gzip\n" + packed, "m").contents == {"srt/a.py": b"abcd"}
    assert decode(b"@@m files gzip\n" + packed[:-12], "m").contents in ({}, {"srt/a.py": b"abcd"})
    assert decode(b"nothing", "m").problem == "the host sent no files"


def test_words_that_no_line_can_carry_are_not_asked_for() -> None:
    assert asking(["a.py"], ["x\ny", " ", "z"], ["f" * 64]) == f"W a.py\nG z\nH {'f' * 16}\n".encode()


def test_a_damaged_index_is_begun_anew(tmp_path: Path) -> None:
    kept = KeptSources(tmp_path)
    kept.remember("sglang", ["srt/a.py"], {"srt/a.py": "1" * 64})
    kept.remember("sglang", ["srt/b.py"], {"srt/a.py": "2" * 64})
    assert kept.known("sglang") == ["2" * 64, "1" * 64]
    assert kept.wanted("sglang")[-2:] == ["srt/b.py", "srt/a.py"]
    (tmp_path / "index-sglang.json").write_text('{"read": 3}')
    assert kept.known("sglang") == []
    kept.put(b"data", "0" * 64)
    assert KeptSources(None).wanted("sglang") == kept.wanted("sglang")
