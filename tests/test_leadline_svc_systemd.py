"""The unprivileged account on a real host: what it may change it changes, and everything else is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from tests.account_host import LIMIT_S, PORTS, SVC, host, machine, pid_of, refused, root, said, svc
from tests.service_scenarios import answers, change, look, plan_of, until
from tools import account, service, transaction
from tools.account_setup import Account, sudoers
from tools.contract import Host

__all__ = ["host", "machine", "root"]

pytestmark = [pytest.mark.systemd, pytest.mark.slow]


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
