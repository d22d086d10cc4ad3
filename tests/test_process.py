"""Engine processes are found and described from /proc alone, with real processes on this machine."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.loopback_sshd import free_port
from tools.artifacts import ArtifactStore
from tools.contract import Host, Result, ToolContext, ToolError, ToolSettings
from tools.definitions import is_secret
from tools.local import LocalHost
from tools.process import (
    ProcessFacts,
    _asked_through,
    described,
    effective_settings,
    forget_process,
    load_process,
)

SERVER = """
import http.server, json, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
SECRET = {"api_key": "s3cr3t"}
INFO = {"pp_size": 1, **SECRET, "internal_states": [{"pp_size": 8, "device": "cuda", **SECRET}]}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == sys.argv[sys.argv.index("--answers") + 1]
        self.send_response(200 if found or "?" in sys.argv[-1] else 404)
        self.end_headers()
        try:
            if sys.argv[-1] == "?deep":
                self.wfile.write(b"[" * 200_000)
            while sys.argv[-1] == "?endless":
                self.wfile.write(b'"' + b"x" * 65536)
        except OSError:
            return
        self.wfile.write(json.dumps(INFO).encode() if found else b"no")
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def context(tmp_path: Path) -> ToolContext:
    host: Host = LocalHost("here")
    return ToolContext(
        call_id="t1",
        hosts={"here": host},
        store=ArtifactStore(tmp_path / "store"),
        redact=lambda data: data,
        settings=ToolSettings(),
    )


def make_package(folder: Path, version: str | None = "0.5.11") -> Path:
    package = folder / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text(SERVER)
    if version:
        (folder / f"sglang-{version}.dist-info").mkdir()
    return package


def make_venv(root: Path) -> tuple[Path, Path]:
    """Return interpreter and site-packages of an environment that needs no network and no time."""
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    minor = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python3").symlink_to(base)
    (root / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    site = root / "lib" / minor / "site-packages"
    site.mkdir(parents=True)
    return root / "bin" / "python3", site


@contextlib.contextmanager
def engine(argv: list[str], port: int, answers: str = "/server_info", **options: Any) -> Iterator[int]:
    command = [*argv, "--port", str(port), "--pp-size", "8", "--api-key", "s3cr3t", "--answers", answers]
    process = subprocess.Popen(command, **options)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def venv(tmp_path: Path) -> tuple[Path, Path]:
    return make_venv(tmp_path / "venv")


async def load(ctx: ToolContext, pid: int | None) -> ProcessFacts:
    return await load_process(ctx, ctx.host(), pid)


async def test_a_process_is_described_by_its_pid(tmp_path: Path, venv: tuple[Path, Path]) -> None:
    python, site = venv
    package = make_package(site)
    env = {
        "PATH": "/usr/bin:/bin",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "HF_TOKEN": "s3cr3t",
        "SOME_SECRET": "x",
    }
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), env=env, cwd=tmp_path) as pid:
        facts = await load(context(tmp_path), pid)
    assert (facts.pid, facts.engine, facts.version) == (pid, "sglang", "0.5.11")
    assert facts.package_root == str(package)
    assert facts.interpreter == str(python)
    assert facts.flags["pp_size"] == "8"
    assert facts.effective == {"pp_size": 8, "device": "cuda"}
    assert facts.environ == {"CUDA_VISIBLE_DEVICES": "0,1", "HF_TOKEN": "[value hidden]"}
    assert facts.start_time > 0
    assert facts.uid == os.getuid()
    assert "s3cr3t" not in repr(facts) + str(facts.shown_argv)


async def test_the_old_name_of_server_info_is_asked_when_the_new_one_is_not_there(
    tmp_path: Path, venv: tuple[Path, Path]
) -> None:
    make_package(venv[1])
    with engine([str(venv[0]), "-m", "sglang.launch_server"], free_port(), "/get_server_info") as pid:
        facts = await load(context(tmp_path), pid)
    assert facts.effective["pp_size"] == 8


async def test_without_a_pid_the_main_process_is_found(tmp_path: Path, venv: tuple[Path, Path]) -> None:
    make_package(venv[1])
    with engine([str(venv[0]), "-m", "sglang.launch_server"], free_port()) as pid:
        facts = await load(context(tmp_path), None)
        others = [note for note in facts.notes if str(pid) in note]
        assert facts.pid == pid or others, "another engine on this machine must at least be named beside it"


async def test_an_editable_install_and_a_checkout_are_followed(
    tmp_path: Path, venv: tuple[Path, Path]
) -> None:
    python, site = venv
    editable = make_package(tmp_path / "src" / "python", version=None)
    (site / "sglang-0.5.9.dist-info").mkdir()
    (site / "__editable__.sglang-0.5.9.pth").write_text(f"{editable.parent}\n")
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path) as pid:
        facts = await load(context(tmp_path), pid)
    assert (facts.package_root, facts.version) == (str(editable), "0.5.9")

    checkout = make_package(tmp_path / "checkout", version=None)
    (checkout / "version.py").write_text('__version__ = "0.6.0"\n')
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(checkout.parent)}
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path, env=env) as pid:
        facts = await load(context(tmp_path), pid)
    assert (facts.package_root, facts.version) == (str(checkout), "0.6.0")


async def test_a_working_directory_counts_only_for_modules(tmp_path: Path, venv: tuple[Path, Path]) -> None:
    python, site = venv
    installed = make_package(site)
    (site.parent / "serve").write_text(SERVER)
    checkout = make_package(tmp_path / "checkout", version=None)
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=checkout.parent) as pid:
        assert (await load(context(tmp_path), pid)).package_root == str(checkout)
    script = tmp_path / "sglang"
    script.write_text(SERVER)
    with engine([str(python), str(script), "serve"], free_port(), cwd=checkout.parent) as pid:
        assert (await load(context(tmp_path), pid)).package_root == str(installed)


async def test_a_silent_server_leaves_effective_values_unknown(
    tmp_path: Path, venv: tuple[Path, Path]
) -> None:
    make_package(venv[1])
    with engine([str(venv[0]), "-m", "sglang.launch_server"], free_port(), "/nothing") as pid:
        facts = await load(context(tmp_path), pid)
    assert facts.effective == {}
    assert any("effective values are not known" in note for note in facts.notes)


@pytest.mark.parametrize("answer", ["?endless", "?deep"])
async def test_an_answer_without_end_or_sense_is_no_answer(
    tmp_path: Path, venv: tuple[Path, Path], answer: str
) -> None:
    make_package(venv[1])
    with engine([str(venv[0]), "-m", "sglang.launch_server"], free_port(), answer) as pid:
        facts = await load(context(tmp_path), pid)
        assert facts.effective == {}
        assert facts.package_root is not None
        asked = await _asked_through(LocalHost("here"), facts)
    assert asked.effective == {}


async def test_what_is_no_engine_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not an inference engine"):
        await load(context(tmp_path), os.getpid())
    with pytest.raises(ToolError, match="call facts"):
        await load(context(tmp_path), 2**22 - 3)


async def test_facts_are_kept_until_forgotten(tmp_path: Path, venv: tuple[Path, Path]) -> None:
    make_package(venv[1])
    ctx = context(tmp_path)
    with engine([str(venv[0]), "-m", "sglang.launch_server"], free_port()) as pid:
        first = await load(ctx, pid)
        assert await load(ctx, pid) is first
    forget_process(ctx, first)
    with pytest.raises(ToolError, match="no process"):
        await load(ctx, pid)


def test_the_schedulers_copy_comes_before_the_front_ends() -> None:
    assert effective_settings({"pp_size": 1, "internal_states": [{"pp_size": 8}]}) == {"pp_size": 8}
    assert effective_settings({"pp_size": 1}) == {"pp_size": 1}
    assert effective_settings(["broken"]) == {}


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api_key", True),
        ("HF_TOKEN", True),
        ("max_total_tokens", False),
        ("tokenizer_path", False),
        ("pp_size", False),
    ],
)
def test_secrets_are_told_by_name(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


@pytest.mark.parametrize("left", [{}, {"cmdline": b"", "stat": b""}])
async def test_a_process_that_ends_while_it_is_read_is_said_to_have_ended(left: dict[str, bytes]) -> None:
    records = {"mains": b" 42", "pid": b"42", "engine": b"sglang", "exe": b"", **left}
    with pytest.raises(ToolError, match="process 42 on here ended while it was looked at"):
        await described(LocalHost("here"), None, records, ["exe", "cwd", "environ"])


async def test_a_process_found_as_it_ends_is_looked_for_once_more(tmp_path: Path) -> None:
    class Restarting(LocalHost):
        looked = 0

        async def exec(self, argv: Sequence[str], **options: Any) -> Result:
            self.looked += 1
            found = base64.b64encode(b"42").decode()
            return await super().exec(["echo", f"pid {found}" if self.looked == 1 else "none -"], **options)

    host = Restarting("here")
    with pytest.raises(ToolError, match="no process of an inference engine is visible"):
        await load_process(context(tmp_path), host, None)
    assert host.looked == 2
