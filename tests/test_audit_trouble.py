"""Copies that hang, a lock that nobody lets go of, power cuts, and files that can only be added to."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import audit, audit_files, audit_sinks
from agent.audit_files import CURRENT, HEAD
from agent.audit_host import AuditedHost
from agent.audit_record import read
from agent.audit_verify import verify
from tests.audit_parts import Machine, audit_in, filled, lines, rewrite
from tests.test_audit_sinks import both, kinds


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for less than a person would."""
    monkeypatch.setattr(audit_sinks, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(audit, "LOCK_S", 0.2)
    monkeypatch.setattr(audit, "AGAIN_S", 0.0)


@pytest.mark.threat(16)
@pytest.mark.parametrize("kind", ["syslog", "journald"])
def test_a_log_that_takes_nothing_any_more_is_down_and_reads_go_on(tmp_path: Path, kind: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(tmp_path / "log"))
        log.settimeout(5)
        own = audit_in(tmp_path, syslog=kind, syslog_socket=tmp_path / "log")
        host = AuditedHost(Machine(tmp_path / "ran"), own)
        assert asyncio.run(both(host)) == (True, "")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            filler.setblocking(False)
            filler.connect(str(tmp_path / "log"))
            with pytest.raises(BlockingIOError):
                while True:
                    filler.send(b"x")
        done, why = asyncio.run(both(host))
        assert done and why.startswith(f"not begun: the audit cannot be written ({kind} at "), why
        assert Machine(tmp_path / "ran").commands() == ["uptime", "systemctl restart engine", "uptime"]
        log.settimeout(0)
        with pytest.raises(BlockingIOError):
            while True:
                log.recv(65536)
        assert asyncio.run(both(host)) == (True, "")
        own.close()
    assert verify(tmp_path / "audit").problem == "" and "sink_back" in kinds(tmp_path)


class Mount(audit_sinks.CopyFile):
    """A file on a mount whose server goes away: whoever writes there waits for it."""

    there = threading.Event()

    def write(self, seq: int, line: bytes, *, durable: bool) -> None:
        self.there.wait(60)
        super().write(seq, line, durable=durable)


@pytest.fixture
def mount(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    monkeypatch.setattr(audit_sinks, "CopyFile", Mount)
    monkeypatch.setattr(audit_sinks.BoundedSink.__init__, "__defaults__", (0.1,))
    Mount.there.set()
    yield Mount.there
    Mount.there.set()


@pytest.mark.threat(16)
def test_a_file_on_a_mount_that_hangs_is_down_until_it_answers(
    tmp_path: Path, mount: threading.Event
) -> None:
    copy = tmp_path / "copy.jsonl"
    own = audit_in(tmp_path, copy_to=[copy])
    host = AuditedHost(Machine(tmp_path / "ran"), own)
    assert asyncio.run(both(host)) == (True, "")
    mount.clear()
    for _ in range(3):
        done, why = asyncio.run(both(host))
        assert done and "answer" in why and str(copy) in why
    assert kinds(tmp_path).count("sink_down") == 1
    mount.set()
    own._sinks[0]._last.done.wait(10)  # type: ignore[attr-defined]
    assert asyncio.run(both(host)) == (True, "")
    own.close()
    found = verify(tmp_path / "audit", [copy])
    assert (found.problem, found.notes) == ("", []) and copy.read_bytes().splitlines() == lines(tmp_path)
    assert Machine(tmp_path / "ran").commands().count("systemctl restart engine") == 2


@pytest.mark.threat(16)
def test_a_process_that_never_lets_go_of_the_audit_blocks_no_read(tmp_path: Path) -> None:
    own = filled(tmp_path, 3)
    host = AuditedHost(Machine(tmp_path / "ran"), own)
    ready, told = os.pipe()
    pid = os.fork()
    if not pid:
        lock = os.open(tmp_path / "audit" / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(told, b"x")
        signal.pause()
        os._exit(0)
    os.read(ready, 1)
    try:
        for other in (host, AuditedHost(Machine(tmp_path / "ran"), audit_in(tmp_path))):
            done, why = asyncio.run(both(other))
            assert done and "another process has held the audit" in why
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert asyncio.run(both(host)) == (True, "")
    assert verify(tmp_path / "audit").problem == "" and "sink_back" in kinds(tmp_path)


def test_a_copy_that_is_full_is_not_brought_up_to_date_at_every_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "AGAIN_S", 3600.0)
    copy = tmp_path / "copy.jsonl"
    own = audit_in(tmp_path, copy_to=[copy])
    own.record("call_refused")
    tried: list[int] = []
    real = audit_sinks._between

    def between(folder: Path, last: int | None, seq: int) -> Iterator[bytes]:
        tried.append(seq)
        return real(folder, last, seq)

    def full(descriptor: int, data: bytes) -> int:
        if os.path.samestat(os.fstat(descriptor), copy.stat()):
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    write = os.write
    monkeypatch.setattr(audit_sinks, "_between", between)
    monkeypatch.setattr(os, "write", full)
    for _ in range(200):
        own.record("call_refused")
    assert len(tried) == 1
    with pytest.raises(audit.AuditDown):
        own.record("command_started", needed=True)
    assert len(tried) == 2, "what has to be there tries again at once"
    monkeypatch.setattr(os, "write", write)
    own.record("command_started", needed=True)
    own.record("call_refused")
    own.close()
    assert copy.read_bytes().splitlines() == lines(tmp_path)


def tear(path: Path, keep: int) -> None:
    """Leave the beginning of a last line that was never finished."""
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:-1]) + whole[-1][:keep])


@pytest.mark.threat(16)
@pytest.mark.parametrize("keep", [1, 6, 40, 200])
def test_a_line_that_was_torn_before_a_rotation_is_told_in_its_file(tmp_path: Path, keep: int) -> None:
    filled(tmp_path, 30, max_bytes=1 << 20)
    (tmp_path / "audit" / HEAD).unlink()
    tear(tmp_path / "audit" / CURRENT, keep)
    own = audit_in(tmp_path, max_bytes=1 << 12)  # so that the next record sets the file aside
    own.record("call_refused")
    own.record("call_refused")
    assert len(list((tmp_path / "audit").glob("audit-*.jsonl"))) >= 1
    found = verify(tmp_path / "audit")
    assert found.problem == "" and any("without its end" in note for note in found.notes)


def power_cut(
    folder: Path, left: int, keep: int, monkeypatch: pytest.MonkeyPatch, *, restarted: bool
) -> None:
    """Lose the last records from the file and not from the head, as a disk may; perhaps with a torn one."""
    path = folder / "audit" / CURRENT
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:left]) + whole[left][:keep])
    if restarted:
        monkeypatch.setattr(audit_files, "this_boot", lambda: "another")


@pytest.mark.threat(16)
@pytest.mark.parametrize("keep", [0, 50])
def test_a_head_that_a_power_cut_left_ahead_is_no_tampering(
    tmp_path: Path, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.jsonl"
    filled(tmp_path, 12, copy_to=[copy]).close()  # the tenth waited for the disk
    power_cut(tmp_path, 10, keep, monkeypatch, restarted=True)
    if not keep:
        assert verify(tmp_path / "audit").problem == ""
    own = audit_in(tmp_path, copy_to=[copy])
    own.record("command_started", needed=True)
    own.close()
    found = verify(tmp_path / "audit", [copy])
    assert found.problem == "", found
    assert any("records 11 to 12 are gone: the machine was restarted" in note for note in found.notes)
    assert any("record 11 is in the copy alone" in note for note in found.notes)
    assert [read(line).seq for line in lines(tmp_path)[-2:]] == [13, 14]


@pytest.mark.threat(16)
@pytest.mark.parametrize(("left", "restarted"), [(10, False), (9, True), (4, True)])
def test_what_no_power_cut_explains_is_still_found(
    tmp_path: Path, left: int, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 12)
    power_cut(tmp_path, left, 0, monkeypatch, restarted=restarted)
    assert f"{left + 1} to 12 are gone" in verify(tmp_path / "audit").problem
    audit_in(tmp_path).record("call_refused")
    assert f"{left + 1} to 12 are gone" in verify(tmp_path / "audit").problem


def test_a_record_cannot_explain_another_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, 12)
    power_cut(tmp_path, 10, 0, monkeypatch, restarted=True)
    audit_in(tmp_path).record("call_refused")
    whole = lines(tmp_path)
    rewrite(tmp_path, [*whole[:8], *whole[10:]])
    assert "9 to 12 are gone" in verify(tmp_path / "audit").problem


def only_to_be_added_to(path: Path) -> bool:
    return subprocess.run(["chattr", "+a", str(path)], capture_output=True, check=False).returncode == 0


@pytest.mark.threat(16)
@pytest.mark.parametrize("keep", [1, 60, 200])
@pytest.mark.parametrize("real", [True, False], ids=["chattr", "pretended"])
def test_a_copy_that_can_only_be_added_to_goes_on_after_a_torn_line(
    tmp_path: Path, keep: int, real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.jsonl"
    filled(tmp_path, 6, copy_to=[copy]).close()
    tear(copy, keep)
    if real and not only_to_be_added_to(copy):
        pytest.skip("chattr +a is not possible here")
    if not real:

        def refused(descriptor: int, size: int) -> None:
            if os.path.samestat(os.fstat(descriptor), copy.stat()):
                raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "ftruncate", refused)
    own: Any = audit_in(tmp_path, copy_to=[copy])
    try:
        for _ in range(2):
            own.record("command_started", needed=True)
        own.close()
        found = verify(tmp_path / "audit", [copy])
    finally:
        subprocess.run(["chattr", "-a", str(copy)], capture_output=True, check=False)
    assert found.problem == "" and ["without its end" in note for note in found.notes] == [True]
    assert kinds(tmp_path).count("sink_down") == 0
    edited = copy.read_bytes().replace(b"echo 3", b"echo 4")
    copy.write_bytes(edited)
    assert verify(tmp_path / "audit", [copy]).problem
