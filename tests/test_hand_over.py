"""Engines that no unit starts: seen as what they are, and their changes given as steps for a person."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.casefile import build, to_markdown
from agent.casefile_html import to_html
from agent.events import ToolFinished
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import EVIDENCE, HYPOTHESIS, call, turn
from tests.trial_parts import go, open_session, propose, results
from tools.artifacts import ArtifactStore
from tools.contract import HostArgs, Tool, ToolContext
from tools.facts_parse import started_by
from tools.launch_manual import manual_steps

HEX = "3f2a" * 16


@pytest.mark.parametrize(
    ("cgroup", "started"),
    [
        (f"0::/system.slice/docker-{HEX}.scope", {"kind": "container", "runtime": "docker", "id": HEX}),
        (f"12:memory:/docker/{HEX}", {"kind": "container", "runtime": "docker", "id": HEX}),
        (
            f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{HEX}.scope/container",
            {"kind": "container", "runtime": "podman", "id": HEX},
        ),
        (
            f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{HEX}.scope",
            {"kind": "container", "runtime": "kubernetes", "id": HEX},
        ),
        (f"4:cpu:/kubepods/besteffort/pod1/{HEX}", {"kind": "container", "runtime": "kubernetes", "id": HEX}),
        ("0::/user.slice/user-0.slice/session-3.scope", {"kind": "hand", "by": "session-3"}),
        (
            "0::/user.slice/user-0.slice/user@0.service/tmux-spawn-1.scope",
            {"kind": "hand", "by": "tmux-spawn-1"},
        ),
        ("0::/", {"kind": "hand", "by": "by hand"}),
    ],
)
def test_what_started_a_process_is_read_from_its_cgroup(cgroup: str, started: dict[str, str]) -> None:
    assert started_by([cgroup]) == started


def engine(**more: Any) -> dict[str, Any]:
    row = {
        "pid": 4242,
        "unit": None,
        "argv": ["/usr/bin/python3", "-m", "sglang.launch_server", "--port", "30000", "--disable-cuda-graph"],
        "port": 30000,
        "user": "llm",
        "cwd": "/srv/llm",
        "started": {"kind": "hand", "by": "session-3"},
    }
    return {**row, **more}


def test_steps_for_a_process_that_was_started_by_hand() -> None:
    steps = manual_steps(engine(), "--disable-cuda-graph", "true", None)
    text = "\n".join(steps)
    assert "process 4242 was not started by a unit (session-3)" in steps[0]
    assert "start it as llm in /srv/llm: leave --disable-cuda-graph out" in text
    assert "the launch line is then: /usr/bin/python3 -m sglang.launch_server --port 30000" in steps
    assert "`leadline settings HOST disable_cuda_graph`" in text and "gone from the launch line" in text
    assert steps[-1].endswith("add --disable-cuda-graph")


def test_steps_for_a_container_name_its_runtime_and_its_files() -> None:
    row = engine(started={"kind": "container", "runtime": "docker", "id": HEX})
    steps = manual_steps(row, "NCCL_DEBUG", None, "a b")
    assert f"docker, {HEX[:12]}" in steps[0]
    assert steps[1] == (
        "in `-e` of the `docker run` line, or `environment:` in the compose file: add NCCL_DEBUG='a b'; then "
        "start the container anew (docker compose up -d, or rm and run)"
    )
    assert "leave NCCL_DEBUG out in the same place" in steps[-1]


def test_a_secret_in_the_launch_line_is_not_told() -> None:
    row = engine(argv=["python3", "--api-key", "sk-1234", "--x", "1"])
    text = "\n".join(manual_steps(row, "--x", "1", "2"))
    assert "sk-1234" not in text and "--x 2" in text
    twice = engine(argv=["python3", "--x", "1", "--x", "2"])
    assert any("edited with care" in step for step in manual_steps(twice, "--x", "1", "2"))
    assert any(
        "--y is not set in the process's own line" in s for s in manual_steps(engine(), "--y", "1", "2")
    )


def facts_of(row: dict[str, Any]) -> Tool[Any]:
    async def run(ctx: ToolContext, args: HostArgs) -> dict[str, Any]:
        ref = ctx.keep(b"--disable-cuda-graph\n", host="here", label="cmdline", taken_at=datetime.now(UTC))
        return {"host": "here", "engines": [row], "artifacts": {"cmdline:1": ref.handle}}

    return Tool(name="facts", description="Facts.", args=HostArgs, run=run)


@pytest.mark.parametrize("mode", ["apply", "propose"])
@pytest.mark.parametrize(
    "started", [{"kind": "hand", "by": "session-3"}, {"kind": "container", "runtime": "podman", "id": HEX}]
)
async def test_the_change_is_given_as_steps_in_answer_and_case_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, started: dict[str, str]
) -> None:
    import tests.trial_parts as parts

    service = FakeService(FileHost(tmp_path / "host.json"))
    plain = parts.tools(service)
    monkeypatch.setattr(parts, "tools", lambda service: {**plain, "facts": facts_of(engine(started=started))})
    end = call("conclude", outcome="needs_person", summary="x", causes=[], claims=[], next_step="do it")
    script = [turn(HYPOTHESIS), turn(EVIDENCE), turn(propose()), turn(end)]
    session = open_session(tmp_path, service, script, mode=mode)
    await go(session)
    await session.close()
    (found,) = results(session)
    assert service.calls == [] and "4242" in found["instructions"][0]
    if mode == "apply":
        assert found["result"] == "not_applied" and "a person has to make the change" in found["why"]
    store = ArtifactStore(session.folder / "artifacts")
    case = build(session.events, store)
    assert case.changes[0].instructions == found["instructions"]
    page, text = to_html(case, session.events, store), to_markdown(case)
    assert "For a person to do" in page and "For a person to do" in text
    told = [event for event in session.events if isinstance(event, ToolFinished) and event.tool == "facts"]
    assert json.loads(told[0].view)["engines"][0]["started"] == started
