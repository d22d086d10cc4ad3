"""Plans of a change: their digest, the edit of a launch line, and what is refused without asking the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tools import launch_edit, service, transaction, unit_text
from tools.contract import Result, ToolError
from tools.display import printable
from tools.service import ChangePlan, ChangeRequest, EnvironmentChange
from tools.service_plan import alike_of, diff_of, requests_of, startup_of

NOW = datetime.now(UTC)
PLAN = ChangePlan(
    id="20260101t000000-abcdef",
    host="gpu-1",
    host_key="SHA256:abc",
    unit="sglang.service",
    setting="--disable-cuda-graph",
    from_value="true",
    to_value=None,
    exec_start_before=["/usr/bin/python3", "-m", "sglang.launch_server", "--disable-cuda-graph"],
    exec_start_after=["/usr/bin/python3", "-m", "sglang.launch_server"],
    environment=EnvironmentChange(name="A", before="1", after="2"),
    dropin_path="/etc/systemd/system/sglang.service.d/90-leadline-x.conf",
    dropin_text="[Service]\nExecStart=\nExecStart=/usr/bin/python3 -m sglang.launch_server\n",
    preimage_sha256="0" * 64,
    diff="-a\n+b",
    running_requests=0,
    queued_requests=None,
    startup_s=12.5,
    rollback_after_s=60,
    readiness_s=60,
    port=30000,
    blast_radius=["restarted"],
    restarts_needed=2,
    created_at=NOW,
    expires_at=NOW + timedelta(minutes=30),
)


@dataclasses.dataclass
class NoHost:
    """Fail when anything is run."""

    name: str = "gpu-1"
    key_fingerprint: str | None = "SHA256:abc"

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        raise AssertionError("a refused plan reached the host")

    async def forward(self, port: int) -> int:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


def changed(value: Any) -> Any:
    """Return a value that differs in its smallest part."""
    if isinstance(value, bool) or value is None:
        return "x"
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return [*value[:-1], changed(value[-1])]
    if isinstance(value, dict):
        key = sorted(value)[0]
        return {**value, key: changed(value[key])}
    return value[:-1] + ("1" if value[-1] != "1" else "2")


@pytest.mark.parametrize("name", sorted(ChangePlan.model_fields))
async def test_one_changed_byte_of_any_field_is_refused(name: str) -> None:
    raw = PLAN.model_dump(mode="json")
    value = raw[name]
    if name in ("created_at", "expires_at"):
        raw[name] = (datetime.fromisoformat(value) + timedelta(microseconds=1)).isoformat()
    elif value is None:
        raw[name] = 1 if name.endswith("_requests") or name == "startup_s" else "x"
    else:
        raw[name] = changed(value)
    other = ChangePlan.model_validate(raw)
    assert other != PLAN
    with pytest.raises(ToolError, match="not the plan that was approved"):
        await service.apply(NoHost(), other, PLAN.digest(), print)


async def test_expired_plan_other_host_and_other_key_are_refused() -> None:
    old = PLAN.model_copy(update={"expires_at": NOW - timedelta(seconds=1)})
    with pytest.raises(ToolError, match="expired"):
        await service.apply(NoHost(), old, old.digest(), print)
    with pytest.raises(ToolError, match="is for gpu-1"):
        await service.apply(NoHost(name="gpu-2"), PLAN, PLAN.digest(), print)
    with pytest.raises(ToolError, match="another host key"):
        await service.apply(NoHost(key_fingerprint="SHA256:other"), PLAN, PLAN.digest(), print)
    with pytest.raises(ToolError, match="not the id of a plan"):
        await service.status(NoHost(), "../../etc")


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("--port", "30001", "--port decides where the server listens"),
        ("--host", "0.0.0.0", "--host decides who can reach the server"),
        ("--hos", "0.0.0.0", "--host decides who can reach the server"),
        ("--api-key", "true", "--api-key decides who may use the server"),
        ("--trust-remote", "true", "--trust-remote-code decides which code runs"),
        ("--trust_remote_code", "true", "--trust-remote-code decides which code runs"),
        ("--admin_api_key", "x", "--admin-api-key decides who may use the server"),
        ("LD_PRELOAD", "/tmp/x.so", "LD_PRELOAD decides which code runs"),
        ("PYTHONPATH", "/tmp", "PYTHONPATH decides which code runs"),
        ("PATH", "/tmp", "PATH decides which code runs"),
        ("--x", "--api-key", "read as a flag of its own"),
        ("--x", "1 --host 0.0.0.0", "read as a flag of its own"),
        ("--x", "-h", "read as a flag of its own"),
        ("--x", "1" * 1_000_000, "has 1000000 characters"),
        ("--x", "1\n2", "cannot be shown"),
        ("--x", "1\x1b[2K", "cannot be shown"),
        ("--pp-size=3 --y", "1", "a setting is a flag"),
        ("--x;reboot", "1", "a setting is a flag"),
        ("A B", "1", "a setting is a flag"),
        ("AllowedCPUs", "0-3", "neither a flag nor a variable; a person"),
        ("num_thread", "4", "neither a flag nor a variable; a person"),
    ],
)
async def test_what_a_person_has_to_change_is_refused_before_anything_is_read(
    setting: str, value: str, why: str
) -> None:
    request = ChangeRequest(unit="sglang.service", setting=setting, from_value=None, to_value=value)
    with pytest.raises(ToolError, match=why):
        await service.make_plan(NoHost(), request, port=30000, now=NOW)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("--x", "-1"),
        ("--x", "-0.5e-3"),
        ("--x", '{"a": -1}'),
        ("--x", "-"),
        ("--x", ""),
        ("PYTHONHASHSEED", "1"),
    ],
)
async def test_an_odd_value_of_one_setting_reaches_the_host(setting: str, value: str) -> None:
    request = ChangeRequest(unit="sglang.service", setting=setting, from_value=None, to_value=value)
    with pytest.raises(AssertionError, match="reached the host"):
        await service.make_plan(NoHost(), request, port=30000, now=NOW)


def test_flags_that_may_be_the_same_one_are_told() -> None:
    argv = ["x", "--tp", "8", "--disable-cuda-graph", "--port=1"]
    assert alike_of(argv, "--tp-size") == ["--tp"]
    assert alike_of(argv, "--disable-cuda-gra") == ["--disable-cuda-graph"]
    assert alike_of(argv, "--disable-cuda-graph") == [] and alike_of(argv, "A") == []


def test_another_name_of_a_flag_is_told_though_it_begins_otherwise() -> None:
    assert alike_of(["x", "--tp", "8"], "--tensor-parallel-size") == ["--tp"]
    assert alike_of(["x", "-tp=8", "--model", "m"], "--tensor-parallel-size") == ["-tp"]
    assert alike_of(["x", "--tensor-parallel-size", "8"], "--tp-size") == ["--tensor-parallel-size"]
    assert alike_of(["x", "--pipeline-parallel", "8"], "--pp-size") == ["--pipeline-parallel"]
    assert alike_of(["-m", "x", "--page-size", "-1"], "--pp-size") == []


def test_plan_survives_json() -> None:
    again = ChangePlan.model_validate_json(PLAN.model_dump_json())
    assert again == PLAN and again.digest() == PLAN.digest()


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12), min_size=1),
)
def test_quoted_words_are_read_back(drawn: list[str]) -> None:
    words = [printable(word) for word in drawn]
    argv = ["/bin/x", *words]
    text = launch_edit.exec_start_dropin("", argv)
    assume(";" not in words)
    assert launch_edit.read(unit_text.parse(text).all("Service.ExecStart")).argv == argv


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/usr/bin/python3 -m x $EXTRA", "variable"),
        ("/usr/bin/python3 -m x --a=${EXTRA}", "variable"),
        ("/usr/bin/python3 -m x --name %i", "specifier"),
        ("/bin/sh -c 'exec python3 -m x'", "wrapper"),
        ("/opt/start.sh", "wrapper"),
        ("@/usr/bin/python3 python -m x", "begins with '@'"),
        ("/bin/a ; /bin/b", "no single command"),
    ],
)
def test_launch_line_that_cannot_be_edited_is_refused(line: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        launch_edit.read([line])
    for values in ([], ["/bin/a", "/bin/b"]):
        with pytest.raises(ToolError, match="ExecStart= lines"):
            launch_edit.read(values)


@pytest.mark.parametrize(
    ("before", "flag", "found", "value", "after"),
    [
        ("x --a 1 --b", "--a", "1", "2", "x --a 2 --b"),
        ("x --a=1 --b", "--a", "1", "2", "x --a=2 --b"),
        ("x --a 1 --b", "--b", "true", None, "x --a 1"),
        ("x --a 1 --b", "--a", "1", None, "x --b"),
        ("x --a 1", "--c", None, "true", "x --a 1 --c"),
        ("x --a 1", "--c", None, "-3", "x --a 1 --c -3"),
        ("x --a -1 --b", "--a", "-1", "2", "x --a 2 --b"),
        ("x --bs 1 2 4 -q", "--bs", "1 2 4", "1 2", "x --bs 1 2 -q"),
        ("x --ab 1", "--a", None, "2", "x --ab 1 --a 2"),
    ],
)
def test_flag_is_edited(before: str, flag: str, found: str | None, value: str | None, after: str) -> None:
    assert launch_edit.flag_value(before.split(), flag) == found
    assert launch_edit.with_flag(before.split(), flag, value) == after.split()


def test_flag_given_twice_is_refused() -> None:
    with pytest.raises(ToolError, match="stands 2 times"):
        launch_edit.flag_value(["x", "--a", "1", "--a=2"], "--a")


def test_start_up_is_the_longest_of_the_last_starts() -> None:
    assert startup_of("") is None
    assert startup_of("100.5 h systemd[1]: Started engine.\n") is None
    simple = (
        "100.0 h systemd[1]: Started e.\n120.0 h py[1]: Application startup complete.\n"
        "122.5 h py[1]: The server is fired up and ready to roll!\n"
        "900.0 h systemd[1]: Started e.\n910.0 h py[1]: The server is fired up and ready to roll!\n"
    )
    assert startup_of(simple) == 22.5
    notify = (
        "1.0 h systemd[1]: Starting e...\n8.0 h py[1]: Application startup complete.\n"
        "8.1 h systemd[1]: Started e.\n"
    )
    assert startup_of(notify) == 7.0


def test_requests_are_read_from_either_engine() -> None:
    assert requests_of("") == (None, None)
    assert requests_of(
        'sglang:num_running_reqs{model_name="m",tp_rank="0"} 3.0\nsglang:num_queue_reqs 2.0'
    ) == (3, 2)
    assert requests_of('vllm:num_requests_running{engine="0"} 1.0\nvllm:num_requests_waiting{e="0"} 4.0') == (
        1,
        4,
    )


def test_diff_shows_one_flag_a_line() -> None:
    before = ["/bin/x", "--a", "1", "--b"]
    assert diff_of("u.service", "d.conf", before, ["/bin/x", "--a", "2", "--b"], None).splitlines()[-4:] == [
        " /bin/x",
        "---a 1",
        "+--a 2",
        " --b",
    ]
    env = EnvironmentChange(name="A", before=None, after="1")
    assert diff_of("u.service", "d.conf", before, before, env).splitlines()[-1] == "+Environment A=1"


def test_answers_of_the_program_are_read() -> None:
    status, gone = transaction.parse(b"state=restarting\nworker=gone\ntimer=none\nprogress: one\n")
    assert status.state == "unknown" and gone and status.progress == ["one"]
    status, gone = transaction.parse(b"state=restarting\nworker=gone\ntimer=armed\nrollback_at=100\n")
    assert status.state == "armed" and gone and status.rollback_at == datetime.fromtimestamp(100, UTC)
    assert transaction.parse(b"")[0].state == "unknown"
    said = transaction.parse(b"state=failed\nby=readiness\nreason=a\x1b[2J\nfailure=b\nlines: key=\xff\n")[0]
    assert said.state == "failed" and "\x1b" not in said.reason and said.rolled_back_by == "readiness"


def test_program_carries_hostile_values_as_text() -> None:
    nasty = "x'; touch /tmp/never; '\n$(reboot)"
    sent = transaction.program(PLAN.model_copy(update={"unit": nasty})).decode()
    assert "unit='x'\"'\"'; touch /tmp/never; '\"'\"'\n$(reboot)'\n" in sent
