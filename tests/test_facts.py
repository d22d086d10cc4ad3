"""The facts of a host: the probe script in several shells, its parsers, and the view."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pwd
import shutil
import subprocess
import venv
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.unit_texts import UNIT_TEXT
from tools import facts, facts_parse, facts_view, launch_line
from tools.artifacts import ArtifactStore
from tools.contract import Capture, Host, Outcome, Result, ToolContext, ToolError, ToolSettings
from tools.facts_view import Seen
from tools.host import HostTarget, connect
from tools.local import LocalHost

SECRET = "hf_thisvaluemustneverleavethehost"
UNIT = "sglang-test.service"
GPU_CSV = """index, name, memory.total [MiB], power.draw [W], power.limit [W], utilization.gpu [%], \
clocks.current.sm [MHz], pstate, temperature.gpu, driver_version
0, NVIDIA RTX PRO 6000 Blackwell, 97887 MiB, 85.21 W, 600.00 W, 12 %, 2422 MHz, P0, 41, 580.82.07
1, NVIDIA RTX PRO 6000 Blackwell, 97887 MiB, [N/A], 600.00 W, 11 %, 2422 MHz, P0, 40, 580.82.07
"""


@dataclass(frozen=True)
class Engine:
    """A running stand-in engine: a real process with a real package tree."""

    pid: int
    root: Path
    bin: Path


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _fakes(folder: Path, pid: int) -> None:
    folder.mkdir()
    (folder / "gpus.csv").write_text(GPU_CSV)
    (folder / "unit.txt").write_text(UNIT_TEXT)
    show = (
        f"Id={UNIT}\nActiveState=active\nSubState=running\nMainPID={pid}\nNRestarts=3\nNeedDaemonReload=yes\n"
        f"DropInPaths=/etc/systemd/system/{UNIT}.d/10-graph.conf\nFragmentPath=/etc/systemd/system/{UNIT}\n"
        "LimitNOFILE=1048576\nMemoryMax=infinity\n"
    )
    (folder / "show.txt").write_text(show)
    _write(
        folder / "nvidia-smi",
        f'#!/bin/sh\ncase "$*" in *query-gpu*) cat {folder}/gpus.csv ;;\n'
        '*) echo "| NVIDIA-SMI 580.82.07   Driver Version: 580.82.07   CUDA Version: 13.0 |" ;; esac\n',
    )
    _write(
        folder / "systemctl",
        f'#!/bin/sh\ncase "$1" in list-units) echo "{UNIT} loaded active running Test"; '
        'echo "ssh.service loaded active running other" ;;\n'
        f"show) cat {folder}/show.txt ;; cat) cat {folder}/unit.txt ;; *) exit 1 ;; esac\n",
    )
    _write(folder / "journalctl", "#!/bin/sh\necho 'Hint: insufficient permissions' >&2\nexit 1\n")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("engine")
    venv.EnvBuilder(symlinks=True).create(root / "venv")
    site = next((root / "venv/lib").glob("python3*")) / "site-packages"
    for name in ("sglang", "sglang-0.5.11.dist-info", "torch-2.9.1.dist-info"):
        (site / name).mkdir()
    (site / "sglang/__init__.py").touch()
    (site / "sglang/launch_server.py").write_text("print('up', flush=True)\nimport signal\nsignal.pause()\n")
    python = str(root / "venv/bin/python")
    words = ["-m", "sglang.launch_server", "--pp-size", "8", "--disable-cuda-graph", "--port", "31234"]
    env = {"CUDA_VISIBLE_DEVICES": "0,1", "HF_TOKEN": SECRET, "MY_SETTING": SECRET, "NCCL_DEBUG": "a\nHF_X=b"}
    with subprocess.Popen(
        [python, *words, "--api-key", SECRET, "--cuda-graph-bs", "1", "2"],
        env=env,
        cwd=root,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        _fakes(root / "fakes", process.pid)
        yield Engine(process.pid, root, root / "fakes")
        process.kill()


@pytest.fixture
def fakes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("PATH", str(engine.bin), prepend=os.pathsep)
    return engine


def context(host: Host, tmp_path: Path, **settings: Any) -> ToolContext:
    store = ArtifactStore(tmp_path / "store")
    return ToolContext("t1", {host.name: host}, store, lambda data: data, ToolSettings(**settings))


async def view_of(host: Host, tmp_path: Path, **settings: Any) -> tuple[dict[str, Any], ToolContext]:
    ctx = context(host, tmp_path, **settings)
    return await facts.run(ctx, facts.Args()), ctx


@dataclass
class Recorded:
    """A host that answers every command with one recorded output."""

    stdout: bytes
    stderr: bytes = b""
    outcome: Outcome = "exited"
    name: str = "recorded"
    key_fingerprint: str | None = None

    async def exec(self, argv: Any, **_: Any) -> Result:
        out, err = Capture(self.stdout, b"", len(self.stdout)), Capture(self.stderr, b"", len(self.stderr))
        code = 0 if self.outcome == "exited" else None
        now = datetime.now(UTC)
        return Result(self.name, tuple(argv), self.outcome, code, None, out, err, False, now, 0.1)

    async def forward(self, port: int) -> int:
        return port

    async def close(self) -> None:
        return None


def records(**values: str) -> bytes:
    lines = [
        f"LL1 {name.replace('__', ':')} {base64.b64encode(text.encode()).decode()}"
        for name, text in values.items()
    ]
    return "\n".join([*lines, ""]).encode()


SHELLS = [["dash"], ["busybox", "sh"], ["bash", "--posix"], ["sh"]]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: "-".join(shell))
def test_the_script_says_the_same_in_every_shell(shell: list[str], fakes: Engine) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    done = subprocess.run(
        [*shell, "-c", facts.script(), "x", ""], capture_output=True, timeout=30, check=True
    )
    gathered = facts_parse.decode(done.stdout)
    pid = str(fakes.pid)
    assert {"gpus", "os", "disks", "ports", f"cmdline:{pid}", f"unit:{UNIT}", f"show:{UNIT}"} <= set(
        gathered.records
    )
    assert gathered.text("gpus").strip() == GPU_CSV.strip()
    assert gathered.text(f"unit:{UNIT}").strip() == UNIT_TEXT.strip()
    assert {"gpus", "services", "all", f"engine:{pid}"} <= set(gathered.times)
    assert all(0 <= spent < 60_000 for spent in gathered.milliseconds().values())
    assert gathered.codes["gpus"] == 0 and gathered.codes["kernel_log"] == 1
    assert done.stderr == b""


def test_secret_values_do_not_travel(fakes: Engine) -> None:
    done = subprocess.run(["sh", "-c", facts.script(), "x", ""], capture_output=True, timeout=30, check=True)
    environ = facts_parse.decode(done.stdout).text(f"environ:{fakes.pid}")
    assert "CUDA_VISIBLE_DEVICES=0,1" in environ and "NCCL_DEBUG=a HF_X=b" in environ
    assert "HF_TOKEN=[value not read]" in environ and "MY_SETTING" not in environ and SECRET not in environ


async def test_view_of_a_running_engine(fakes: Engine, tmp_path: Path) -> None:
    view, ctx = await view_of(LocalHost("local"), tmp_path)
    (row,) = [row for row in view["engines"] if row["pid"] == fakes.pid]
    assert row["flags"] == {
        "pp_size": "8",
        "disable_cuda_graph": True,
        "port": "31234",
        "api_key": launch_line.HIDDEN,
        "cuda_graph_bs": ["1", "2"],
    }
    assert (row["version"], row["unit"], row["port"], row["listening"]) == ("0.5.11", UNIT, 31234, False)
    assert row["package_root"].startswith(str(fakes.root)) and row["packages"] == {"torch": "2.9.1"}
    assert row["environ"]["HF_TOKEN"] == "[value not read]" and row["cwd"] == str(fakes.root)
    (service,) = view["services"]
    assert (service["restarts"], service["need_daemon_reload"], service["active"]) == (3, True, "active")
    assert service["environment"] == {"NCCL_DEBUG": "INFO"}
    assert service["environment_hidden"] == ["HF_TOKEN", "PRIVATE"] and service["limits"] == {
        "LimitNOFILE": "1048576"
    }
    assert "disable_cuda_graph=True in the process, not in the unit" in service["differs"]
    assert "disable_radix_cache=True in the unit, not in the process" in service["differs"]
    assert not [note for note in service["differs"] if note.startswith("pp_size")]
    assert view["hardware"]["gpus"][0]["power_w"] == 85.21 and view["hardware"]["gpus"][1]["power_w"] is None
    assert view["driver"] == {"nvidia": "580.82.07", "cuda": "13.0"}
    assert [note for note in view["not_permitted"] if "kernel log" in note]
    assert SECRET not in json.dumps(view)
    stored = {ref.handle: ctx.store.get(ref.sha256).decode() for ref in ctx.kept}
    cmdline = stored[view["artifacts"][f"cmdline:{fakes.pid}"]]
    assert "\n--pp-size\n8\n--disable-cuda-graph\n" in cmdline and SECRET not in cmdline
    assert stored[view["artifacts"]["gpus"]].strip() == GPU_CSV.strip()
    assert "--disable-radix-cache" in stored[view["artifacts"][f"unit:{UNIT}"]]


class _Server(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return False


async def _process(process: asyncssh.SSHServerProcess[bytes]) -> None:
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", process.command or "", stdin=-3, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await child.communicate()
    process.stdout.write(out)
    process.stderr.write(err)
    process.exit(child.returncode or 0)


@pytest.fixture
async def ssh_host(tmp_path: Path) -> AsyncIterator[Host]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.create_server(
        _Server, "127.0.0.1", 0, server_host_keys=[key], process_factory=_process, encoding=None
    )
    port = server.get_port()
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {key.export_public_key().decode()}")
    target = HostTarget("far", "127.0.0.1", port=port, user="lab", known_hosts=known)

    class Settings:
        ssh_config: Path | None = None
        known_hosts: Path = known

    host = await connect(target, Settings())
    yield host
    await host.close()
    server.close()
    await server.wait_closed()


async def test_one_round_trip_over_ssh(fakes: Engine, ssh_host: Host, tmp_path: Path) -> None:
    view, _ = await view_of(ssh_host, tmp_path)
    assert ssh_host.execs == 1  # type: ignore[attr-defined]
    assert view["host"] == "far" and fakes.pid in [row["pid"] for row in view["engines"]]
    assert view["problems"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_what_another_user_may_not_read_is_said(engine: Engine) -> None:
    nobody = pwd.getpwnam("nobody")
    done = subprocess.run(
        ["sh", "-c", facts.script(), "x", ""],
        capture_output=True,
        timeout=30,
        check=True,
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        cwd="/",
    )
    gathered = facts_parse.decode(done.stdout)
    seen = Seen()
    row = facts_view.engine_view(gathered, str(engine.pid), seen)
    assert row is not None and row["environ"] is None and row["flags"]["pp_size"] == "8"
    said = " ".join(seen.not_permitted)
    assert f"environment of {engine.pid}" in said and f"exe of {engine.pid}" in said


async def test_denied_parts_are_not_shown_as_absent(tmp_path: Path) -> None:
    cmdline = "/usr/bin/python3\n-m\nvllm.entrypoints.openai.api_server\n--model\nm\n"
    about = "exe=!denied\ncwd=!denied\nfd/1=!denied\nowner=dr-xr-xr-x 9 svc svc 0 Jan 1 00:00 /proc/7\n"
    data = records(
        cmdline__7=cmdline,
        environ__7="!denied\n",
        about__7=about,
        package__7="root=/proc/7/root\ndenied=root\n",
    )
    view, _ = await view_of(Recorded(data), tmp_path)
    assert view["engines"][0]["environ"] is None and view["engines"][0]["port"] == 8000
    said = " ".join(view["not_permitted"])
    assert "environment of 7 (owned by svc)" in said and "files of 7 through /proc/7/root" in said
    assert "not finished" in view["problems"][0]


async def test_a_host_without_systemd_shows_units_as_on_disk(tmp_path: Path) -> None:
    data = records(systemd="System has not been booted with systemd as init system.\n", unit_files=UNIT_TEXT)
    view, _ = await view_of(Recorded(data), tmp_path)
    (service,) = view["services"]
    assert service["unit"] == UNIT and service["dropins"] == [f"/etc/systemd/system/{UNIT}.d/10-graph.conf"]
    assert service["exec_start"][:3] == ["/opt/venv/bin/python", "-m", "sglang.launch_server"]
    assert [line for line in view["missing"] if line.startswith("systemd")]


async def test_nothing_gathered_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be gathered: connection_lost_unknown"):
        await view_of(Recorded(b"", b"", "connection_lost_unknown"), tmp_path)
    with pytest.raises(ToolError, match="no base64"):
        await view_of(Recorded(b"LL0 missing base64\n"), tmp_path)


async def test_a_large_host_stays_within_the_view(tmp_path: Path) -> None:
    show = "ActiveState=active\nMainPID=0\n"
    many = {f"show__sglang-{n}.service": show for n in range(200)}
    many |= {f"unit__sglang-{n}.service": UNIT_TEXT for n in range(200)}
    words = "\n".join(
        ["/v/bin/python", "-m", "sglang.launch_server", *(f"--flag-{n}=value" for n in range(60))]
    )
    many |= {f"cmdline__{n}": words for n in range(100, 130)}
    view, ctx = await view_of(Recorded(records(**many)), tmp_path)
    assert len(json.dumps(view)) <= ctx.settings.view_chars
    assert view["cut"]["services"].endswith("of 200 shown") and view["engines"]
    assert len(ctx.kept) == 430


async def test_the_view_is_redacted(tmp_path: Path) -> None:
    data = records(cmdline__7=f"/v/bin/python\n-m\nsglang.launch_server\n--chat-template\n{SECRET}\n")
    ctx = context(Recorded(data), tmp_path)
    ctx.redact = lambda raw: raw.replace(SECRET.encode(), b"[redacted]")
    view = await facts.run(ctx, facts.Args())
    assert SECRET not in json.dumps(view) and view["engines"][0]["flags"]["chat_template"] == "[redacted]"


def test_hex_records_and_foreign_lines() -> None:
    script = facts.script().replace("if has base64", "if has no-such-tool")
    done = subprocess.run(["sh", "-c", script, "x", ""], capture_output=True, timeout=30, check=True)
    gathered = facts_parse.decode(b"Welcome to the host\n\x00\xff\n" + done.stdout + b"LL1 torn !!!\n")
    assert "uname=Linux" in gathered.text("os")
    assert "torn (its record was damaged)" in gathered.missing
