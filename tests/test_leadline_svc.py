"""The root-owned helper trusts no caller: every argument and every field that lies is refused."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tools import launch_edit
from tools.contract import ToolError
from tools.service_types import ChangePlan, EnvironmentChange
from tools.transaction import program

FILE = Path(__file__).parent.parent / "deploy/leadline-svc"
UNIT = "sglang.service"
ID = "20260131t101500-a1b2c3"
ARGV = [
    "/opt/venv/bin/python",
    "-m",
    "sglang.launch_server",
    "--tp",
    "8",
    "--label",
    'two "words", 100% $x é',
]
MAY = {
    UNIT: {
        "flags": {"--start-s": "[0-9.]+", "--chunk": ".*", "--label": ".*"},
        "environment": {"NCCL_DEBUG": ".*"},
        "service": {"Nice": "-?[0-9]+", "LimitNOFILE": "[0-9]+|infinity"},
        "ports": [30000, 8000],
    }
}


def load() -> Any:
    """Return the helper as a module."""
    loader = importlib.machinery.SourceFileLoader("leadline_svc", str(FILE))
    spec = importlib.util.spec_from_loader("leadline_svc", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


SVC = load()


def plan_of(setting: str = "--start-s", value: str | None = "0.3", **fields: Any) -> ChangePlan:
    """Return a plan as planning makes it."""
    now = datetime.now(UTC)
    is_flag = setting.startswith("--")
    after = launch_edit.with_flag(ARGV, setting, value) if is_flag else ARGV
    text = (
        launch_edit.exec_start_dropin("", after)
        if is_flag
        else launch_edit.environment_dropin(setting, value)
    )
    about: dict[str, Any] = {
        "id": ID,
        "host": "gpu1",
        "host_key": "SHA256:x",
        "unit": UNIT,
        "setting": setting,
        "from_value": None,
        "to_value": value,
        "exec_start_before": ARGV,
        "exec_start_after": after,
        "environment": None if is_flag else EnvironmentChange(name=setting, before=None, after=value),
        "dropin_path": f"/etc/systemd/system/{UNIT}.d/90-leadline-{ID}.conf",
        "dropin_text": text,
        "preimage_sha256": "0" * 64,
        "diff": "",
        "running_requests": 0,
        "queued_requests": 0,
        "startup_s": None,
        "rollback_after_s": 60.0,
        "readiness_s": 60.0,
        "port": 30000,
        "blast_radius": [],
        "restarts_needed": 2,
        "created_at": now,
        "expires_at": now + timedelta(minutes=30),
    }
    return ChangePlan.model_validate(about | fields)


def checked(
    raw: bytes, *, digest: str | None = None, plan_id: str = ID, begins: bool = True, now: float | None = None
) -> bytes:
    """Return the header that the helper makes of a plan, on a host with one known launch line."""
    header = SVC.check_plan(
        raw,
        plan_id,
        digest or hashlib.sha256(raw).hexdigest(),
        MAY,
        now if now is not None else time.time(),
        begins,
        lambda unit: (ARGV, False),
    )
    assert isinstance(header, bytes)
    return header


def canonical(plan: dict[str, Any]) -> bytes:
    return json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("--start-s", "0.3"),
        ("--chunk", "true"),
        ("--label", 'a "b" \\ 5% $y é'),
        ("--label", None),
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_DEBUG", None),
    ],
)
def test_a_plan_as_planning_makes_it_gives_the_same_program(setting: str, value: str | None) -> None:
    plan = plan_of(setting, value)
    header = checked(plan.canonical(), digest=plan.digest())
    names = [
        *("plan_id", "unit", "port", "digest", "plan_json", "preimage", "dropin", "dropin_text"),
        *("rollback_after", "readiness", "restarts_needed", "expires", "undoes"),
    ]
    script = 'printf "%s\\0" ' + " ".join(f'"${name}"' for name in names)
    ours = program(plan)[: -len((FILE.parent.parent / "tools/transaction.sh").read_bytes())]
    made = [
        subprocess.run(["sh", "-s"], input=head + script.encode(), capture_output=True, check=True).stdout
        for head in (header, ours)
    ]
    assert made[0] == made[1] and made[0].count(b"\0") == 13


def test_the_edits_are_those_of_planning() -> None:
    rng = random.Random(7)
    words = [
        "--a",
        "--b=1",
        "--a=2",
        "-x",
        "-1",
        "v w",
        '"q"',
        "\\",
        "%i",
        "$HOME",
        "é",
        "--bb",
        "-O3",
        "5",
        "{}",
        "",
        "a;b",
        "'",
        "-",
    ]
    for _ in range(4000):
        argv = ["/bin/x", *rng.choices(words, k=rng.randrange(9))]
        value = rng.choice([None, "true", "1 2", *words])
        flag = rng.choice(["--a", "--b", "--c"])
        try:
            wanted: list[str] | None = launch_edit.with_flag(argv, flag, value)
        except ToolError:
            wanted = None
        try:
            found = SVC.with_flag(argv, flag, value)
        except SVC.Refused:
            found = None
        assert found == wanted, (argv, flag, value)
        if wanted is not None:
            assert SVC.exec_start_text(wanted, False) == launch_edit.exec_start_dropin("", wanted)
            assert SVC.exec_start_text(wanted, True) == launch_edit.exec_start_dropin("-", wanted)
        assert SVC.environment_text("X", value) == launch_edit.environment_dropin("X", value)


EVIL: tuple[Any, ...] = (
    "x\nExecStartPre=/bin/sh -c id",
    "x\r[Service]\rUser=root",
    "x\n\n[Service]\nExecStart=/bin/sh",
    "%i",
    "%n/../../x",
    "../../../etc/passwd",
    "/etc/shadow",
    "-p",
    "--property=User=root",
    "nul\0byte",
    "\ud800",
    "\u202e\u2066x",
    "\x1b[2J",
    "'; touch /tmp/x; '",
    "$(id)",
    "`id`",
    "a" * 1_000_000,
    "",
    None,
    True,
    [],
    {},
    0,
    -1,
    1e300,
    2**70,
)
BOUND = (
    *(
        "id",
        "unit",
        "setting",
        "to_value",
        "exec_start_before",
        "exec_start_after",
        "dropin_path",
        "dropin_text",
    ),
    *("preimage_sha256", "rollback_after_s", "readiness_s", "port", "restarts_needed", "expires_at"),
)


@pytest.mark.threat(6)
def test_every_evil_value_in_every_field_is_refused(record_property: Callable[[str, object], None]) -> None:
    base = json.loads(plan_of().canonical())
    cases = 0
    for field in BOUND:
        for evil in EVIL:
            if evil == base[field]:
                continue
            changed = base | {field: evil}
            if field in ("exec_start_before", "exec_start_after") and isinstance(evil, str):
                changed[field] = [*base[field], evil]
            with pytest.raises(SVC.Refused):
                checked(canonical(changed))
            cases += 1
    record_property("cases", cases)
    assert cases > 300


@pytest.mark.threat(6)
def test_one_changed_byte_of_the_drop_in_is_refused(record_property: Callable[[str, object], None]) -> None:
    cases = 0
    for plan in (plan_of(), plan_of("NCCL_DEBUG", "INFO")):
        base = json.loads(plan.canonical())
        text = base["dropin_text"]
        for at in range(len(text)):
            other = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
            for changed in (other, text[:at] + text[at + 1 :], text[:at] + " " + text[at:]):
                with pytest.raises(SVC.Refused):
                    checked(canonical(base | {"dropin_text": changed}))
                cases += 1
    record_property("cases", cases)


@pytest.mark.threat(6)
def test_a_value_cannot_carry_a_second_setting(record_property: Callable[[str, object], None]) -> None:
    """The plan is whole and its drop-in follows from the value; only the value is evil."""
    evil = [
        "1 --trust-remote-code",
        "--host",
        "-x",
        "1\n[Service]",
        "1\nUser=root",
        "a\0b",
        "1\u2028User=root",
        "\x85",
        "x" * 2001,
    ]
    cases = 0
    for setting in ("--label", "NCCL_DEBUG"):
        for value in evil[3:] if setting == "NCCL_DEBUG" else evil:
            with pytest.raises(SVC.Refused):
                checked(plan_of(setting, value).canonical())
            cases += 1
    with pytest.raises(SVC.Refused, match="does not allow this value"):
        checked(plan_of("--start-s", "fast").canonical())
    # A specifier and a variable are written so that systemd reads them as plain text.
    assert b'"%%i $$HOME"' in checked(plan_of("--label", "%i $HOME").canonical())
    record_property("cases", cases + 1)


def refusal(raw: bytes, **how: Any) -> str:
    with pytest.raises(SVC.Refused) as caught:
        checked(raw, **how)
    return str(caught.value)


def test_what_is_not_allowed_is_named() -> None:
    assert "--tp' of this unit is not in /etc/leadline/allow.json" in refusal(
        plan_of("--tp", "4").canonical()
    )
    assert "OMP_NUM_THREADS" in refusal(plan_of("OMP_NUM_THREADS", "4").canonical())
    other = plan_of(
        unit="vllm.service", dropin_path=f"/etc/systemd/system/vllm.service.d/90-leadline-{ID}.conf"
    )
    assert "vllm.service is not in /etc/leadline/allow.json" in refusal(other.canonical())


def test_a_change_is_verified_where_the_unit_serves_and_for_long_enough() -> None:
    """Another port may answer for a broken server, or be told things by root."""
    assert checked(plan_of(port=8000).canonical())
    assert "port 22 of sglang.service is not in /etc/leadline/allow.json" in refusal(
        plan_of(port=22).canonical()
    )
    checked(plan_of(port=22).canonical(), begins=False)  # the way back is not held up by an edit of the file
    for name in ("readiness_s", "rollback_after_s"):
        short = plan_of().model_copy(update={name: 9.9})
        assert f"{name} of the plan is not 10 to 10800" in refusal(short.canonical())


def test_what_root_began_itself_is_roots_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SVC, "BASE", str(tmp_path))
    monkeypatch.setattr(SVC, "trusted", lambda path: json.dumps({"units": {UNIT: {}}}).encode())
    entered: list[str] = []

    def enter(verb: str, plan_id: str, rest: list[str]) -> int:
        entered.append(verb)
        return 0

    monkeypatch.setattr(SVC, "enter", enter)
    header = checked(plan_of().canonical())
    for name, head in (("ours", header), ("roots", program(plan_of()))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "transaction.sh").write_bytes(head)
        (tmp_path / name / "plan.json").write_bytes(plan_of().canonical())
    for verb in ("order", "confirm", "extend", "withdraw", "forget", "release", "status"):
        assert SVC.go_on(verb, "ours") == 0
        if verb == "status":
            assert SVC.go_on(verb, "roots") == 0
            continue
        with pytest.raises(SVC.Refused, match="begun by root itself"):
            SVC.go_on(verb, "roots")
    assert entered.count("confirm") == 1 and SVC.go_on("withdraw", "never-begun") == 0


def test_time_is_the_hosts() -> None:
    plan = plan_of()
    assert "expired by this host's clock" in refusal(plan.canonical(), now=time.time() + 1801)
    assert "expires later than 7200 s" in refusal(plan.canonical(), now=time.time() - 7200)
    ahead = plan_of(clock_skew_s=7200.0)  # the planner saw this host's clock two hours ahead
    checked(ahead.canonical(), now=time.time() + 7200)
    assert "expires later" in refusal(plan_of(clock_skew_s=1e9).canonical())


def test_a_plan_has_one_form_and_one_digest() -> None:
    raw = plan_of().canonical()
    assert "of that digest" in refusal(raw, digest="0" * 64)
    assert "one form" in refusal(raw + b"\n")
    assert "one form" in refusal(raw.replace(b'"port":30000', b'"port": 30000'))
    assert "stands twice" in refusal(raw.replace(b'"port":30000', b'"port":1,"port":30000'))
    assert "cannot be read" in refusal(raw[:-1])
    assert "NaN" in refusal(raw.replace(b"60.0", b"NaN"))
    assert "another id" in refusal(raw, plan_id="20260131t101500-a1b2c4")
    assert "more than 262144 bytes" in refusal(b"[" * 300_000)
    assert "cannot be read" in refusal(b"[" * 200_000)
    assert "is no object" in refusal(b"[]")


def test_taking_back_needs_the_unit_and_the_place() -> None:
    plan = plan_of()
    header = checked(plan.canonical(), begins=False, now=time.time() + 10**7).decode()
    assert f"dropin='/etc/systemd/system/{UNIT}.d/90-leadline-{ID}.conf'" in header
    first = "20260130t101500-0f0f0f"
    path = f"/etc/systemd/system/{UNIT}.d/90-leadline-{first}.conf"
    text = launch_edit.exec_start_dropin("", ARGV)
    undo = plan_of(undoes=first, dropin_path=path, dropin_text=text, from_value="0.3", to_value=None)
    assert f"undoes='{first}'" in checked(undo.canonical()).decode()
    other = undo.model_copy(update={"setting": "--tp"})
    assert "'--tp' of this unit is not in" in refusal(other.canonical())
    other = undo.model_copy(update={"dropin_text": launch_edit.exec_start_dropin("", [*ARGV, "--x"])})
    assert "not what the setting and its value give" in refusal(other.canonical())
    fields = {"undoes": first, "dropin_path": path}
    variable = plan_of("NCCL_DEBUG", "INFO", **fields, from_value="INFO")
    checked(variable.canonical())
    assert "its value give" in refusal(variable.model_copy(update={"from_value": "WARN"}).canonical())
    assert "would not be" in refusal(plan_of(undoes=first).canonical())
    assert "undoes of the plan" in refusal(plan_of(undoes="../x", dropin_path=path).canonical())
