from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.audit import AuditDown
from agent.audit_files import CURRENT
from agent.audit_host import AuditedHost
from agent.audit_record import read
from agent.audit_scope import acting
from agent.audit_verify import verify
from agent.config import Settings
from agent.errors import HostUnreachable
from agent.surfaces.targets import open_host
from tests.audit_parts import Machine, audit_in, filled, lines, rewrite
from tools.declared import declared

READ, WRITE = ["uptime"], ["systemctl", "restart", "engine"]


async def both(host: AuditedHost) -> tuple[bool, str]:
    """Do a read and a write; return whether the read ran, and why the write was refused."""
    done = await host.exec(READ, retry=True)
    try:
        await host.exec(WRITE)
    except AuditDown as error:
        return done.ok, str(error)
    return done.ok, ""


def kinds(folder: Path) -> list[str]:
    return [read(line).kind for line in lines(folder)]


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        server.settimeout(5)
        yield server


def broken(kind: str, folder: Path) -> dict[str, Any]:
    """Return the settings of a copy that cannot be written, as each kind of trouble makes it."""
    if kind == "disk full":
        return {"copy_to": [Path("/dev/full")]}
    if kind == "path missing":
        return {"copy_to": [folder / "mount" / "copy.jsonl"]}
    if kind == "a folder":
        return {"copy_to": [folder]}
    if kind == "something else":
        (folder / "notes.txt").write_text("shopping\n")
        return {"copy_to": [folder / "notes.txt"]}
    if kind == "another installation's":
        filled(folder / "other", copy_to=[folder / "theirs.jsonl"])
        return {"copy_to": [folder / "theirs.jsonl"]}
    path = folder / "log"
    if kind == "socket dead":
        with listening(path):
            pass
    return {"syslog": "syslog" if kind == "socket gone" else "journald", "syslog_socket": path}


@pytest.mark.threat(16)
@pytest.mark.parametrize(
    "kind",
    [
        "disk full",
        "path missing",
        "a folder",
        "something else",
        "another installation's",
        "socket gone",
        "socket dead",
    ],
)
def test_with_a_copy_down_no_write_runs_and_reads_go_on(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = audit_in(tmp_path, **broken(kind, tmp_path))
    host = AuditedHost(Machine(tmp_path / "ran"), audit)
    for _ in range(3):
        done, why = asyncio.run(both(host))
        assert done and why.startswith("not begun: the audit cannot be written (") and "\n" not in why
    assert Machine(tmp_path / "ran").commands() == ["uptime"] * 3
    assert kinds(tmp_path).count("sink_down") == 1
    assert capsys.readouterr().err.count("the audit cannot be written") == 1
    assert verify(tmp_path / "audit").problem == ""


@pytest.mark.threat(16)
def test_a_copy_is_brought_up_to_date_when_it_comes_back(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    copy = mount / "copy.jsonl"
    host = AuditedHost(Machine(tmp_path / "ran"), audit_in(tmp_path, copy_to=[copy]))
    assert asyncio.run(both(host)) == (True, "")
    mount.rename(tmp_path / "away")
    assert asyncio.run(both(host))[1]
    (tmp_path / "away").rename(mount)
    assert asyncio.run(both(host)) == (True, "")
    asyncio.run(host.exec(READ, retry=True))
    found = verify(tmp_path / "audit", [copy])
    assert (found.problem, found.notes) == ("", []) and copy.read_bytes().splitlines() == lines(tmp_path)
    assert kinds(tmp_path).count("sink_back") == 1
    assert Machine(tmp_path / "ran").commands() == ["uptime", " ".join(WRITE)] * 1 + ["uptime"] * 1 + [
        "uptime",
        " ".join(WRITE),
        "uptime",
    ]


def test_where_copies_are_not_required_a_change_goes_on(tmp_path: Path) -> None:
    audit = audit_in(tmp_path, copy_to=[Path("/dev/full")], required=False)
    assert asyncio.run(both(AuditedHost(Machine(tmp_path / "ran"), audit))) == (True, "")


@pytest.mark.threat(16)
def test_the_way_back_of_a_change_is_never_refused(tmp_path: Path) -> None:
    async def main() -> None:
        host = AuditedHost(Machine(tmp_path / "ran"), audit_in(tmp_path, copy_to=[Path("/dev/full")]))
        with declared("restore"):
            assert (await host.exec(["rollback"])).ok
        with declared("write"), pytest.raises(AuditDown):
            await host.exec(["confirm"])

    asyncio.run(main())
    assert Machine(tmp_path / "ran").commands() == ["rollback"]


def test_what_is_not_known_to_read_is_a_write(tmp_path: Path) -> None:
    async def main() -> None:
        host = AuditedHost(Machine(tmp_path / "ran"), audit_in(tmp_path))
        await host.exec(["a"])
        await host.exec(["b"], retry=True)
        with acting("one", "run", reads=True):
            await host.exec(["c"])
            await host.exec(["d"], stdin=b"a program")
        with acting("one", "touch", reads=False):
            await host.exec(["e"])

    asyncio.run(main())
    started = [record for line in lines(tmp_path) if (record := read(line)).kind == "command_started"]
    assert [record.effect for record in started] == ["write", "read", "read", "write", "write"]
    assert [record.thread for record in started] == [None, None, "one", "one", "one"]


@pytest.mark.threat(16)
@pytest.mark.skipif(os.getuid() != 0, reason="a full disk is made with a small tmpfs, which only root can")
def test_with_a_full_disk_no_write_runs_and_reads_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        audit = audit_in(disk)
        host = AuditedHost(Machine(tmp_path / "ran"), audit)
        assert asyncio.run(both(host)) == (True, "")
        whole = len(lines(disk))
        with (disk / "fill").open("wb") as file, contextlib.suppress(OSError):
            while True:
                os.write(file.fileno(), b"x" * 4096)
        while audit.record("call_refused") is not None:
            pass  # until the page that the file has already is full
        for _ in range(2):
            done, why = asyncio.run(both(host))
            assert done and "No space left on device" in why
        assert verify(disk / "audit").problem == "" and len(lines(disk)) >= whole
        (disk / "fill").unlink()
        assert asyncio.run(both(host)) == (True, "")
        found = verify(disk / "audit")
        assert found.problem == "" and "sink_back" in kinds(disk)
        assert capsys.readouterr().err.count("the audit cannot be written") == 1
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
    assert Machine(tmp_path / "ran").commands().count(" ".join(WRITE)) == 2


def test_syslog_and_journald_get_every_record(tmp_path: Path) -> None:
    with listening(tmp_path / "log") as log:
        filled(tmp_path / "a", 3, syslog="syslog", syslog_socket=tmp_path / "log").close()
        got = [log.recv(65536) for _ in range(3)]
        assert got[0].startswith(b"<110>leadline-audit[")
        assert [line.partition(b": ")[2] for line in got] == lines(tmp_path / "a")
        audit = audit_in(tmp_path / "b", syslog="journald", syslog_socket=tmp_path / "log")
        audit.record("login_failed", host="gpu1")
        fields = dict(line.split(b"=", 1) for line in log.recv(65536).splitlines())
        assert fields[b"LEADLINE_SEQ"] == b"1" and fields[b"MESSAGE"] == lines(tmp_path / "b")[0]
        log.close()
        (tmp_path / "log").unlink()
        with listening(tmp_path / "log") as anew:  # a log that was started again is found again
            audit.record("login_failed", host="gpu2")
            assert b"gpu2" in anew.recv(65536)
        audit.close()


async def test_every_command_of_a_host_is_recorded_and_costs_no_further_one(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    async with open_host("local", settings) as host:
        await host.exec(["echo", "hello"], retry=True)
        await host.exec(["false"])
    started, ended, second, failed = (read(line) for line in lines(tmp_path))
    assert (started.command, started.effect, started.host) == ("echo hello", "read", "local")
    assert (ended.of, ended.outcome, ended.exit_code) == (1, "exited", 0)
    assert (second.effect, failed.of, failed.exit_code) == ("write", 3, 1)
    assert host._host.execs == 2  # type: ignore[attr-defined]
    with pytest.raises(HostUnreachable):
        async with open_host("nobody@127.0.0.1:1", settings):
            pass
    last = read(lines(tmp_path)[-1])
    assert (last.kind, last.host) == ("login_failed", "nobody@127.0.0.1:1") and last.outcome


def command(*words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("leadline"))
    return subprocess.run([program, "audit", *words], capture_output=True, text=True, check=False, timeout=60)


def test_verify_and_show_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    assert command("verify").stdout == "No records yet.\n"
    filled(tmp_path, 5).record("login_failed", host="gpu2", outcome="auth", detail="bad \x1b[31mkey")
    done = command("verify")
    assert done.returncode == 0 and "6 records, whole and in order" in done.stdout
    shown = command("show", "--host", "gpu2", "--since", "1h")
    assert shown.returncode == 0 and "login failed" in shown.stdout and "\x1b" not in shown.stdout
    rows = [json.loads(row) for row in command("show", "--json").stdout.splitlines()]
    assert [row["seq"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert "No such records" in command("show", "--since", "2030-01-01").stdout
    assert command("show", "--since", "tomorrow").returncode == 2
    whole = lines(tmp_path)
    rewrite(tmp_path, [*whole[:2], whole[2].replace(b"echo", b"ecto"), *whole[3:]])
    done = command("verify", "--json")
    assert done.returncode == 1 and ":3: " in json.loads(done.stdout)["problem"]
    assert command("verify", str(tmp_path / "audit" / CURRENT)).returncode == 1
    assert command("verify", str(tmp_path / "nowhere")).returncode == 2
