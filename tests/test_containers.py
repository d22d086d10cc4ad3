"""Engines in containers: told apart from the host's own, which come first, and found when alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.looks import Seen as Looked
from agent.models.concluding import build
from agent.models.method import Case, Lead, Step, Steps
from agent.models.playbook import inside
from agent.models.reading import read_source
from agent.models.views import Facts
from agent.surfaces.facts_table import rows_of
from evals.lab.sandbox import bwrap
from prompts.playbooks import load_all
from tests.lab_fixtures import need_sandbox
from tools import facts, facts_flat, facts_parse, facts_view
from tools.facts_parse import Gathered
from tools.facts_view import Seen
from tools.process import read_records

PROCESS = Path(facts.__file__).with_name("process.sh")
DOCKER = "0::/system.slice/docker-0123456789abcdef.scope"
BY_HAND = "0::/user.slice/session-3.scope"
UNIT = "0::/system.slice/s.service"
SHELLS = [shell for shell in ("sh", "dash", "busybox") if shutil.which(shell)]


def gathered(*engines: tuple[int, str, str], ours: str = "") -> Gathered:
    """Return what a host sent of engines: PID, the line of NSpid, the control group."""
    records: dict[str, bytes] = {"os": ours.encode()}
    for pid, numbers, cgroup in engines:
        records[f"cmdline:{pid}"] = b"python\n-m\nsglang.launch_server\n--port\n30000\n"
        about = (
            f"stat={pid} (python) S 1 {pid}\ncgroup={cgroup}\nns/mnt=mnt:[2]\nself_ns=mnt:[1]\n{numbers}\n"
        )
        records[f"about:{pid}"] = about.encode()
        records[f"package:{pid}"] = f"root=/proc/{pid}/root\npackage_root=/opt/sglang\n".encode()
    return Gathered(records)


def seen(*engines: tuple[int, str, str], ours: str = "") -> list[tuple[int, bool]]:
    rows = facts_view.engines_view(gathered(*engines, ours=ours), Seen())
    return [(row["pid"], row.get("in_container", False)) for row in rows]


@pytest.mark.parametrize(
    ("numbers", "cgroup", "ours", "container"),
    [
        ("NSpid:\t70\t1", DOCKER, "", True),
        ("NSpid:\t70\t14", BY_HAND, "", True),  # a sandbox: no control group of its own
        ("NSpid:\t70", DOCKER, "", True),  # docker run --pid=host
        ("NSpid:\t70", UNIT, "", False),  # a private /tmp is another mount namespace, and no container
        ("NSpid:\t70", DOCKER, "container=docker", False),  # we are in it
        ("NSpid:\t70\t1", DOCKER, "container=docker", True),  # below ours
        ("", BY_HAND, "", False),  # cannot be told
    ],
)
def test_what_counts_as_a_container(numbers: str, cgroup: str, ours: str, *, container: bool) -> None:
    assert seen((70, numbers, cgroup), ours=ours) == [(70, container)]


def test_what_the_kernel_does_not_say_is_not_known() -> None:
    assert facts_parse.below_ours("PPid:\t1\n") is None
    assert facts_parse.below_ours("NSpid:\t7\n") is False
    assert facts_parse.below_ours("PPid:\t1\nNSpid:\t7\t1\nUid:\t0\n") is True


def test_the_hosts_own_engines_come_first_and_the_facts_of_one_name_do_not_mix() -> None:
    sent = gathered(
        (70, "NSpid:\t70\t1", BY_HAND), (90, "NSpid:\t90", BY_HAND), (95, "NSpid:\t95\t1", BY_HAND)
    )
    rows = facts_view.engines_view(sent, Seen())
    assert [row["pid"] for row in rows] == [90, 70, 95]
    flat = facts_flat.flatten({"engines": [{**row, "user": str(row["pid"])} for row in rows]})
    assert flat["sglang:30000 user"] == "90"
    view = {"host": "gpu1", "engines": rows}
    table = [row[1] for row in rows_of(Looked("gpu1", view=view))]
    assert table == ["sglang:30000", "sglang:30000 (in a container)", "sglang:30000 (in a container)"]
    one = Facts.of(view, "decode is slow")
    assert one.pid == 90 and not one.in_container and one.told_apart_by == "the pid"
    assert one.others[0] == "sglang in no unit (pid 70, in a container)"
    assert Facts.of(view, "decode of 95 is slow").pid == 95


def test_ports_and_units_tell_apart_where_none_is_shared() -> None:
    engines = [{"pid": 1, "port": 1}, {"pid": 2, "port": 2}, {"pid": 3, "unit": "a", "port": 1}]
    assert Facts.of({"engines": engines}).told_apart_by == "a unit or port"


@pytest.mark.parametrize("container", [True, False])
def test_files_of_a_container_are_read_through_its_root(*, container: bool) -> None:
    engine: dict[str, Any] = {"pid": 70, "process_root": "/proc/70/root", "in_container": container}

    def steps() -> Steps:
        yield Step("x", [("grep", {"pid": 70}), ("run", {"command": "id"}), ("settings", {"pid": 70})])

    (step,) = inside(steps(), Facts({}, engine))
    more = {"process_root": 70} if container else {}
    assert step.calls == [
        ("grep", {"pid": 70, **more}),
        ("run", {"command": "id"}),
        ("settings", {"pid": 70, **more}),
    ]


@pytest.mark.parametrize("explains", [True, False])
def test_where_there_is_no_package_it_is_not_searched_again_and_again(*, explains: bool) -> None:
    engine = {"pid": 70, "engine": "sglang", "flags": {}}
    leads = [Lead(book, id="H1") for book in load_all() if book.name == "cuda-graphs-off"]
    case = Case("decode is slow", Facts({}, engine), leads, explains=explains)
    error = "the package of process 70 was not found on the host; give an absolute path"
    steps = read_source(case)
    step = next(steps)
    with pytest.raises(StopIteration):
        steps.send([{"error": error} for _ in step.calls])
    summary = build(case)["summary"]
    assert summary.count(error) == 1 and f"None of its source was read: {error}." in summary


@contextlib.contextmanager
def started(folder: Path, port: int, *before: str) -> Iterator[int]:
    """Start something that looks like an engine; return its PID as this machine has it."""
    words = [sys.executable, "-m", "sglang.launch_server", "--port", str(port)]
    with subprocess.Popen([*before, *words], cwd=folder, start_new_session=True) as process:
        try:
            yield _found(f"--port\0{port}\0".encode())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _found(words: bytes) -> int:
    for _ in range(600):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = path.read_bytes()
                if line.endswith(words) and line.startswith(sys.executable.encode()):
                    return int(path.parent.name)
        time.sleep(0.05)
    raise AssertionError("it did not start")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Return the PIDs of an engine in a sandbox and of one beside it that was started later."""
    need_sandbox()
    folder = tmp_path_factory.mktemp("engines")
    (folder / "sglang").mkdir()
    (folder / "sglang" / "__init__.py").write_text("")
    (folder / "sglang" / "launch_server.py").write_text("import signal\nsignal.pause()\n")
    box = [bwrap(), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc"]
    ports = [31000 + os.getpid() % 20000, 31001 + os.getpid() % 20000]
    with started(folder, ports[0], *box, "--dev", "/dev", "--") as inner, started(folder, ports[1]) as own:
        yield inner, own


@pytest.mark.parametrize("shell", SHELLS)
def test_facts_find_a_process_in_a_sandbox_and_say_so(both: tuple[int, int], shell: str) -> None:
    argv = [shell, *(["sh"] if shell == "busybox" else []), "-c", facts.script(), "x", ""]
    done = subprocess.run(argv, capture_output=True, check=True)
    found = facts_parse.decode(done.stdout)
    rows = {row["pid"]: row for row in facts_view.engines_view(found, Seen())}
    inner, own = (rows[pid] for pid in both)
    assert inner["in_container"] is True and "in_container" not in own
    order = list(rows)
    assert order.index(own["pid"]) < order.index(inner["pid"])


@pytest.mark.parametrize("shell", SHELLS)
def test_the_main_process_is_one_of_the_hosts_own(both: tuple[int, int], shell: str) -> None:
    argv = [shell, *(["sh"] if shell == "busybox" else []), "-c", PROCESS.read_text(), "process", "", ""]
    done = subprocess.run(argv, capture_output=True, check=True)
    records, _ = read_records(done.stdout)
    mains, within = (records[name].decode().split() for name in ("mains", "inside"))
    inner, own = (str(pid) for pid in both)
    assert inner in within and own not in within
    assert mains.index(own) < mains.index(inner) and records["pid"].decode() == mains[0]
    assert mains[0] not in within, "there is one of the host's own"


def test_of_containers_alone_the_first_is_the_main_one() -> None:
    assert seen((95, "NSpid:\t95\t1", DOCKER), (70, "NSpid:\t70\t1", DOCKER)) == [(70, True), (95, True)]
