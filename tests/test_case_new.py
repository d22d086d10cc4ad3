"""A finished investigation of a host that lies becomes a case; a broken one gives one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config import Settings
from agent.errors import LeadlineError
from evals import case as cases
from evals.case_new import make
from evals.lab import scenario as scenarios
from tests.case_parts import Output, thread_of, written
from tests.in_process import leadline
from tests.lab_fixtures import lab_settings

SYMPTOM = "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"
UNIT = b"""# /etc/systemd/system/sglang.service
[Unit]
Description=SGLang # not: a comment, {pid} *alias & "quotes" 'and' `more`

[Service]
User=alice
WorkingDirectory=/home/alice/serve
EnvironmentFile=/etc/default/sglang
Environment=HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345
Environment="PYTHONGREETING=!!python/object/apply:os.system ['true']" LANG=C
Environment="WORD=of-a-kind that nobody knows"
ExecStart=/home/alice/venv/bin/python -m sglang.launch_server --model-path /models/m \\
    --disable-cuda-graph --port 30000

# /etc/systemd/system/sglang.service.d/10-more.conf
[Service]
Environment=CUDA_VISIBLE_DEVICES=0
"""
CMDLINE = (
    b"/home/alice/venv/bin/python\n-m\nsglang.launch_server\n--model-path\n/models/m\n--disable-cuda-graph\n"
    b"--port\n30000\n"
)
OS = b"PRETTY_NAME=Debian\nid=uid=1000(alice) gid=1000(alice)\nhostname=gpu7\n/proc/stat:btime 1772000000\n"
PACKAGE = (
    b"root=\npackage_root=/home/alice/venv/lib/python3.11/site-packages/sglang\n"
    b"site=/home/alice/venv/lib/python3.11/site-packages\ndist=sglang-0.5.11\ndist=torch-2.11.0\n"
)
ABOUT = (
    b"owner=dr-xr-xr-x 9 alice alice 0 Nov 29 21:03 /proc/14\nstat=14 (python) S 1 14\n"
    b"cgroup=0::/system.slice/sglang.service\n"
)
TCP = b"  sl  local\n   0: 07010A0A:7530 00000000:0000 0A 0 0 0 0 0\n"
JOURNAL = (
    b"2026-02-28T10:00:00+0000 gpu7 python[9]: [2026-02-28 10:00:00] bob@mail.example at 10.10.1.7 {pid}\n"
    b"2026-02-28T10:00:01+0000 gpu7 python[9]: \x1b[31mred\xe2\x80\xae back: key=sk-abcdefghijklmnop1234\n"
)


def hostile() -> list[Output]:
    """Return outputs of a host on which everything is meant to break something."""
    return [
        Output("systemctl cat sglang.service", UNIT),
        Output("/proc/14/cmdline, one argument a line", CMDLINE),
        Output("/etc/os-release, uname, uptime, load", OS),
        Output("package of 14", PACKAGE),
        Output("/proc/14: exe, cwd, stat, status, cgroup", ABOUT),
        Output("/proc/net/tcp and tcp6", TCP),
        Output("journal -u sglang.service -b", JOURNAL, tool="journal"),
        _file("/srv/../etc/cron.d/x", b"* * * * * root true\n"),
        _file("/etc/passwd", b"alice:x:1000:1000::/home/alice:/bin/sh\n"),
        _file("/usr/lib/other", b"elsewhere\n"),
        _file("/home/alice/notes.txt", b"--- \n%YAML 9\n\ttab: [\n\x07bell password=hunter2-and-more9\n"),
        _file("/var/log/big.log", b"0123456789abcdef" * 4 * 1024 * 8 + b"\n"),
        Output("lspci -v", b"00:01.0 VGA\n", tool="run", arguments={"command": "lspci -v"}),
    ]


def _file(path: str, data: bytes) -> Output:
    return Output(path, data, tool="read_file", path=path, arguments={"path": path})


def new(thread: Path, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``leadline case new``."""
    return leadline("case", "new", "--from", str(thread), "--out", str(out), *words)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return lab_settings(tmp_path)


def test_what_a_hostile_host_printed_stays_text_and_is_redacted(settings: Settings, tmp_path: Path) -> None:
    thread = thread_of(tmp_path / "threads" / "x", hostile(), "--disable-cuda-graph")
    made = make(settings, str(thread), name="odd", out=tmp_path / "out", force=False)
    assert made.scenario is not None
    plan = scenarios.load(str(made.scenario))
    unit = plan.units["sglang.service"]
    assert "Description=SGLang # not: a comment, {pid} *alias & \"quotes\" 'and' `more`" in unit.text
    assert "!!python/object/apply:os.system ['true']" in unit.text
    assert "HF_TOKEN=<masked:" in unit.text and 'Environment="WORD=hidden"' in unit.text
    assert unit.dropins == {"10-more.conf": "[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=0\n"}
    assert plan.venv == "/home/lab/venv" and "User=lab" in unit.text
    assert plan.package is not None and plan.package.version == "0.5.11"
    assert set(plan.files) == {
        "/etc/default/sglang",
        "/home/lab/serve/.recorded",
        "/home/lab/notes.txt",
        "/var/log/big.log",
    }
    assert len(plan.files["/var/log/big.log"]) <= 64 << 10
    for name, text in written(tmp_path / "out").items():
        assert not set(text) & {"\x1b", "\x07", "\u202e"}, name
        for secret in ("hf_abcdef", "sk-abcdef", "hunter2", "alice", "gpu7", "bob@", "10.10.1.7", "07010A0A"):
            assert secret not in text, (name, secret)


def test_what_could_not_be_recorded_is_listed_and_printed(tmp_path: Path) -> None:
    thread = thread_of(tmp_path / "threads" / "x", hostile(), "--disable-cuda-graph")
    done = new(thread, tmp_path / "out", "--name", "odd")
    assert done.returncode == 0, done.stderr
    draft_text = (tmp_path / "out" / "cases" / "odd.yaml").read_text()
    for told in (
        "the speed of sglang.service: no benchmark was run, so it answers no request",
        "/srv/../etc/cron.d/x: its path cannot be used",
        "/etc/passwd: the lab host has its own",
        "/usr/lib/other: a scenario's files do not go there",
        "/var/log/big.log: all after its first 64 KiB",
        "the value of WORD in the environment of a unit",
        "the output of: lspci -v",
    ):
        assert f"not recorded: {told}\n" in done.stdout
        assert f"# not recorded: {told}\n" in draft_text
    assert "Read every file before you share it" in done.stdout
    assert "nothing in\n# here is true because the run said so" in draft_text


def test_a_new_case_is_rated_by_an_eval_of_its_folder(settings: Settings, tmp_path: Path) -> None:
    thread = thread_of(tmp_path / "threads" / "x", hostile(), "--disable-cuda-graph")
    out = tmp_path / "out"
    make(settings, str(thread), name="odd", out=out, force=False)
    command = [str(Path(sys.executable).with_name("leadline")), "eval", "score", "--json"]
    places = ["--cases", str(out / "cases"), "--transcripts", str(out / "transcripts")]
    environment = {**os.environ, "LEADLINE_STATE_DIR": str(tmp_path / "state")}  # noqa: TID251
    done = subprocess.run(
        [*command, *places], env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["case"] == "odd" and result["score"]["scores"]["evidence"] == 1, result


def test_an_unknown_version_is_left_to_a_person(settings: Settings, tmp_path: Path) -> None:
    outputs = hostile()
    outputs[3] = Output("package of 14", PACKAGE.replace(b"0.5.11", b"0.4.77"))
    thread = thread_of(tmp_path / "threads" / "x", outputs, "--disable-cuda-graph")
    made = make(settings, str(thread), name="old", out=tmp_path / "out", force=False)
    assert made.scenario is not None
    assert scenarios.load(str(made.scenario)).package is None
    assert any("package: {name: sglang, version: 0.4.77}" in one for one in made.todo)
    assert "# TODO: package: {name: sglang, version: 0.4.77}" in made.scenario.read_text()


def test_nothing_is_written_over_unless_asked_and_the_same_comes_out(tmp_path: Path) -> None:
    thread = thread_of(tmp_path / "threads" / "x", hostile(), "--disable-cuda-graph")
    out = tmp_path / "out"
    assert new(thread, out, "--name", "odd").returncode == 0
    before = written(out)
    refused = new(thread, out, "--name", "odd")
    assert refused.returncode == 2 and "exists; give another --name, or --force" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert new(thread, out, "--name", "odd", "--force").returncode == 0
    assert written(out) == before


def test_files_go_where_evals_look_in_a_checkout(settings: Settings, tmp_path: Path) -> None:
    thread = thread_of(tmp_path / "threads" / "x", hostile(), "--disable-cuda-graph")
    (tmp_path / "evals" / "cases").mkdir(parents=True)
    made = make(settings, str(thread), name="odd", out=tmp_path, force=False)
    assert made.case == tmp_path / "evals" / "cases" / "odd.yaml"
    assert made.scenario == tmp_path / "evals" / "lab" / "scenarios" / "odd.yaml"
    assert made.transcript == tmp_path / "transcripts" / "odd.jsonl"
    assert cases.load(str(made.case)).scenario == str(made.scenario.resolve())


@pytest.mark.parametrize(
    ("until", "says"),
    [("outputs", "the investigation has not ended"), ("conclusion", "the investigation has not ended")],
)
def test_an_unfinished_investigation_gives_one_line(until: str, says: str, tmp_path: Path) -> None:
    thread = thread_of(tmp_path / "threads" / "x", hostile(), "--disable-cuda-graph", until=until)
    done = new(thread, tmp_path / "out")
    assert done.returncode != 0 and not (tmp_path / "out").exists()
    assert len(done.stderr.splitlines()) == 1 and says in done.stderr


@pytest.mark.parametrize("broken", ["torn", "line", "artifact", "missing", "empty", "nothing cited"])
def test_a_broken_investigation_gives_one_line(broken: str, tmp_path: Path) -> None:
    quote = "--no-such-flag" if broken == "nothing cited" else "--disable-cuda-graph"
    thread = thread_of(tmp_path / "threads" / "x", hostile(), quote)
    file = thread / "transcript.jsonl"
    says = {
        "torn": "the last line is torn",
        "line": f"{file}:3: ",
        "artifact": "is missing or was changed",
        "missing": "no transcript.jsonl lies there",
        "empty": "the last line is torn",
        "nothing cited": "cites nothing that can be found again",
    }[broken]
    if broken == "torn":
        file.write_bytes(file.read_bytes()[:-20])
    elif broken == "line":
        rows = file.read_text().splitlines(keepends=True)
        file.write_text("".join([*rows[:2], rows[2].replace("tool_started", "tool_strated"), *rows[3:]]))
    elif broken == "artifact":
        next((thread / "artifacts").iterdir()).write_bytes(b"other")
    elif broken == "missing":
        file.unlink()
    elif broken == "empty":
        file.write_bytes(b"")
    done = new(thread, tmp_path / "out")
    assert done.returncode != 0 and says in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "out").exists()


def test_an_id_that_is_none_is_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(LeadlineError, match="no thread nobody"):
        make(settings, "nobody", name=None, out=tmp_path, force=False)
    with pytest.raises(LeadlineError, match="not a name"):
        thread = thread_of(tmp_path / "threads" / "x", hostile(), "--disable-cuda-graph")
        make(settings, str(thread), name="../up", out=tmp_path, force=False)
