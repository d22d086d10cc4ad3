"""The unprivileged account on a real host: what it may change it changes, and everything else is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evals.loopback_sshd import free_port
from tests import account_host, nspawn_host
from tests.account_host import linked, said
from tests.nspawn_host import NoNspawn, SystemdHost
from tests.service_scenarios import answers, change, look, plan_of, until
from tools import account, account_clean, facts, grep, journal, lease, read_file, service, transaction
from tools.account_setup import Account, sudoers
from tools.artifacts import ArtifactStore
from tools.contract import Host, Result, ToolContext, ToolError, ToolSettings
from tools.process import ProcessFacts, load_process

pytestmark = [pytest.mark.systemd, pytest.mark.slow]

NAMES = ("kept", "flag", "death", "old", "other")
ALLOWED = [f"{name}.service" for name in NAMES if name != "other"]
PORTS = {name: free_port() for name in NAMES}
SETTINGS = ("--start-s", "COLOUR", "Nice", "LimitNOFILE")
LIMIT_S = 20.0
SVC = transaction.HELPER


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdHost]:
    units = {f"{name}.service": account_host.UNIT.format(name=name, port=PORTS[name]) for name in NAMES}
    try:
        with nspawn_host.booted(tmp_path_factory.mktemp("account"), units, account_host.files()) as up:
            wanted = account_host.account(up, ALLOWED, SETTINGS, [*PORTS.values()])
            done = asyncio.run(account_host.set_up(up, wanted))
            assert done.ok, said(done)
            assert "done: leadline may call /usr/local/sbin/leadline-svc and nothing else" in said(done)
            yield up
    except NoNspawn as problem:
        pytest.skip(f"no systemd host: {problem}")


@pytest.fixture
async def host(machine: SystemdHost) -> AsyncIterator[Host]:
    async with linked(machine) as link:
        for _ in range(100):
            if all([await answers(link, port) for port in PORTS.values()]):
                break
            await asyncio.sleep(0.2)
        yield link


@pytest.fixture
async def root(machine: SystemdHost) -> AsyncIterator[Host]:
    async with linked(machine, "root") as link:
        yield link


async def svc(host: Host, *words: str, stdin: bytes | None = None) -> Result:
    """Call the helper as the account does."""
    return await host.exec(["sudo", "-n", SVC, *words], stdin=stdin)


async def pid_of(host: Host, name: str) -> str:
    result = await host.exec(["systemctl", "show", "-p", "MainPID", "--value", f"{name}.service"])
    return result.stdout.data.decode().strip()


async def refused(host: Host, plan: service.ChangePlan) -> str:
    """Return why a plan is refused on the host."""
    with pytest.raises(ToolError) as caught:
        await service.apply(host, plan, plan.digest(), lambda line: None)
    with contextlib.suppress(ToolError):  # an account that may not begin holds no lease
        await lease.give_back(host, plan)
    return str(caught.value)


async def test_a_change_is_applied_kept_and_undone(host: Host, root: Host) -> None:
    assert (await host.exec(["id", "-un"])).stdout.data == b"leadline\n"
    assert not (await host.exec(["sudo", "-n", "true"])).ok
    before = await look(root, "kept.service")
    plan = await plan_of(host, change("kept.service", "--start-s", None, "0.3"), PORTS["kept"], LIMIT_S)
    assert plan.startup_s is not None  # its log is read through the helper
    applied = await service.apply(host, plan, plan.digest(), lambda line: None)
    assert applied.outcome == "applied", applied
    assert (await service.extend(host, plan, 30)).state == "applied"
    assert (await service.confirm(host, plan)).outcome == "confirmed"
    assert "--start-s 0.3" in await look(root, "kept.service")
    undo = await service.make_undo(host, plan, now=datetime.now(UTC), minimum_s=LIMIT_S)
    applied = await service.apply(host, undo, undo.digest(), lambda line: None)
    assert applied.outcome == "applied", applied
    assert (await service.confirm(host, undo)).outcome == "confirmed"
    assert re.sub(r"\s+drwx.*\.d\n", "", await look(root, "kept.service")) == before
    assert await answers(host, PORTS["kept"])


async def test_a_whole_drop_in_is_applied_kept_and_taken_back(host: Host, root: Host) -> None:
    before = await look(root, "old.service")
    wanted = "Nice=3; LimitNOFILE=4096"
    plan = await plan_of(host, change("old.service", "drop-in", None, wanted), PORTS["old"], LIMIT_S)
    assert plan.diff.splitlines()[3:] == ["+Nice=3", "+LimitNOFILE=4096"]
    applied = await service.apply(host, plan, plan.digest(), lambda line: None)
    assert applied.outcome == "applied", applied
    assert (await service.confirm(host, plan)).outcome == "confirmed"
    own = await pid_of(root, "old")
    inside = f"ps -o ni= -p {own}; awk '/open files/ {{ print $4 }}' /proc/{own}/limits"
    assert (await root.exec(["sh", "-c", inside])).stdout.data.split() == [b"3", b"4096"]
    assert (await service.holding(host, plan)).in_force
    undo = await service.make_undo(host, plan, now=datetime.now(UTC), minimum_s=LIMIT_S)
    assert undo.diff.splitlines()[3:] == ["-Nice=3", "-LimitNOFILE=4096"]
    applied = await service.apply(host, undo, undo.digest(), lambda line: None)
    assert applied.outcome == "applied", applied
    assert (await service.confirm(host, undo)).outcome == "confirmed"
    assert re.sub(r"\s+drwx.*\.d\n", "", await look(root, "old.service")) == before
    found = await service.holding(host, plan)
    assert not found.in_force and "not there any more" in found.reasons[0]
    plan = await plan_of(host, change("old.service", "drop-in", None, "TasksMax=99"), PORTS["old"], LIMIT_S)
    assert "'TasksMax' of this unit is not in /etc/leadline/allow.json" in await refused(host, plan)


async def test_a_change_that_root_began_is_roots_to_keep(host: Host, root: Host) -> None:
    before = await look(root, "old.service")
    plan = await plan_of(root, change("old.service", "--start-s", None, "0.3"), PORTS["old"], 60.0)
    assert (await service.apply(root, plan, plan.digest(), lambda line: None)).outcome == "applied"
    try:
        for words in (["confirm"], ["extend", "100"], ["order"], ["withdraw"], ["release"], ["forget"]):
            found = await svc(host, words[0], plan.id, *words[1:])
            assert (found.exit_code, "begun by root itself" in said(found)) == (3, True), words
        assert b"state=applied" in (await svc(host, "status", plan.id)).stdout.data
    finally:
        assert (await service.roll_back(root, plan)).outcome == "rolled_back"
    assert await look(root, "old.service") == before


async def test_a_unit_that_root_alone_may_read_is_not_shown(host: Host, root: Host) -> None:
    folder = "/etc/systemd/system/old.service.d"
    make = f"umask 077; mkdir {folder}; echo '[Service]\nEnvironment=X=topsecret' >{folder}/1.conf"
    assert (await root.exec(["sh", "-c", f"{make}; systemctl daemon-reload"])).ok
    try:
        found = await svc(host, "cat-unit", "old.service")
        assert found.exit_code == 3 and "1.conf may be read by root alone" in said(found)
        assert "topsecret" not in said(found)
    finally:
        assert (await root.exec(["sh", "-c", f"rm -r {folder}; systemctl daemon-reload"])).ok


async def test_a_variable_is_taken_back_by_the_timer_or_on_request(host: Host, root: Host) -> None:
    before = await look(root, "death.service")
    for asked in (True, False):
        asked_for = change("death.service", "COLOUR", "red", f'"a" 5% $x {asked}')
        plan = await plan_of(
            host, asked_for, PORTS["death"], 90.0 if asked else LIMIT_S
        )  # a busy machine is slow to ask
        assert (await service.apply(host, plan, plan.digest(), lambda line: None)).outcome == "applied"
        if asked:
            assert (await service.roll_back(host, plan)).outcome == "rolled_back"
        else:
            assert (await service.extend(host, plan, 1)).state == "applied"
        found = await until(host, plan, "rolled_back")
        assert found.rolled_back_by == ("request" if asked else "timer")
        assert await look(root, "death.service") == before


async def test_what_the_allow_file_does_not_name_is_refused(host: Host, root: Host) -> None:
    before = await look(root, "other.service"), await look(root, "flag.service")
    plan = await plan_of(host, change("other.service", "--start-s", None, "0.3"), PORTS["other"], LIMIT_S)
    assert await refused(host, plan) == "other.service is not in /etc/leadline/allow.json"
    plan = await plan_of(host, change("flag.service", "--crash-after", None, "9"), PORTS["flag"], LIMIT_S)
    assert "'--crash-after' of this unit is not in /etc/leadline/allow.json" in await refused(host, plan)
    assert (await look(root, "other.service"), await look(root, "flag.service")) == before


@pytest.mark.threat(6)
async def test_a_plan_that_does_not_follow_from_the_host_is_refused(
    host: Host, root: Host, record_property: Callable[[str, object], None]
) -> None:
    before = await look(root, "flag.service")
    plan = await plan_of(host, change("flag.service", "--start-s", None, "0.3"), PORTS["flag"], LIMIT_S)
    argv, other = plan.exec_start_before, f"/etc/systemd/system/flag.service.d/91-{plan.id}.conf"
    text = plan.dropin_text
    changes: list[dict[str, object]] = [
        {"dropin_text": text.replace("0.3", "0.4")},
        {"dropin_text": text + "User=root\n"},
        {"dropin_text": text.replace("ExecStart=/", "ExecStart=+/")},
        {"dropin_path": other},
        {"dropin_path": "/etc/cron.d/x"},
        {"exec_start_before": ["/bin/sh", *argv], "exec_start_after": ["/bin/sh", *argv, "--start-s", "0.3"]},
        {"exec_start_after": [*argv, "--start-s", "0.3", "--refuse"]},
        {"setting": "--refuse", "to_value": "true", "exec_start_after": [*argv, "--refuse"]},
        {"to_value": "0.3\nExecStartPre=/bin/id", "exec_start_after": [*argv, "--start-s", "0.3\nx"]},
        {"unit": "ssh.service"},
        {"unit": "../flag.service"},
        {"preimage_sha256": "0" * 64},
        {"restarts_needed": 0},
        {"port": 0},
        {"rollback_after_s": 1e9},
        {"expires_at": plan.expires_at.replace(year=plan.expires_at.year + 1)},
    ]
    for changed in changes:
        why = await refused(host, plan.model_copy(update=changed))
        assert why, changed
    result = await transaction.call(root, "status", plan.id)
    assert b"state=none" in result.stdout.data
    assert await look(root, "flag.service") == before
    record_property("cases", len(changes))


async def test_sudo_and_the_helper_refuse_every_other_call(
    host: Host, root: Host, record_property: Callable[[str, object], None]
) -> None:
    own = await pid_of(host, "flag")
    calls: list[Sequence[str]] = [
        *([], ["shell"], ["status", "../x"], ["status", "a b"], ["status", "a;id"], ["exe", "1;id"]),
        *(
            ["exe", "../1"],
            ["exe", "-1"],
            ["exe", f"{own}/../1"],
            ["cmdline", "self"],
            ["environ", own, "HOME"],
        ),
        *(
            ["journal", "ssh.service", "", "", "", ""],
            ["journal", "flag.service", "--vacuum-size=1", "", "", ""],
        ),
        *(["journal", "flag.service", "1", "", "", "", "-D/x"], ["cat-unit", "other.service"]),
        *(["cat-unit", "flag.service", "/etc/shadow"], ["extend", "x", "1e9"], ["extend", "x", "99999"]),
        *(["begin", "x", "y"], ["begin", "x"], ["--help"], ["version", "version"], ["status", "x\ny"]),
        *(["version\nstatus"], ["exe", "1"], ["environ", "1"], ["cmdline", "1"], ["stdout", own, "x"]),
    ]
    for words in calls:
        result = await svc(host, *words, stdin=b"version\n" if words else b"shell\tid\n")
        assert not result.ok, (words, said(result))
        assert "uid=" not in said(result)
    for words in (
        ["id"],
        ["sh", "-c", "id"],
        [f"{SVC}x"],
        ["-u", "nobody", SVC, "version"],
        ["-s"],
        ["-e", "/etc/x"],
    ):
        assert not (await host.exec(["sudo", "-n", *words])).ok, words
    for name in ("PYTHONPATH=/tmp", "PYTHONSTARTUP=/tmp/x", "LD_PRELOAD=/tmp/x", "PATH=/tmp"):
        result = await host.exec(["sudo", "-n", name, SVC, "version"])
        assert not result.ok, name
    record_property("cases", len(calls) + 10)


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


async def test_a_helper_of_another_version_begins_nothing(host: Host, root: Host) -> None:
    plan = await plan_of(host, change("flag.service", "--start-s", None, "0.3"), PORTS["flag"], LIMIT_S)
    library = "/usr/local/lib/leadline/transaction.sh"
    assert (await root.exec(["sh", "-c", f"cp -p {library} /root/kept; echo '# older' >>{library}"])).ok
    try:
        assert "is another version here; install ours: leadline host setup" in await refused(host, plan)
        assert (await service.status(host, plan.id)).state == "none"
        found = await account.check(host)
        assert found.helper == "another version"
        [problem] = found.problems
        assert (
            library in problem.what and "changes are refused" in problem.what and "host setup" in problem.do
        )
        assert (await root.exec(["chmod", "o+w", library])).ok
        assert "can be written by others than root" in said(await svc(host, "version"))
    finally:
        assert (await root.exec(["mv", "/root/kept", library])).ok


async def test_a_spoiled_allow_file_allows_nothing(host: Host, root: Host) -> None:
    spoils = {
        'echo "{" >$f': "cannot be read as JSON",
        "chmod o+w $f": "can be written by others",
        "chown leadline $f": "can be written by others",
        "rm $f; ln -s /tmp/x $f": "is missing or leads elsewhere",
        "rm $f": "cannot be read: No such file",
        """echo '{"units": {"*.service": {}}}' >$f""": "no patterns",
    }
    plan = await plan_of(host, change("flag.service", "--start-s", None, "0.3"), PORTS["flag"], LIMIT_S)
    for spoil, why in spoils.items():
        script = f"f=/etc/leadline/allow.json; cp -p $f /root/allow; {spoil}"
        assert (await root.exec(["sh", "-c", script])).ok
        try:
            assert why in await refused(host, plan), spoil
            assert not (await svc(host, "environ", await pid_of(host, "flag"))).ok
        finally:
            assert (await root.exec(["mv", "-fT", "/root/allow", "/etc/leadline/allow.json"])).ok


async def test_a_sudo_that_cannot_check_arguments(host: Host, root: Host) -> None:
    fallback = sudoers(Account("x"), patterns=False)
    script = "f=/etc/sudoers.d/leadline; cp -p $f /root/sudoers; cat >$f; visudo -cqf $f"
    assert (await root.exec(["sh", "-c", script], stdin=fallback.encode())).ok
    before = await look(root, "old.service")
    try:
        assert not (await svc(host, "version")).ok
        plan = await plan_of(host, change("old.service", "--start-s", None, "0.3"), PORTS["old"], LIMIT_S)
        assert (await service.apply(host, plan, plan.digest(), lambda line: None)).outcome == "applied"
        assert (await service.extend(host, plan, 20)).state == "applied"
        assert (await service.roll_back(host, plan)).outcome == "rolled_back"
        assert await look(root, "old.service") == before
        found = await account.check(host)
        assert found.helper == "ours" and not found.problems
        assert any("sudo does not check" in one.what for one in found.findings)
        for line in ("shell\tid", "status\t../x", "status\tx\ty", "version\tx", "", "\t", "exe\t1\n2"):
            assert not (await svc(host, stdin=f"{line}\n".encode())).ok, line
    finally:
        assert (await root.exec(["mv", "-f", "/root/sudoers", "/etc/sudoers.d/leadline"])).ok


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
    assert (
        f"of {own} " not in denied and f"environment of {other} " in denied and f"exe of {other} " in denied
    )
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
