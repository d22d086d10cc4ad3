"""No way leads to a file that may not be read: links, races of names, ``..``, and what is no regular file."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sshd_fixtures import any_host
from tools import grep, read_file, run
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.execution import CommandHost
from tools.policy import judge, read_denied, tree_denied
from tools.redact import redact

SOON_S = 30.0
"""Far above what a refusal takes; what waits for a FIFO or reads a device takes for ever."""
SECRET = "c4N4ryV4lu3x7Qz"
ALIASES = (
    *("{}", "//{}", "/.{}", "/proc/self/root{}", "/proc/1/root{}", "/proc/thread-self/root{}"),
    *("/proc/self/task/1/root{}", "/proc/self/root/proc/1/root{}", "/opt/..{}", "/usr/share/../..{}"),
    *("/proc/self/cwd/../../../../..{}",),
)
FORBIDDEN = (
    *("/etc/shadow", "/etc/gshadow", "/root/.ssh/id_ed25519", "/etc/ssh/ssh_host_rsa_key", "/proc/1/environ"),
    *("/proc/self/mem", "/proc/kcore", "/dev/sda", "/dev/zero", "/dev/mem", "/root/.aws/credentials"),
    *("/root/.kube/config", "/run/secrets/token", "/etc/ssl/private/a.key", "/root/.bash_history"),
)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[CommandHost]:
    async with any_host("local", tmp_path) as opened:
        yield opened


class Tools:
    """Call a tool on a host; keep what it stored."""

    def __init__(self, host: CommandHost, tmp_path: Path) -> None:
        self.ctx = ToolContext(
            "t1", {host.name: host}, ArtifactStore(tmp_path / "store"), redact, ToolSettings()
        )

    async def __call__(self, tool: str, **args: Any) -> dict[str, Any]:
        module: Any = {"read_file": read_file, "grep": grep, "run": run}[tool]
        async with asyncio.timeout(SOON_S):
            view: dict[str, Any] = await module.run(self.ctx, module.Args(**args))
        return view


def ways_in(path: Path | str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every call that would read a path."""
    yield "read_file", {"path": str(path)}
    yield "grep", {"pattern": ".", "path": str(path)}
    for command in (
        "cat {}",
        "head -n 1 {}",
        "tail -c 10 {}",
        "wc -c {}",
        "sha256sum {}",
        "cat < {}",
        "grep . {}",
    ):
        yield "run", {"command": command.format(path)}


@pytest.mark.threat(8)
def test_no_spelling_of_a_forbidden_path_is_read(record_property: Callable[[str, object], None]) -> None:
    cases = [alias.format(path) for alias in ALIASES for path in FORBIDDEN]
    cases += [path.upper() for path in FORBIDDEN]
    record_property("cases", 3 * len(cases))
    assert [path for path in cases if read_denied(path) is None] == []
    assert [path for path in cases if tree_denied(path) is None] == []
    assert [path for path in cases if judge(f"cat {path}").verdict == "allow"] == []


@pytest.mark.threat(8)
async def test_links_to_what_is_forbidden_lead_nowhere(
    host: CommandHost, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    (tmp_path / "shadow").symlink_to("/etc/shadow")
    (tmp_path / "second").symlink_to(tmp_path / "shadow")
    (tmp_path / "folder").symlink_to("/etc")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "environ").symlink_to("/proc/self/environ")
    (tmp_path / "root").symlink_to("/proc/self/root")
    tools = Tools(host, tmp_path)
    cases = 0
    for name in ("shadow", "second", "folder/shadow", "zero", "environ", "root/etc/shadow"):
        for tool, args in ways_in(tmp_path / name):
            cases += 1
            with pytest.raises(ToolError, match=r"not read|refused|no regular file"):
                await tools(tool, **args)
    record_property("cases", cases)
    assert tools.ctx.kept == []


@contextmanager
def special_files(folder: Path) -> Iterator[dict[str, Path]]:
    """Make a FIFO, a socket and, for root, devices."""
    made = {"fifo": folder / "fifo", "socket": folder / "socket"}
    os.mkfifo(made["fifo"])
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(made["socket"]))
    if os.getuid() == 0:
        for name, major, minor in (("zero", 1, 5), ("tty", 5, 0)):
            try:
                os.mknod(folder / name, 0o020644, os.makedev(major, minor))
            except PermissionError:
                continue
            made[name] = folder / name
    try:
        yield made
    finally:
        listening.close()


@pytest.mark.threat(8)
async def test_what_is_no_regular_file_is_not_opened(
    host: CommandHost, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tools = Tools(host, tmp_path)
    cases = 0
    with special_files(tmp_path) as made:
        (tmp_path / "link").symlink_to(made["fifo"])
        for path in (*made.values(), tmp_path / "link"):
            for tool, args in ways_in(path):
                cases += 1
                with pytest.raises(ToolError, match=r"regular file|not read"):
                    await tools(tool, **args)
    record_property("cases", cases)
    assert tools.ctx.kept == []


@pytest.mark.threat(8)
async def test_ten_gigabytes_of_nothing_are_not_kept(
    host: CommandHost, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    sparse = tmp_path / "sparse"
    sparse.touch()
    os.truncate(sparse, 10 << 30)
    tools = Tools(host, tmp_path)
    with pytest.raises(ToolError, match="binary"):
        await tools("read_file", path=str(sparse))
    view = await tools("run", command=f"cat {sparse}", timeout_s=10)
    assert view["truncated"]
    assert "not absent" in view["note"]
    assert sum(ref.size for ref in tools.ctx.kept) < 64 << 20
    record_property("cases", 2)


@pytest.mark.threat(8)
async def test_a_link_that_changes_is_judged_by_where_it_leads_when_it_is_looked_at(
    host: CommandHost, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Swapped between two calls, it is refused; what is stored is the innocent file alone."""
    innocent = tmp_path / "innocent"
    innocent.write_text("plain\n")
    (tmp_path / "id_rsa").write_text(f"{SECRET}\n")
    link = tmp_path / "link"
    tools = Tools(host, tmp_path)
    rounds = 5
    for _ in range(rounds):
        link.symlink_to(innocent)
        assert (await tools("run", command=f"cat {link}"))["stdout"] == "plain"
        link.unlink()
        link.symlink_to(tmp_path / "id_rsa")
        for tool, args in ways_in(link):
            with pytest.raises(ToolError, match=r"private key"):
                await tools(tool, **args)
        link.unlink()
    record_property("cases", rounds)
    assert all(SECRET.encode() not in tools.ctx.store.get(ref.sha256) for ref in tools.ctx.kept)


async def test_dev_null_and_folders_are_still_read(host: CommandHost, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.txt").write_text("needle\n")
    tools = Tools(host, tmp_path)
    assert (await tools("run", command="cat /dev/null"))["exit_code"] == 0
    assert "needle" in (await tools("run", command=f"grep -rn needle {tmp_path}/tree"))["stdout"]
    assert (await tools("run", command=f"cat {tmp_path}/absent"))["exit_code"] == 1
