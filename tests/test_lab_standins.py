"""The stand-ins' own rules, tried without a sandbox: unit files, journal queries, times, nvidia-smi."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.lab.inside import unitfile
from evals.lab.inside.journal import Journal
from evals.lab.inside.journalctl import Journalctl
from evals.lab.inside.nvidia_smi import NvidiaSmi
from evals.lab.inside.times import TimeError, parse_time

NOW = 1_795_960_000.0  # Sunday 2026-11-29 13:46:40 UTC
HARDWARE = {
    "gpu_name": "Test GPU", "count": 2, "memory_mib": 1000, "capability": [12, 0], "power_limit_w": 600.0,
    "idle_w": 65.0, "cuda": "13.0", "driver": "580.95.05", "max_sm_clock_mhz": 2430, "idle_sm_clock_mhz": 180,
}  # fmt: skip


@dataclass
class Printed:
    """Collect what a command prints."""

    stdout: str = ""
    stderr: str = ""
    flushed: asyncio.Event = field(default_factory=asyncio.Event)

    def out(self, text: str) -> None:
        self.stdout += text

    def err(self, text: str) -> None:
        self.stderr += text + "\n"

    async def flush(self) -> None:
        self.flushed.set()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    run, etc = tmp_path / "run", tmp_path / "etc"
    run.mkdir()
    etc.mkdir()
    monkeypatch.setattr(unitfile, "roots", lambda: [run, etc])
    return run, etc


def test_later_dropins_win_and_lists_append_until_emptied(folders: tuple[Path, Path]) -> None:
    run, etc = folders
    (etc / "a.service").write_text(
        "[Service]\nEnvironment=A=1 'B=two words'\n# note\n"
        "ExecStart=/bin/x \\\n  --one \\\n# inside\n  --two\nRestart=no\n"
    )
    for root, name, text in (
        (etc, "20-later.conf", "[Service]\nRestart=always\nEnvironment=A=3\n"),
        (run, "10-first.conf", "[Service]\nRestart=on-failure\nExecStart=\nExecStart=/bin/y %n ${A} $B\n"),
        (run, "20-later.conf", "[Service]\nRestart=never-seen\n"),
    ):
        (root / "a.service.d").mkdir(exist_ok=True)
        (root / "a.service.d" / name).write_text(text)
    unit = unitfile.load("a.service")
    assert [path.name for path in unit.dropins] == ["10-first.conf", "20-later.conf"]
    assert unit.last("Service.Restart") == "always"
    env = unitfile.environment(unit)
    assert env == {"A": "3", "B": "two words"}
    assert unit.all("Service.ExecStart") == ["/bin/y %n ${A} $B"]
    argv, _ = unitfile.command(unit.all("Service.ExecStart")[0], env, "a.service")
    assert argv == ["/bin/y", "a.service", "3", "two", "words"]
    assert not unitfile.changed_on_disk(unit)
    (etc / "a.service.d" / "30-new.conf").write_text("[Service]\n")
    assert unitfile.changed_on_disk(unit)


def test_continuation_skips_comments_and_keeps_the_argv(folders: tuple[Path, Path]) -> None:
    _, etc = folders
    (etc / "b.service").write_text("[Service]\nExecStart=/bin/x \\\n  --one \\\n# inside\n  --two=2 'a b'\n")
    line = unitfile.load("b.service").all("Service.ExecStart")[0]
    assert unitfile.command(line, {}, "b.service") == (["/bin/x", "--one", "--two=2", "a b"], False)


@given(
    st.lists(
        st.text(st.characters(codec="ascii", exclude_characters="\0\r\n\x0b\x0c\x1c\x1d\x1e\x85"), min_size=1)
    )
)
def test_quoted_words_come_back_whole(words: list[str]) -> None:
    quoted = ('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    assert unitfile.words(" ".join(quoted)) == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 min ago", NOW - 600),
        ("1h 30min ago", NOW - 5400),
        ("-2days", NOW - 172800),
        ("2026-11-29 13:00:00", 1_795_957_200.0),
        ("2026-11-29T13:00:00Z", 1_795_957_200.0),
        ("Sun 2026-11-29 13:00:00 UTC", 1_795_957_200.0),
        ("13:00", 1_795_957_200.0),
        ("today", 1_795_910_400.0),
        ("yesterday", 1_795_824_000.0),
        ("@1795957200", 1_795_957_200.0),
        ("now", NOW),
    ],
)
def test_times(text: str, expected: float) -> None:
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize("text", ["soon", "10 parsecs ago", "2026-13-01", "min ago", ""])
def test_bad_times_are_refused(text: str) -> None:
    with pytest.raises(TimeError, match="Failed to parse timestamp"):
        parse_time(text, NOW)


def journal() -> Journal:
    old, new = "a" * 32, "b" * 32
    rows = [
        {"at": 1_000_000, "boot": old, "text": "old line", "unit": "x.service", "ident": "x", "pid": 5},
        {"at": 5_000_000, "boot": new, "text": "NVRM up", "ident": "kernel", "transport": "kernel"},
        {
            "at": 6_000_000,
            "boot": new,
            "text": "Warning: hot",
            "unit": "x.service",
            "ident": "x",
            "priority": 4,
        },
        {"at": 7_500_000, "boot": new, "text": "fine", "unit": "y.service", "ident": "y", "pid": 9},
    ]
    return Journal.from_history("box", [old, new], rows)


@pytest.mark.parametrize(
    ("argv", "code", "expected"),
    [
        (["-o", "cat"], 0, "old line\nNVRM up\nWarning: hot\nfine\n"),
        (["-ocat", "-b"], 0, "NVRM up\nWarning: hot\nfine\n"),
        (["-b", "-1", "-ocat"], 0, "old line\n"),
        (["--boot=-1", "-o", "cat"], 0, "old line\n"),
        (["-b", "a" * 32, "-ocat"], 0, "old line\n"),
        (["-u", "x", "-u", "y.service", "-bocat"], 1, "Failed to parse boot descriptor 'ocat'\n"),
        (["-k", "-o", "cat"], 0, "NVRM up\n"),
        (["-n1", "-o", "cat"], 0, "fine\n"),
        (["-rn", "2", "-o", "cat"], 0, "fine\nWarning: hot\n"),
        (["-p", "warning", "-o", "cat"], 0, "Warning: hot\n"),
        (["-g", "warn", "-o", "cat"], 0, "Warning: hot\n"),
        (["-g", "Warn.*cold"], 1, "-- No entries --\n"),
        (["--since", "@6.5", "-o", "cat"], 0, "fine\n"),
        (["--until=@1", "-o", "cat"], 0, "old line\n"),
        (["_PID=9", "-o", "cat"], 0, "fine\n"),
        (["-o", "short-iso", "-n", "1"], 0, "1970-01-01T00:00:07+0000 box y[9]: fine\n"),
        (["-o", "short-precise", "-n", "1"], 0, "Jan 01 00:00:07.500000 box y[9]: fine\n"),
        (["-k"], 0, "Jan 01 00:00:05 box kernel: NVRM up\n"),
        (["-u", "nothing"], 0, "-- No entries --\n"),
        (["-q", "-u", "nothing"], 0, ""),
        (["--bogus"], 1, "journalctl: unrecognized option '--bogus'\n"),
        (["-o", "poem"], 1, "Unknown output format 'poem'.\n"),
        (["-b", "-7"], 1, "Data from the specified boot (-7) is not available: No such boot ID in journal\n"),
    ],
)
async def test_journalctl(argv: list[str], code: int, expected: str) -> None:
    printed = Printed()
    assert await Journalctl(journal()).run(argv, printed) == code
    assert printed.stdout + printed.stderr == expected


async def test_journalctl_marks_the_change_of_boot_and_prints_json() -> None:
    printed = Printed()
    await Journalctl(journal()).run([], printed)
    assert f"-- Boot {'b' * 32} --\n" in printed.stdout
    printed = Printed()
    await Journalctl(journal()).run(["-o", "json", "-u", "x", "-b", "-n", "1"], printed)
    row = json.loads(printed.stdout)
    assert (row["MESSAGE"], row["PRIORITY"], row["_BOOT_ID"]) == ("Warning: hot", "4", "b" * 32)


async def test_journalctl_follows() -> None:
    log, printed = journal(), Printed()
    task = asyncio.create_task(Journalctl(log).run(["-f", "-n", "1", "-o", "cat"], printed))
    await printed.flushed.wait()
    printed.flushed.clear()
    log.add("fresh")
    await printed.flushed.wait()
    task.cancel()
    assert printed.stdout == "fine\nfresh\n"


async def run_smi(tmp_path: Path, argv: list[str], state: dict[str, object] | None = None) -> tuple[int, str]:
    path = tmp_path / "engine.json"
    if state is not None:
        path.write_text(json.dumps(state))
    printed = Printed()
    code = await NvidiaSmi(HARDWARE, path).run(argv, printed)
    return code, printed.stdout


async def test_nvidia_smi_shows_the_engine_while_it_lives(tmp_path: Path) -> None:
    import os

    gpu = {"power_w": 151.2, "utilization": 42, "memory_used_mib": 900, "sm_clock_mhz": 2400, "pstate": "P1"}
    state = {"pid": os.getpid(), "phase": "serving", "gpus": [{"index": i, **gpu} for i in range(2)]}
    ask = ["--query-gpu=index,power.draw,utilization.gpu,memory.used,pstate", "--format=csv"]
    code, text = await run_smi(tmp_path, ask, state)
    assert (code, text.splitlines()) == (
        0,
        [
            "index, power.draw [W], utilization.gpu [%], memory.used [MiB], pstate",
            "0, 151.20 W, 42 %, 900 MiB, P1",
            "1, 151.20 W, 42 %, 900 MiB, P1",
        ],
    )
    _, idle = await run_smi(tmp_path, [*ask[:1], "--format=csv,noheader,nounits"], {**state, "pid": 2**30})
    assert idle.splitlines()[0] == "0, 32.50, 0, 2, P8"
    _, performance = await run_smi(tmp_path, ["-q", "-d", "PERFORMANCE,POWER"], state)
    assert "Clocks Event Reasons" in performance
    assert "Average Power Draw" in performance
    assert "Temperature" not in performance


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["-pm", "1"], 0, "All done."),
        (["-pl", "600"], 0, "already set to 600.00 W"),
        (["-pl", "300"], 4, "Insufficient Permissions"),
        (["-r"], 4, "Insufficient Permissions"),
        (["--query-gpu=name"], 2, "--format"),
        (["--nonsense"], 2, "Invalid combination"),
        (["-i", "7"], 6, "No devices were found"),
        (["topo", "-m"], 0, "SYS"),
        (["-L"], 0, "GPU 1: Test GPU (UUID: GPU-"),
        ([], 0, "No running processes found"),
    ],
)
async def test_nvidia_smi_answers(tmp_path: Path, argv: list[str], code: int, says: str) -> None:
    got, text = await run_smi(tmp_path, argv)
    assert got == code
    assert says in text
