"""The store of approvals: what it forgets, what a broken one says, and whom `--approve` answers for."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.approvals import open_elsewhere
from agent.approvals_decide import decide
from agent.approvals_record import ApprovalRecord
from agent.approvals_store import STORE, ApprovalStore
from agent.errors import UsageError
from agent.surfaces.approving import refuse_unattended
from tests.approval_parts import BO, asked, by, settings
from tests.file_host import FakeService, FileHost
from tests.trial_parts import moves, open_session

KEEP = timedelta(days=90)


def stored(root: Path, record: ApprovalRecord, name: str, age: timedelta) -> None:
    """Store an approval of a plan that expired so long ago."""
    at = datetime.now(UTC) - age
    times = {"created_at": at, "expires_at": at}
    with ApprovalStore(root).writing() as store:
        store.add(record.model_copy(update={"id": name, **times}), keep=timedelta(days=9999))


def clicks(root: Path) -> list[str]:
    with sqlite3.connect(root / STORE) as store:
        return [row[0] for row in store.execute("select approval from clicks order by approval")]


async def test_what_expired_long_ago_is_removed_and_the_rest_is_not(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    for name, days in (("aaaaaaaaaaaa", 91), ("bbbbbbbbbbbb", 200), ("cccccccccccc", 89)):
        stored(tmp_path, record, name, timedelta(days=days))
        with ApprovalStore(tmp_path).writing() as store:
            store.hear(f"click {name}", name, "")
    with ApprovalStore(tmp_path).writing() as store:
        store.add(record.model_copy(update={"id": "dddddddddddd"}), keep=KEEP)
    assert ApprovalStore(tmp_path).ids() == [record.id, "cccccccccccc", "dddddddddddd"]
    assert clicks(tmp_path) == ["cccccccccccc"]
    assert decide(settings(tmp_path), by(BO, record)).state == "approved"


async def test_the_store_stops_growing(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    sizes = []
    for start in range(0, 600, 200):
        with ApprovalStore(tmp_path).writing() as store:
            for number in range(start, start + 200):
                at = datetime.now(UTC) + timedelta(days=number)
                times = {"created_at": at, "expires_at": at + timedelta(minutes=30)}
                store.add(record.model_copy(update={"id": f"{number:012d}", **times}), keep=KEEP)
        sizes.append((tmp_path / STORE).stat().st_size)
    assert len(ApprovalStore(tmp_path).ids()) <= 92
    assert sizes[0] == sizes[1] == sizes[2]


async def test_a_store_that_cannot_be_read_says_of_nobody_that_they_decided(tmp_path: Path) -> None:
    session = open_session(tmp_path, FakeService(FileHost(tmp_path / "host.json")), moves())
    async for _ in session.ask():
        pass
    assert open_elsewhere(session._work)
    whole = (tmp_path / STORE).read_bytes()
    (tmp_path / STORE).write_bytes(b"garbage" * 1000)
    assert open_elsewhere(session._work)
    (tmp_path / STORE).write_bytes(whole)
    decide(settings(tmp_path), by(BO, ApprovalStore(tmp_path).get(ApprovalStore(tmp_path).ids()[0])))
    assert not open_elsewhere(session._work)
    await session.close()


@pytest.mark.threat(4)
@pytest.mark.parametrize(
    "name",
    [
        "gpu1",
        "xlab:kimi",
        "lab",
        "Lab:kimi",
        " lab",
        "",
        "lab:kimi,gpu1",
        "gpu1,lab:kimi",
        "@lab:kimi",
        "lab:a,,gpu",
    ],
)
def test_unattended_approval_is_refused_for_whatever_is_not_simulated_alone(name: str) -> None:
    with pytest.raises(UsageError, match="--approve works on `lab:` hosts only"):
        refuse_unattended([name])
    with pytest.raises(UsageError, match=r"and .* is none"):
        refuse_unattended(["lab:kimi-k26-pp8", name])


def test_unattended_approval_is_for_simulated_hosts() -> None:
    refuse_unattended(["lab:kimi-k26-pp8", "lab:kimi-k26-pp8#647fe2", "lab:a,lab:b"])


@pytest.mark.threat(4)
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["ask", "gpu1", "slow", "--mode", "apply", "--approve"],
            "works on `lab:` hosts only, and gpu1 is none",
        ),
        (
            ["ask", "lab:kimi-k26-pp8,gpu1", "slow", "--mode", "apply", "--approve"],
            "works on `lab:` hosts only",
        ),
        (["ask", "lab:kimi-k26-pp8", "slow", "--approve"], "has no meaning in mode"),
    ],
)
def test_the_command_refuses_it_before_a_host_is_reached(tmp_path: Path, words: list[str], why: str) -> None:
    leadline = Path(sys.executable).with_name("leadline")
    place = {"LEADLINE_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [leadline, *words], capture_output=True, text=True, check=False, cwd=tmp_path, env=place, timeout=60
    )
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert not (tmp_path / "state" / "threads").exists()
