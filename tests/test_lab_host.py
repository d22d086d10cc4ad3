"""A lab host seen from outside: real SSH, real shells, services, and an end that leaves nothing."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest
from typer.testing import CliRunner

from agent.config import Settings
from agent.errors import UsageError
from evals.lab import hosts, sandbox
from evals.lab.commands import app
from evals.lab.hosts import Lab, LabGone
from evals.lab.scenario import load
from tests.lab_fixtures import lab_settings, need_sandbox, processes_inside, running, said, ssh, tiny
from tools import host as host_port

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return lab_settings(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def lab(settings: Settings) -> Iterator[Lab]:
    with running(tiny(), settings) as host:
        yield host


async def connect(lab: Lab) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(
        "127.0.0.1",
        lab.port,
        username="lab",
        client_keys=[str(lab.key_path)],
        known_hosts=str(lab.known_hosts),
        config=None,
        encoding=None,
    )


def test_openssh_gets_exit_codes_binary_and_a_real_shell(lab: Lab) -> None:
    assert said(lab, "whoami; hostname; echo $HOME") == "lab\ntiny-01\n/home/lab\n"
    assert ssh(lab, "exit 7").returncode == 7
    assert ssh(lab, "kill -9 $$").returncode == 255
    data = os.urandom(300_000)
    assert ssh(lab, "cat", stdin=data).stdout == data
    done = ssh(lab, "echo out; echo err >&2; false")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 1)


def test_terminal_and_file_transfer(lab: Lab, tmp_path: Path) -> None:
    argv = lab.ssh_argv
    shell = subprocess.run(
        [*argv[:-1], "-tt", argv[-1], "tty; stty size"], capture_output=True, check=True, timeout=30
    )
    assert shell.stdout.startswith(b"/dev/pts/")
    (tmp_path / "sent").write_bytes(b"\0payload\n")
    port = argv.index("-p")
    scp = ["scp", "-q", *argv[1:port], "-P", argv[port + 1], str(tmp_path / "sent"), f"{argv[-1]}:/tmp/got"]
    subprocess.run(scp, check=True, timeout=30, stdin=subprocess.DEVNULL)
    assert ssh(lab, "cat /tmp/got").stdout == b"\0payload\n"


async def test_a_signal_ends_one_command_and_no_other(lab: Lab) -> None:
    async with await connect(lab) as link:
        other = await link.create_process("sleep 0.4; echo still here")
        hit = await link.create_process(
            "trap 'echo caught; exit 5' TERM; echo up; while :; do sleep 0.02; done"
        )
        assert await hit.stdout.readline() == b"up\n"
        hit.send_signal("TERM")
        assert (await hit.wait()).exit_status == 5
        cut = await link.create_process("sleep 100")
        cut.close()
        plain = await link.run("kill -TERM $$")
        assert plain.exit_signal is not None
        assert plain.exit_signal[0] == "TERM"
        assert plain.returncode == -signal.SIGTERM
        assert (await other.wait()).stdout == b"still here\n"


async def test_ports_inside_are_reached_by_forwarding(lab: Lab) -> None:
    async with await connect(lab) as link:
        reader, writer = await link.open_connection("127.0.0.1", 30000)
        writer.write(b"GET /index.txt HTTP/1.0\r\n\r\n")
        assert (await reader.read()).endswith(b"first\n")
        with pytest.raises(asyncssh.ChannelOpenError):
            await link.open_connection("192.0.2.1", 80)


async def test_the_host_port_reaches_a_lab(lab: Lab, settings: Settings) -> None:
    host = await host_port.connect(hosts.resolve(lab.name, settings), settings)
    try:
        result = await host.exec(["sh", "-c", "cat /etc/hostname; exit 4"])
        assert (result.stdout.data, result.exit_code, result.host) == (b"tiny-01\n", 4, lab.name)
        late = await host.exec(["sleep", "20"], timeout_s=0.3)
        assert late.outcome == "timed_out_killed"
    finally:
        await host.close()


async def test_only_the_labs_own_key_gets_in(lab: Lab) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    for user, key in (("lab", stranger), ("root", str(lab.key_path))):
        with pytest.raises(asyncssh.PermissionDenied):
            await asyncssh.connect(
                "127.0.0.1", lab.port, username=user, client_keys=[key], known_hosts=str(lab.known_hosts)
            )
    modes = {path.name: path.stat().st_mode & 0o777 for path in (lab.folder, lab.key_path)}
    assert modes == {lab.id: 0o700, "key": 0o600}


def test_nothing_outside_is_reached_or_written(lab: Lab) -> None:
    assert "lo" in said(lab, "cat /proc/net/dev | tail -n +3")
    assert said(lab, "tail -n +2 /proc/net/route") == ""
    assert ssh(lab, "curl -sS -m 2 http://192.0.2.1/").returncode == 7
    assert ssh(lab, "touch /usr/x").returncode == 1
    assert ssh(lab, "touch /etc/x").returncode == 1
    assert ssh(lab, f"ls {lab.folder}").returncode == 2
    assert said(lab, "touch /tmp/x /var/tmp/x ~/x && echo ok") == "ok\n"


def test_systemctl_shows_the_unit_as_systemd_would(lab: Lab) -> None:
    shown = dict(
        line.split("=", 1)
        for line in said(
            lab, "systemctl show web -p ActiveState,SubState,NRestarts -p MainPID,FragmentPath,ExecStart"
        ).splitlines()
    )
    assert (shown["ActiveState"], shown["SubState"], shown["NRestarts"]) == ("active", "running", "0")
    assert shown["FragmentPath"] == "/etc/systemd/system/web.service"
    assert "argv[]=/usr/bin/env python3 -u -m http.server 30000 --bind 127.0.0.1" in shown["ExecStart"]
    cat = said(lab, "systemctl cat web.service")
    assert cat.startswith("# /etc/systemd/system/web.service\n[Unit]\n")
    assert "http.server 30000 \\\n    --bind 127.0.0.1 \\\n" in cat
    assert "Active: active (running)" in said(lab, "systemctl status web --no-pager")
    assert ssh(lab, "systemctl is-active nothing").returncode == 3
    missing = ssh(lab, "systemctl cat nothing")
    assert (missing.returncode, missing.stderr) == (1, b"No files found for nothing.service.\n")
    assert ssh(lab, "systemctl status nothing").returncode == 4
    assert said(lab, "systemctl show nothing -p LoadState --value") == "not-found\n"
    assert "web.service loaded active running" in said(lab, "systemctl list-units --plain --no-legend")


def test_journalctl_holds_history_and_live_lines(lab: Lab) -> None:
    now = said(lab, "journalctl -u web -b --no-pager -o short-iso")
    assert "tiny-01 python[78]: trouble " in now
    assert "Started web.service - Small web server." in now
    assert "boot before" not in now
    assert said(lab, "journalctl -u web -b -1 -o cat") == "line of the boot before\n"
    assert len(said(lab, "journalctl --list-boots").splitlines()) == 3
    assert said(lab, "journalctl -k -o cat --no-pager") == "NVRM: loading\n"
    said(lab, "curl -s -o /dev/null http://localhost:30000/index.txt?mark")
    recent = said(lab, "journalctl -u web --since '10 min ago' -g 'index.txt.mark' -o json -n 1")
    assert json.loads(recent)["_SYSTEMD_UNIT"] == "web.service"
    nothing = ssh(lab, "journalctl -u web -g 'never said'")
    assert (nothing.returncode, nothing.stdout) == (1, b"-- No entries --\n")


def test_nvidia_smi_answers_from_the_scenario(lab: Lab) -> None:
    assert "Driver Version: 580.95.05" in said(lab, "nvidia-smi")
    rows = said(
        lab, "nvidia-smi --query-gpu=index,name,memory.total,power.limit --format=csv,noheader,nounits"
    )
    assert rows == "0, Test GPU, 1000, 600.00\n1, Test GPU, 1000, 600.00\n"
    assert ssh(lab, "nvidia-smi --query-gpu=wrong --format=csv").returncode == 2
    assert said(lab, "nvidia-smi -L").count("UUID: GPU-") == 2


def test_a_dropin_takes_effect_after_reload_and_restart(settings: Settings) -> None:
    with running(tiny(), settings) as lab:
        folder = "/etc/systemd/system/web.service.d"
        exec_start = "/usr/bin/env python3 -u -m http.server 30001"
        text = f"[Service]\\nEnvironment=SIZE=big\\nExecStart=\\nExecStart={exec_start}\\n"
        said(lab, f"mkdir {folder} && printf '{text}' > {folder}/10-local.conf")
        ask = "systemctl show web -p NeedDaemonReload,DropInPaths,NRestarts,Environment"
        assert "NeedDaemonReload=yes" in said(lab, ask)
        said(lab, "systemctl daemon-reload && systemctl restart web")
        after = said(lab, ask)
        assert f"DropInPaths={folder}/10-local.conf" in after
        assert "NeedDaemonReload=no" in after
        assert "Environment=COLOUR=red SIZE=big" in after
        pid = said(lab, "systemctl show web -p MainPID --value").strip()
        assert said(lab, f"tr '\\0' ' ' < /proc/{pid}/cmdline").strip().endswith("-m http.server 30001")
        assert "SIZE=big" in said(lab, f"tr '\\0' '\\n' < /proc/{pid}/environ")
        said(lab, f"kill -9 {pid}; sleep 0.4")
        assert "NRestarts=1" in said(lab, ask)
        said(lab, "systemctl stop web")
        assert said(lab, "systemctl show web -p SubState --value") == "dead\n"


def test_two_labs_share_an_inner_port_and_down_leaves_nothing(lab: Lab, settings: Settings) -> None:
    with running(tiny({"files": {"/srv/www/index.txt": "second\n"}}), settings) as second:
        assert said(lab, "curl -s localhost:30000/index.txt") == "first\n"
        assert said(second, "curl -s localhost:30000/index.txt") == "second\n"
        assert {lab.id, second.id} <= {one.id for one in hosts.list_labs(settings)}
        ssh(second, "setsid sleep 300 </dev/null >/dev/null 2>&1 &")
        inside = processes_inside(second)
        assert len(inside) >= 3
        hosts.down(second.id, settings)
        assert not any(Path(f"/proc/{pid}/exe").exists() for pid in inside)
        assert not second.folder.exists()
        with pytest.raises(LabGone, match="leadline lab list"):
            hosts.find(second.id, settings)
        hosts.release(second.name, settings)  # it is given back already


def test_a_lab_survives_its_killed_caller(settings: Settings, tmp_path: Path) -> None:
    need_sandbox()
    path = tiny().save(tmp_path / "tiny.yaml")
    code = (
        "import sys, time; from pathlib import Path; from agent.config import Settings\n"
        "from evals.lab import hosts\n"
        "print(hosts.up(sys.argv[1], Settings(state_dir=Path(sys.argv[2]))).id, flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", code, str(path), str(settings.state_dir)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        ident = caller.stdout.readline().strip()
        caller.kill()
    lab = hosts.find(ident, settings)
    try:
        assert lab.alive
        assert said(lab, "hostname") == "tiny-01\n"
        assert hosts.resolve(f"lab:tiny#{ident}", settings).port == lab.port
    finally:
        hosts.down(ident, settings)


def test_a_lab_nobody_uses_ends_by_itself(settings: Settings) -> None:
    need_sandbox()
    lab = hosts.up(tiny(), settings, idle_s=0.3)
    deadline = time.monotonic() + 10
    while lab.alive and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not lab.alive
    assert [one.alive for one in hosts.list_labs(settings) if one.id == lab.id] == [False]
    with pytest.raises(LabGone, match="start a fresh one"):
        hosts.resolve(lab.name, settings)
    hosts.down(lab.id, settings)


def test_a_service_that_fails_is_said_with_its_last_line(settings: Settings) -> None:
    need_sandbox()
    bad = tiny({"units": {"web.service": {"launch": {"flags": {"--no-such-flag": True}}}}})
    with pytest.raises(sandbox.SandboxError, match=r"web.service did not start: .*--no-such-flag"):
        hosts.up(bad, settings)
    left = [path for path in (settings.state_dir / "labs").iterdir() if not hosts.Lab.read(path)]
    assert left == []
    for lab in hosts.list_labs(settings):
        if not lab.alive:
            hosts.down(lab.id, settings)


def test_a_machine_without_namespaces_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
) -> None:
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(sandbox, "bwrap", lambda: str(refusing))
    with pytest.raises(sandbox.SandboxError) as caught:
        hosts.up(tiny(), settings)
    assert "user namespaces are not available" in caught.value.what
    assert "No permissions" in caught.value.what
    assert caught.value.do
    assert all(hosts.Lab.read(path) for path in (settings.state_dir / "labs").glob("*"))


def test_unknown_scenario_and_malformed_names(settings: Settings) -> None:
    with pytest.raises(UsageError, match=r"no scenario .*leadline lab list"):
        hosts.resolve("lab:nothing-like-it", settings)
    with pytest.raises(UsageError, match="names no scenario"):
        hosts.resolve("lab:", settings)
    with pytest.raises(LabGone):
        hosts.resolve("lab:tiny#../../etc", settings)


def test_commands_bring_up_list_and_take_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_sandbox()
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path / "state"))
    path = tiny().save(tmp_path / "tiny.yaml")
    runner = CliRunner()
    up = runner.invoke(app, ["up", str(path), "--json"])
    assert up.exit_code == 0, up.output
    lab = json.loads(up.stdout)
    try:
        assert subprocess.run([*lab["ssh"], "exit 3"], check=False, timeout=30).returncode == 3
        listed = runner.invoke(app, ["list"]).stdout
        assert f"{lab['id']}  running  lab:tiny#{lab['id']}" in listed
        assert ["kimi-k26-pp8-healthy", "Kimi"] in [line.split()[:2] for line in listed.splitlines()]
    finally:
        assert runner.invoke(app, ["down", "--all"]).stdout == f"{lab['id']} down\n"
    assert runner.invoke(app, ["down"]).exit_code == 2
    unknown = runner.invoke(app, ["up", "nothing"])
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "no scenario 'nothing'" in unknown.stderr


def test_the_founding_host(settings: Settings) -> None:
    plan = load("kimi-k26-pp8")
    launch = plan.units["sglang-kimi.service"].launch
    assert launch is not None
    with running(plan, settings) as lab:
        pid = said(lab, "systemctl show sglang-kimi -p MainPID --value").strip()
        assert said(lab, f"cat /proc/{pid}/cmdline").split("\0")[:-1] == launch.argv
        assert "/python" in said(lab, f"readlink /proc/{pid}/exe")
        assert f"[{pid}]:" in said(lab, "journalctl -u sglang-kimi -b -g server_args= --no-pager -n 1")
        assert json.loads(said(lab, "curl -s localhost:30000/server_info"))["disable_cuda_graph"] is True
        source = "/opt/sglang/venv/lib/python3*/site-packages/sglang/srt/server_args.py"
        assert said(lab, f"grep -c 'disable_cuda_graph: bool = False' {source}").strip() == "1"
        apps = said(lab, "nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader")
        assert apps.splitlines() == [f"{pid}, /opt/sglang/venv/bin/python"] * 8
        assert "sm120: triton attention crashed" in said(lab, "systemctl cat sglang-kimi")
        assert ssh(lab, "grep -rl 'hazards' /models /etc /home /var /opt/sglang/venv/*.cfg").returncode == 1


def test_a_host_whose_capture_fails_says_so_and_comes_back(settings: Settings) -> None:
    plan = load("kimi-k26-pp8-capturefails")
    launch = plan.units["sglang-kimi.service"].launch
    assert launch is not None
    folder = "/etc/systemd/system/sglang-kimi.service.d"
    line = shlex.join(word for word in launch.argv if word != "--disable-cuda-graph")
    wait = "for i in $(seq 200); do {} && break; sleep 0.05; done"
    with running(plan, settings) as lab:
        assert "illegal memory access" in said(lab, "journalctl -u sglang-kimi -b -1 -o cat")
        text = shlex.quote(f"[Service]\nExecStart=\nExecStart={line}\n")
        said(lab, f"mkdir {folder} && printf {text} > {folder}/a.conf && systemctl daemon-reload")
        said(lab, "systemctl restart sglang-kimi")
        said(lab, wait.format("systemctl show sglang-kimi -p SubState --value | grep -q auto-restart"))
        assert "Capture cuda graph failed" in said(lab, "journalctl -u sglang-kimi -b -n 20 -o cat")
        assert ssh(lab, "curl -s localhost:30000/health").returncode == 7
        said(lab, f"rm {folder}/a.conf && systemctl daemon-reload && systemctl restart sglang-kimi")
        said(lab, wait.format("curl -sf localhost:30000/health"))
        assert said(lab, "systemctl is-active sglang-kimi") == "active\n"
