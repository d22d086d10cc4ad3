"""What the unprivileged account reads on a real host, what its check tells, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.account_host import ALLOWED, LIMIT_S, PORTS, host, linked, machine, pid_of, refused, root, svc
from tests.nspawn_host import SystemdHost
from tests.service_scenarios import change, plan_of
from tools import account, account_clean, facts, grep, journal, read_file
from tools.artifacts import ArtifactStore
from tools.contract import Host, ToolContext, ToolError, ToolSettings
from tools.process import ProcessFacts, load_process

__all__ = ["host", "machine", "root"]

pytestmark = [pytest.mark.systemd, pytest.mark.slow]


async def test_fixed_reads_of_allowed_units_alone(host: Host) -> None:
    own, other = await pid_of(host, "flag"), await pid_of(host, "other")
    exe = await host.exec(["readlink", f"/proc/{own}/exe"])
    assert not exe.ok, "another user's exe should not be readable by itself"
    assert (await svc(host, "exe", own)).stdout.data.startswith(b"/usr/bin/python3")
    assert (await svc(host, "cwd", own)).stdout.data == b"/\n"
    shown = (await svc(host, "environ", own)).stdout.data.split(b"\0")
    assert b"NCCL_DEBUG=INFO" in shown and b"HF_TOKEN=[value not read]" in shown
    assert not any(pair.startswith((b"COLOUR", b"INVOCATION_ID")) for pair in shown)
    denied = await svc(host, "environ", other)
    why = f"refused: process {other} is of no allowed unit\n".encode()
    assert (denied.exit_code, denied.stdout.data) == (3, why)
    log = await svc(host, "journal", "flag.service", "5", "-1h", "", "boot")
    assert b"Application startup complete" in log.stdout.data
    assert b"ExecStart=" in (await svc(host, "cat-unit", "flag.service")).stdout.data
    allowed = json.loads((await svc(host, "allowed")).stdout.data)
    assert sorted(allowed) == sorted(ALLOWED) and allowed["flag.service"]["flags"] == {
        "--start-s": "[A-Za-z0-9_.,:-]+"
    }


async def test_the_check_says_what_is_in_place_and_what_is_too_much(
    machine: SystemdHost, host: Host, root: Host
) -> None:
    found = await account.check(host)
    assert (found.kind, found.helper, found.user) == ("helper", "ours", "leadline")
    assert found.problems == [], found.problems
    assert any("flag.service: may change --start-s, COLOUR" in one.what for one in found.findings)
    assert (await account.check(root)).kind == "root"
    spoil = "chgrp leadline /etc/shadow; chmod g+r /etc/shadow; chmod o+w /opt/sglang/launch_server.py; "
    spoil += "groupadd -f docker; gpasswd -a leadline docker; "
    spoil += "mkdir -p /home/x/.ssh; touch /home/x/.ssh/id_rsa; useradd -d /home/x x"
    assert (await root.exec(["sh", "-c", spoil])).ok
    try:
        async with linked(machine) as again:  # groups are those of the login
            found = await account.check(again)
        whats = "\n".join(one.what for one in found.problems)
        assert "may read /etc/shadow" in whats and "may write /opt/sglang/launch_server.py" in whats
        assert "is in group docker" in whats and "may read /home/x/.ssh/id_rsa" in whats
    finally:
        mend = (
            "chgrp shadow /etc/shadow; chmod o-w /opt/sglang/launch_server.py; gpasswd -d leadline docker; "
        )
        mend += "rm -r /home/x"
        assert (await root.exec(["sh", "-c", mend])).ok


async def test_what_was_left_is_named_and_removed(host: Host, root: Host) -> None:
    folder = "/etc/systemd/system/other.service.d"
    make = f"""
    mkdir -p {folder} /run/leadline/20260101t000000-aaaaaa /run/leadline/20260101t000000-bbbbbb
    printf '[Service]\\nEnvironment=A=1\\n' >{folder}/90-leadline-20260101t000000-cccccc.conf
    echo x >{folder}/90-leadline-20260101t000000-dddddd.conf.tmp
    echo rolled_back >/run/leadline/20260101t000000-aaaaaa/state
    echo armed >/run/leadline/20260101t000000-bbbbbb/state
    systemd-run --quiet --on-active=3000 --unit=leadline-rollback-20260101t000000-aaaaaa-1 true
    """
    assert (await root.exec(["sh", "-c", make])).ok
    sent = "d=${XDG_RUNTIME_DIR:-/tmp}/leadline-$(id -u); mkdir -m 700 $d; echo >$d/rg-0"
    assert (await host.exec(["sh", "-c", sent])).ok
    listed = {(one.kind, one.state, one.name.split("/")[-1]) for one in await account_clean.left_on(host)}
    assert ("rg", "over", "rg-0") in listed
    assert ("state", "over", "20260101t000000-aaaaaa") in listed
    assert ("state", "open", "20260101t000000-bbbbbb") in listed
    assert ("drop-in", "kept", "90-leadline-20260101t000000-cccccc.conf") in listed
    found = await account_clean.left_on(host)
    left = await account_clean.remove(host, found)
    assert not any(one.kind == "rg" for one in left)
    assert not any(one.name.endswith("aaaaaa") and one.kind == "state" for one in left)
    assert any(one.name.endswith("cccccc.conf") for one in left)
    as_root = await account_clean.remove(root, await account_clean.left_on(root))
    names = {(one.kind, one.state) for one in as_root if "20260101t000000" in one.name}
    assert names == {("state", "open"), ("drop-in", "kept")}, as_root
    timers = "systemctl list-timers --all --no-legend 'leadline-rollback-20260101*'"
    gone = await root.exec(["sh", "-c", f"ls {folder}; {timers}"])
    assert gone.stdout.data == b"90-leadline-20260101t000000-cccccc.conf\n"
    assert (await root.exec(["rm", "-r", folder, "/run/leadline/20260101t000000-bbbbbb"])).ok


def context(host: Host, folder: Path) -> ToolContext:
    """Return what a tool is called with."""
    return ToolContext(
        call_id="t1",
        hosts={host.name: host},
        store=ArtifactStore(folder / "store"),
        redact=lambda data: data,
        settings=ToolSettings(),
    )


async def read(host: Host, folder: Path, pid: str, unit: str) -> tuple[ProcessFacts, dict[str, Any], str]:
    """Return a process, the log of its unit, and what the facts call not permitted."""
    ctx = context(host, folder)
    process = await load_process(ctx, host, int(pid))
    log = await journal.run(ctx, journal.Args(host=host.name, unit=unit, last=20))
    view = await facts.run(ctx, facts.Args(host=host.name))
    return process, log, "\n".join(view["not_permitted"])


async def test_tools_read_through_the_helper(host: Host, tmp_path: Path) -> None:
    own, other = await pid_of(host, "flag"), await pid_of(host, "other")
    process, log, denied = await read(host, tmp_path, own, "flag.service")
    assert (process.cwd, process.environ["NCCL_DEBUG"], process.not_permitted) == ("/", "INFO", ())
    assert "hf_abcdefgh" not in str(process)
    assert log["lines"] > 0 and not log["not_permitted"]
    assert f"of {own} " not in denied, denied
    assert f"environment of {other} " in denied and f"exe of {other} " in denied, denied
    process, log, _ = await read(host, tmp_path, other, "other.service")
    assert set(process.not_permitted) == {f"{name} of process {other}" for name in ("exe", "cwd", "environ")}
    assert log["not_permitted"] and not log["complete"]


async def test_a_plain_account_is_told_what_is_not_permitted(
    machine: SystemdHost, root: Host, tmp_path: Path
) -> None:
    script = "useradd -m -p '*' plain; cd /etc/leadline-test; chmod 755 .; chmod 644 authorized_keys"
    script += "; echo x >/root/f; install -m 600 /dev/null /etc/systemd/system/hidden.service"
    assert (await root.exec(["sh", "-c", script])).ok
    async with linked(machine, "plain") as plain:
        own = await pid_of(plain, "flag")
        process, log, denied = await read(plain, tmp_path, own, "flag.service")
        assert set(process.not_permitted) == {
            f"{name} of process {own}" for name in ("exe", "cwd", "environ")
        }
        assert log["not_permitted"] and not log["complete"]
        assert "this account may not read all of it" in log["why_incomplete"]
        for name in ("exe", "cwd", "environment"):
            assert f"{name} of {own} " in denied
        for path in ("/etc/sudoers", "/root/f", "/etc/systemd/system/hidden.service", "/root/none/deeper"):
            with pytest.raises(ToolError, match="not permitted"):
                await read_file.run(context(plain, tmp_path), read_file.Args(host=plain.name, path=path))
        for path in ("/root/f", "/root/none/deeper", "/root"):
            with pytest.raises(ToolError, match="may not be read by this account"):
                await grep.run(context(plain, tmp_path), grep.Args(host=plain.name, path=path, pattern="x"))
        found = await account.check(plain)
        assert (found.kind, found.helper, found.problems) == ("plain", "unusable", [])
        assert any("may not run it" in one.what for one in found.findings)
        plan = await plan_of(plain, change("flag.service", "--start-s", None, "0.3"), PORTS["flag"], LIMIT_S)
        assert "see leadline host check" in await refused(plain, plan)
