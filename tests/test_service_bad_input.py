"""Units as they are found on real hosts: each is planned for, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tools import launch_edit, service, transaction, unit_text
from tools.contract import Capture, Host, Result, ToolError
from tools.service import ChangePlan, ChangeRequest
from tools.service_standing import holding
from tools.service_undo import make_undo

NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
LINE = "/usr/bin/python3 -m sglang.launch_server --port 30000 --disable-cuda-graph"
ARGV = LINE.split()
PATH = "/etc/systemd/system/e.service"
SHOWN: Mapping[str, str] = {
    "Id": "e.service",
    "LoadState": "loaded",
    "ActiveState": "active",
    "MainPID": "42",
    "Type": "simple",
    "NeedDaemonReload": "no",
    "FragmentPath": PATH,
}


class ReadHost:
    """Answer what `service_read.sh` would print."""

    def __init__(
        self, cat: str, *, argv: Sequence[str] = ARGV, show: Mapping[str, str] = {}, **sections: str
    ) -> None:
        self.name = "gpu-1"
        self.key_fingerprint: str | None = "SHA256:abc"
        self.sections: dict[str, str] = {
            "systemd": "yes",
            "clock": str(int(NOW.timestamp())),
            "show": "\n".join(f"{name}={value}" for name, value in {**SHOWN, **show}.items()),
            "cat": cat,
            "sha": "0" * 64,
            "cmdline": "\n".join(argv),
            "processes": "",
            "envfiles": "",
            "metrics": "",
            "journal": "",
            "containers": "",
            **sections,
            "end": "",
        }

    async def exec(self, argv: Sequence[str], **_: Any) -> Result:
        mark = argv[6]
        sections = [f"\n{mark} {name}\n{text}" + "\n" * bool(text) for name, text in self.sections.items()]
        out = "".join(sections).encode()
        kept = Capture(out, b"", len(out))
        return Result(self.name, tuple(argv), "exited", 0, None, kept, Capture(), False, NOW, 0.1)

    async def forward(self, port: int) -> int:
        raise AssertionError

    async def close(self) -> None:
        """Do nothing."""


def unit(text: str = f"ExecStart={LINE}\n", *dropins: tuple[str, str], path: str = PATH) -> str:
    """Return what `systemctl cat` prints of a unit and its drop-ins."""
    out = f"# {path}\n[Unit]\nDescription=E\n\n[Service]\n{text}"
    return out + "".join(f"\n# {where}\n[Service]\n{body}" for where, body in dropins)


async def plan(
    host: Host,
    name: str = "e.service",
    setting: str = "--disable-cuda-graph",
    old: str | None = "true",
    new: str | None = None,
) -> ChangePlan:
    request = ChangeRequest(unit=name, setting=setting, from_value=old, to_value=new)
    return await service.make_plan(host, request, port=30000, now=NOW)


NEWER = "/etc/systemd/system/e.service.d/90-leadline-29991231t000000-abcdef.conf"
SITE = "/etc/systemd/system/e.service.d/10-site.conf"
REFUSED: list[tuple[str, ReadHost, str]] = [
    ("no systemd", ReadHost(unit(), systemd=""), "does not run systemd"),
    ("not there", ReadHost("", show={"LoadState": "not-found"}), "there is no unit"),
    ("masked", ReadHost("", show={"LoadState": "masked"}), "is masked"),
    (
        "broken",
        ReadHost(unit(), show={"LoadState": "bad-setting", "LoadError": "x"}),
        "cannot load e.service",
    ),
    (
        "alias",
        ReadHost(unit(), show={"Id": "engine.service"}),
        "another name of engine.service; name that one",
    ),
    (
        "transient",
        ReadHost(unit(), show={"Transient": "yes", "FragmentPath": "/run/systemd/transient/e.service"}),
        "started by systemd-run",
    ),
    (
        "generated",
        ReadHost(
            unit(),
            show={"FragmentPath": "/run/systemd/generator.late/e.service", "SourcePath": "/etc/init.d/e"},
        ),
        "generator from /etc/init.d/e",
    ),
    ("oneshot", ReadHost(unit(), show={"Type": "oneshot"}), "Type=oneshot"),
    ("not reloaded", ReadHost(unit(), show={"NeedDaemonReload": "yes"}), "edited and not reloaded"),
    ("down", ReadHost(unit(), show={"ActiveState": "failed", "MainPID": "0"}), r"does not run \(failed\)"),
    (
        "several ExecStart",
        ReadHost(unit(f"ExecStart={LINE}\nExecStart=/bin/true\n")),
        "has 2 ExecStart= lines",
    ),
    ("no ExecStart", ReadHost(unit("ExecStop=/bin/true\n")), "has 0 ExecStart= lines"),
    ("variable", ReadHost(unit(f"ExecStart={LINE} $EXTRA\n")), "holds a variable"),
    ("braced variable", ReadHost(unit(f"ExecStart={LINE} --x=${{EXTRA}}\n")), "holds a variable"),
    ("%i", ReadHost(unit(f"ExecStart={LINE} --name %i\n")), "holds a specifier"),
    ("%h", ReadHost(unit(f"ExecStart={LINE} --path %h/m\n")), "holds a specifier"),
    ("sh -c", ReadHost(unit(f"ExecStart=/bin/sh -c 'exec {LINE}'\n")), "a wrapper"),
    ("bash -lc", ReadHost(unit(f'ExecStart=/usr/bin/bash -lc "{LINE}"\n')), "a wrapper"),
    ("script", ReadHost(unit("ExecStart=/opt/run.sh\n")), "a wrapper"),
    ("script without .sh", ReadHost(unit("ExecStart=/opt/run\n")), "does not run what ExecStart= says"),
    (
        "shell that waits",
        ReadHost(unit("ExecStart=/opt/run --x\n"), argv=["/bin/sh", "/opt/run", "--x"]),
        "is a shell",
    ),
    ("@", ReadHost(unit(f"ExecStart=@{LINE}\n")), "begins with '@'"),
    (":", ReadHost(unit(f"ExecStart=:{LINE}\n")), "begins with ':'"),
    ("two commands", ReadHost(unit(f"ExecStart={LINE} ; /bin/true\n")), "no single command"),
    ("not its process", ReadHost(unit(), argv=["python3", "other.py"]), "does not run what ExecStart= says"),
    ("not readable", ReadHost(unit(), argv=[]), "may not be read by this account"),
    (
        "flag twice",
        ReadHost(unit(f"ExecStart={LINE} --disable-cuda-graph\n"), argv=[*ARGV, ARGV[-1]]),
        "stands 2 times",
    ),
    (
        "later drop-in",
        ReadHost(unit(f"ExecStart={LINE}\n", (SITE.replace("10", "99"), f"ExecStart=\nExecStart={LINE}\n"))),
        r"99-site\.conf sorts after",
    ),
    (
        "a secret in it",
        ReadHost(unit(f"ExecStart={LINE} --api-key hunter2\n"), argv=[*ARGV, "--api-key", "hunter2"]),
        "holds a secret",
    ),
]


@pytest.mark.parametrize(("host", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_a_unit_that_cannot_be_changed_safely_is_refused(host: ReadHost, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        await plan(host)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("--help.service", "not the full name"),
        ("-H.service", "not the full name"),
        ("a/b.service", "not the full name"),
        ("../x.service", "not the full name"),
        ("e.socket", "not the full name"),
        ("e", "not the full name"),
        ("e.service\n", "not the full name"),
        ("e .service", "not the full name"),
        ("foo@.service", "is a template"),
    ],
)
async def test_a_name_that_is_no_unit_reaches_no_host(name: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        await plan(ReadHost(unit()), name)


HANDLED: list[tuple[str, ReadHost, str]] = [
    ("plain", ReadHost(unit()), LINE),
    (
        "continued with a comment",
        ReadHost(unit(f"ExecStart={' '.join(ARGV[:3])} \\\n# why\n  {' '.join(ARGV[3:])}\n")),
        LINE,
    ),
    ("quoted", ReadHost(unit("ExecStart=" + LINE.replace("30000", '"30000"') + "\n")), LINE),
    ("escaped", ReadHost(unit("ExecStart=" + LINE.replace("30000", "3\\x30000") + "\n")), LINE),
    ("minus", ReadHost(unit(f"ExecStart=-{LINE}\n")), f"-{LINE}"),
    ("plus", ReadHost(unit(f"ExecStart=+{LINE}\n")), f"+{LINE}"),
    ("exclamation marks", ReadHost(unit(f"ExecStart=!!{LINE}\n")), f"!!{LINE}"),
    ("set in a drop-in", ReadHost(unit("ExecStart=/old\n", (SITE, f"ExecStart=\nExecStart={LINE}\n"))), LINE),
    ("with ExecStartPre", ReadHost(unit(f"ExecStartPre=/bin/mkdir -p /run/e\nExecStart={LINE}\n")), LINE),
    ("started by an interpreter", ReadHost(unit(), argv=["/usr/bin/python3.11", *ARGV[1:]]), LINE),
    ("an escaped name", ReadHost(unit(), show={"Id": "a\\x2db.service"}), LINE),
    ("an instance", ReadHost(unit(path="/etc/systemd/system/e@.service"), show={"Id": "e@1.service"}), LINE),
]


@pytest.mark.parametrize(("host", "line"), [row[1:] for row in HANDLED], ids=[row[0] for row in HANDLED])
async def test_a_unit_that_can_be_changed_is(host: ReadHost, line: str) -> None:
    name = next(row for row in host.sections["show"].splitlines() if row.startswith("Id="))[3:]
    found = await plan(host, name)
    assert found.exec_start_after == ARGV[:-1]
    assert found.dropin_path == f"/etc/systemd/system/{name}.d/90-leadline-{found.id}.conf"
    assert found.dropin_text == f"[Service]\nExecStart=\nExecStart={line.rpartition(' ')[0]}\n"
    # Read back as systemd would, over what was there: the flag is gone, and nothing else.
    whole = host.sections["cat"] + f"\n# {found.dropin_path}\n{found.dropin_text}"
    assert launch_edit.read(unit_text.parse(whole).all("Service.ExecStart")).argv == ARGV[:-1]
    pre = "ExecStartPre=" in host.sections["cat"]
    assert pre == any(row.startswith("ExecStartPre= runs again") for row in found.blast_radius)


@pytest.mark.parametrize(
    ("text", "envfiles", "setting", "old", "why"),
    [
        ("", "", "A", "1", "A is not set in"),
        ("Environment=A=2\n", "", "A", "1", "A is 2 in"),
        ("Environment=A=1\n", "A /etc/default/e", "A", "1", "A is set by EnvironmentFile=/etc/default/e"),
        ("Environment=A=1\n", "? /etc/secret", "A", "1", "may be set by EnvironmentFile=/etc/secret"),
        (
            "Environment=A=1\n",
            "? /etc/%i.env",
            "A",
            "1",
            r"EnvironmentFile=/etc/%i\.env, which cannot be read",
        ),
    ],
)
async def test_a_variable_that_a_drop_in_does_not_decide_is_refused(
    text: str, envfiles: str, setting: str, old: str, why: str
) -> None:
    host = ReadHost(unit(f"ExecStart={LINE}\n{text}"), envfiles=envfiles)
    with pytest.raises(ToolError, match=why):
        await plan(host, setting=setting, old=old, new="3")


async def test_a_variable_beside_a_file_that_does_not_set_it_is_set() -> None:
    host = ReadHost(
        unit(f'ExecStart={LINE}\nEnvironment="A=1 %% \\"x\\"" B=2\n'), envfiles="B /etc/default/e"
    )
    found = await plan(host, setting="A", old='1 % "x"', new="50% $HOME")
    assert found.dropin_text == '[Service]\nEnvironment="A=50%% $HOME"\n'
    unset = ReadHost(unit(f"ExecStart={LINE}\nEnvironment=A=1\n"), show={"UnsetEnvironment": "A"})
    with pytest.raises(ToolError, match="unsets A"):
        await plan(unset, setting="A", old="1", new="2")


@pytest.mark.parametrize("hours", [-30, -5, 5, 1000])
async def test_a_clock_that_is_off_by_hours_neither_expires_nor_extends_a_plan(hours: int) -> None:
    theirs = NOW + timedelta(hours=hours)
    host = ReadHost(unit(), clock=str(int(theirs.timestamp())))
    found = await plan(host)
    assert found.clock_skew_s == hours * 3600
    assert any("the host's clock is" in row and f"{abs(hours) * 3600} s" in row for row in found.blast_radius)
    sent = transaction.program(found).decode()
    expires = int(next(row for row in sent.splitlines() if row.startswith("expires=")).partition("=")[2])
    assert expires - theirs.timestamp() == pytest.approx(1800)
    right = await plan(ReadHost(unit(), clock=str(int(NOW.timestamp()) + 3)))
    assert right.clock_skew_s == 0.0 and b"clock_skew_s" not in right.canonical()


def test_nothing_on_the_host_waits_by_a_clock_that_can_be_set() -> None:
    lines = [line for line in transaction.body().splitlines() if "date +%s" in line]
    # The expiry, and the hour that people are told; every limit counts by /proc/uptime.
    assert len(lines) == 2 and "rollback_at" in lines[0] and "expires" in lines[1]


async def kept(host: ReadHost, edit: Callable[[str], str] = lambda text: text, **more: Any) -> ChangePlan:
    """Return a plan that was kept on the host, whose unit then reads so."""
    found = (await plan(host)).model_copy(update=more)
    host.sections["cat"] += f"\n# {found.dropin_path}\n{found.dropin_text}"
    host.sections["cmdline"] = "\n".join(found.exec_start_after)
    host.sections["dropin"] = edit(found.dropin_text) + "."
    return found


async def test_the_undo_of_a_kept_change_is_planned_from_the_host_as_it_is() -> None:
    host = ReadHost(unit())
    found = await make_undo(host, was := await kept(host), now=NOW)
    assert (found.undoes, found.dropin_path, found.dropin_text) == (was.id, was.dropin_path, was.dropin_text)
    assert found.exec_start_after == ARGV and found.to_value == "true" and found.from_value is None
    assert "+--disable-cuda-graph" in found.diff and f"without {was.dropin_path}" in found.diff
    assert found.id != was.id and found.expires_at > NOW
    # Edited below since: the undo shows what will really run.
    host.sections["cat"] = host.sections["cat"].replace(LINE, f"{LINE} --new 1")
    assert (await make_undo(host, was, now=NOW)).exec_start_after == [*ARGV, "--new", "1"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda h: h.sections.update(dropin=""), "is not there any more"),
        (lambda h: h.sections.update(dropin="[Service]\n."), "was edited since"),
        (lambda h: h.sections.update(show="LoadState=not-found"), "there is no unit"),
        (lambda h: setattr(h, "key_fingerprint", "SHA256:x"), "another host key"),
        (lambda h: h.sections.update(cmdline="python3\nother.py"), "does not run what ExecStart= says"),
        (
            lambda h: h.sections.update(
                cat="\n".join(
                    [
                        h.sections["cat"],
                        f"# {NEWER}",
                        "[Service]",
                        "ExecStart=",
                        f"ExecStart={' '.join(ARGV[:-1])}",
                        "",
                    ]
                )
            ),
            "a newer change, 29991231t000000-abcdef, stands above",
        ),
    ],
)
async def test_an_undo_that_is_not_what_it_was_is_refused(
    change: Callable[[ReadHost], None], why: str
) -> None:
    host = ReadHost(unit())
    was = await kept(host)
    change(host)
    with pytest.raises(ToolError, match=why):
        await make_undo(host, was, now=NOW)


async def test_a_newer_change_of_something_else_is_no_hindrance() -> None:
    host = ReadHost(unit())
    was = await kept(host)
    host.sections["cat"] += f"\n# {NEWER}\n[Service]\nEnvironment=A=1\n"
    assert (await make_undo(host, was, now=NOW)).exec_start_after == ARGV


async def test_a_variable_that_was_kept_is_looked_for_in_unit_and_process() -> None:
    host = ReadHost(unit(f"ExecStart={LINE}\nEnvironment=A=1\n"))
    was = await plan(host, setting="A", old="1", new="2")
    host.sections["cat"] += f"\n# {was.dropin_path}\n{was.dropin_text}"
    host.sections |= {"dropin": was.dropin_text + ".", "environ": "A=2\nB=3"}
    assert (await holding(host, was)).in_force
    undo = await make_undo(host, was, now=NOW)
    assert undo.environment is not None and (undo.environment.before, undo.environment.after) == ("2", "1")
    host.sections["environ"] = "A=1"
    assert "A is 1 in the process that runs, not 2" in (await holding(host, was)).reasons[0]
    host.sections |= {"environ": "A=2", "envfiles": "A /etc/default/e"}
    assert "EnvironmentFile=/etc/default/e" in (await holding(host, was)).reasons[0]
    host.sections |= {"environ": "", "envfiles": ""}
    told = await holding(host, was)
    assert told.in_force and "may not be read" in told.notes[0]
