"""The package behind a running engine is found with real processes on this machine, one command each."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from evals.loopback_sshd import free_port
from tests.test_process import context, engine, make_package, make_venv
from tools.contract import ToolError
from tools.local import LocalHost
from tools.process import ProcessFacts
from tools.settings import host_facts
from tools.settings.locate import Location, NoSource, _location, locate
from tools.settings.patched import compare, judge
from tools.settings.remote import RemoteTree
from tools.settings.whose import engine_pid

ARGS = "class ServerArgs:\n    pp_size: int = 1\n"


def engine_package(folder: Path, version: str | None = "0.5.11") -> Path:
    """Return a small package of an engine with a settings file, as a wheel leaves it."""
    package = make_package(folder, version)
    (package / "srt").mkdir()
    (package / "srt" / "server_args.py").write_text(ARGS)
    (package / "srt" / "tables.json").write_text("{}")
    if version:
        info = folder / f"sglang-{version}.dist-info"
        (info / "METADATA").write_text(f"Name: sglang\nVersion: {version}\nRequires-Dist: torch\n\nText\n")
        rows = []
        for path in sorted(package.rglob("*.py")):
            digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=")
            rows.append(f"{path.relative_to(folder)},sha256={digest.decode()},{path.stat().st_size}")
        (info / "RECORD").write_text("\n".join(rows) + "\n")
    return package


@pytest.fixture
def venv(tmp_path: Path) -> tuple[Path, Path]:
    return make_venv(tmp_path / "venv")


async def found(tmp_path: Path, pid: int) -> tuple[Location, RemoteTree]:
    ctx = context(tmp_path)
    ctx.cache_dir = tmp_path / "cache"
    return await locate(ctx, ctx.host(), pid)


async def test_one_command_gives_the_install_and_the_files_that_matter(
    tmp_path: Path, venv: tuple[Path, Path]
) -> None:
    python, site = venv
    package = engine_package(site)
    (site / "torch-2.9.1+cu130.dist-info").mkdir()
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "llama"}')
    argv = [str(python), "-m", "sglang.launch_server", "--model-path", str(model)]
    with engine(argv, free_port(), cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HF_TOKEN": "s3cr3t"}) as pid:
        ctx = context(tmp_path)
        host: Any = ctx.host()
        location, tree = await locate(ctx, host, pid)
        assert host.execs == 1
        assert await locate(ctx, host, pid) == (location, tree)
        assert host.execs == 1
    assert (location.package, location.site) == (str(package), str(site))
    assert (location.environment, location.started_as) == ("venv", "python -m sglang.launch_server")
    assert (tree.engine, tree.version) == ("sglang", "0.5.11")
    assert tree.read("srt/server_args.py") == ARGS.encode()
    assert location.records["model:config.json"] == '{"model_type": "llama"}'
    assert location.others == () and location.checkout is None and not location.editable
    assert "HF_TOKEN" in (location.variables or ())
    facts = host_facts.of_location(location)
    assert facts.cuda_version == "13.0"
    assert facts.packages is not None and facts.packages["torch"] == "2.9.1+cu130"
    assert "s3cr3t" not in repr(location) + repr(host_facts.environment_of(location))


async def test_an_editable_checkout_is_told_with_its_commit(tmp_path: Path, venv: tuple[Path, Path]) -> None:
    python, site = venv
    package = engine_package(tmp_path / "src" / "python", version=None)
    (site / "sglang-0.5.9.dist-info").mkdir()
    (site / "__editable__.sglang-0.5.9.pth").write_text(f"{package.parent}\n")
    git = tmp_path / "src" / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{'ab' * 20} refs/heads/main\n")
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path) as pid:
        location, tree = await found(tmp_path, pid)
        patched = await compare(LocalHost("here"), location)
    assert location.editable == "__editable__.sglang-0.5.9.pth"
    assert tree.version == "0.5.9"
    assert location.checkout is not None
    assert (location.checkout.folder, location.checkout.head) == (str(tmp_path / "src"), "main")
    assert location.checkout.sha == "ab" * 20
    assert "no RECORD" in patched.problem


async def test_of_two_installs_the_one_of_the_process_wins_and_the_other_is_named(
    tmp_path: Path, venv: tuple[Path, Path]
) -> None:
    python, site = venv
    installed = engine_package(site, "0.5.10")
    mine = engine_package(tmp_path / "checkout", version=None)
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(mine.parent)}
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path, env=env) as pid:
        location, _ = await found(tmp_path, pid)
    assert location.package == str(mine)
    assert [(one.package, one.version, one.way) for one in location.others] == [
        (str(installed), "0.5.10", "environment")
    ]


async def test_a_patched_install_is_told_file_by_file(tmp_path: Path, venv: tuple[Path, Path]) -> None:
    python, site = venv
    package = engine_package(site)
    (package / "srt" / "server_args.py").write_text(ARGS + "# changed by hand\n")
    (package / "srt" / "hotfix.py").write_text("")
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path) as pid:
        location, _ = await found(tmp_path, pid)
        patched = await compare(LocalHost("here"), location)
    assert patched.differs and patched.checked == 3
    assert (patched.changed, patched.added) == (("srt/server_args.py",), ("srt/hotfix.py",))
    assert patched.missing == ()


def test_without_a_record_or_a_digest_nothing_is_claimed() -> None:
    assert judge("!record\n\n==\n==\n", "sglang").problem == "its .dist-info has no RECORD that may be read"
    assert "no sha256sum" in judge("sglang/a.py,sha256=AAAA,1\n\n==\n!sha256sum\n==\n", "sglang").problem


async def test_a_stripped_package_is_told_with_what_may_stand_in(
    tmp_path: Path, venv: tuple[Path, Path]
) -> None:
    python, site = venv
    package = engine_package(site)
    (package / "srt" / "server_args.py").unlink()
    with (
        engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path) as pid,
        pytest.raises(NoSource, match=r"has no srt/server_args\.py") as caught,
    ):
        await found(tmp_path, pid)
    assert "pip download --no-deps sglang==0.5.11" in str(caught.value)
    assert caught.value.location.process.pid == pid


async def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path, venv: tuple[Path, Path]) -> None:
    python, site = venv
    engine_package(site)
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path) as pid:
        shutil.rmtree(site / "sglang")
        with pytest.raises(NoSource, match="no folder sglang with an __init__"):
            await found(tmp_path, pid)


async def test_a_process_that_ended_is_an_error_with_what_to_do(tmp_path: Path) -> None:
    done = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await done.wait()
    with pytest.raises(ToolError, match=r"no process \d+ on here; call facts"):
        await found(tmp_path, done.pid)


async def test_a_worker_is_followed_up_to_the_process_with_the_launch_line(
    tmp_path: Path, venv: tuple[Path, Path]
) -> None:
    python, site = venv
    package = engine_package(site)
    server = (package / "launch_server.py").read_text()
    start = (
        "import subprocess\nworker = subprocess.Popen(['sleep', '60'])\n"
        "open('worker', 'w').write(str(worker.pid))\n"
    )
    (package / "launch_server.py").write_text(start + server)
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path) as pid:
        worker = int((tmp_path / "worker").read_text())
        try:
            assert await engine_pid(LocalHost("here"), pid=worker) == pid
        finally:
            os.kill(worker, signal.SIGTERM)


def test_a_listing_that_lacks_a_requirement_says_nothing_of_what_is_absent() -> None:
    whole = {"packages": "torch-2.9.1.dist-info\nfoo\n", "requires": "torch==2.9.1\nbar ; extra == 'all'\n"}
    found_whole = host_facts._packages(whole)
    assert found_whole is not None and "deep-ep" in found_whole and found_whole["deep_ep"] is None
    part = host_facts._packages({**whole, "requires": "torch\npsutil\n"})
    assert part is not None and "deep-ep" not in part and part["torch"] == "2.9.1"


@pytest.mark.parametrize(
    ("devices", "count"),
    [(None, 8), ("0,1", 2), ("", 0), ("0,9,1", 1), ("GPU-ab", 1), ("-1", 0), ("all", None)],
)
def test_the_gpus_a_process_sees_are_those_it_was_given(devices: str | None, count: int | None) -> None:
    assert host_facts._visible(8, devices) == count


def test_facts_come_from_words_and_imply_the_platform() -> None:
    facts = host_facts.of_words(["gpu_arch=sm120", "gpu_count=8", "package.deep-ep=absent"])
    assert (facts.platform, facts.gpu_count) == ("cuda", 8)
    assert facts.packages == {"deep-ep": None}
    assert host_facts.of_words(["gpu_arch=gfx942"]).platform == "hip"
    for wrong in ("gpu_arch", "gpu_arch=ada", "gpu_count=many", "colour=red", "platform=tpu"):
        with pytest.raises(ToolError, match="--set"):
            host_facts.of_words([wrong])


async def test_a_process_is_read_through_its_own_root_when_asked(
    tmp_path: Path, venv: tuple[Path, Path]
) -> None:
    python, site = venv
    package = engine_package(site)
    with engine([str(python), "-m", "sglang.launch_server"], free_port(), cwd=tmp_path) as pid:
        ctx = context(tmp_path)
        location, tree = await locate(ctx, ctx.host(), pid, pid)
        assert location.root == f"/proc/{pid}/root"
        assert location.package == str(package)
        assert tree.read("srt/server_args.py") == ARGS.encode()


@pytest.mark.parametrize(
    ("cgroup", "own", "container"),
    [
        ("0::/system.slice/docker-0a1b.scope", "mnt:[2]", True),
        ("0::/kubepods/burstable/pod1/2", "mnt:[2]", True),
        ("0::/system.slice/sglang.service", "mnt:[2]", False),
        ("0::/system.slice/docker-0a1b.scope", "mnt:[1]", False),
    ],
)
def test_a_unit_with_a_private_tmp_is_no_container(cgroup: str, own: str, container: bool) -> None:
    facts = ProcessFacts(
        host="h", pid=1, start_time=0, engine="sglang", argv=("python", "-m", "sglang.launch_server"),
        flags={}, interpreter="/v/bin/python", package="sglang", version="1", package_root="/v/sglang",
        port=1, cwd="/", uid=0, environ={}, effective={},
    )  # fmt: skip
    found = _location(facts, {"cgroup": cgroup, "namespaces": f"{own} mnt:[1]"}, "")
    assert found.container is container
