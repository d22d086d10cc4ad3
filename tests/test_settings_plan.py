"""A proposed change is checked against the engine's source on its host before a person sees the plan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.config import Settings
from evals.lab.hosts import Lab
from tests.lab_fixtures import running
from tools import service
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.host import connect
from tools.redact import redact
from tools.service_types import ChangeRequest
from tools.settings.plan_check import check_plan, new_of, refuse
from tools.settings.problems import Problem

UNIT = "sglang-kimi.service"


@pytest.fixture(scope="module")
def kimi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running("kimi-k26-pp8", Settings(state_dir=tmp_path_factory.mktemp("lab"))) as lab:
        yield lab


@asynccontextmanager
async def context(lab: Lab, folder: Path, **allowed: bool) -> AsyncIterator[ToolContext]:
    host = await connect(lab.target(), Settings(state_dir=folder))
    tools = ToolSettings(**allowed)
    store = ArtifactStore(folder / "store")
    try:
        yield ToolContext("t1", {host.name: host}, store, redact, tools, cache_dir=folder / "cache")
    finally:
        await host.close()


async def told(ctx: ToolContext, setting: str, before: str | None, after: str | None) -> list[str]:
    host = ctx.host()
    request = ChangeRequest(unit=UNIT, setting=setting, from_value=before, to_value=after)
    plan = await service.make_plan(host, request, port=30000, now=datetime.now(UTC))
    return await check_plan(ctx, host, plan)


@pytest.mark.lab
@pytest.mark.slow
async def test_only_a_line_that_the_engine_takes_becomes_a_plan(kimi: Lab, tmp_path: Path) -> None:
    async with context(kimi, tmp_path) as ctx:
        assert await told(ctx, "--disable-cuda-graph", "true", None) == []
        assert await told(ctx, "--pp-async-batch-depth", None, "1") == []
        with pytest.raises(ToolError, match="has no option --pp-asinc-batch-depth; the nearest is --pp-a"):
            await told(ctx, "--pp-asinc-batch-depth", None, "1")
        with pytest.raises(ToolError, match=r"--schedule-policy takes one of .* not 'nope'"):
            await told(ctx, "--schedule-policy", None, "nope")
        with pytest.raises(ToolError, match="--chunked-prefill-size takes a whole number, not 'eight'"):
            await told(ctx, "--chunked-prefill-size", None, "eight")
        with pytest.raises(ToolError, match=r"of vLLM .the longest sequence.; in SGLang it is --context"):
            await told(ctx, "--max-model-len", None, "8192")
        (old,) = await told(ctx, "--enable-piecewise-cuda-graph", None, "true")
        assert "--enable-piecewise-cuda-graph is deprecated" in old and "srt/server_args.py:" in old
        doubled = await told(ctx, "--pipeline-parallel-size", None, "4")
        assert any("--pp-size and --pipeline-parallel-size set the same" in line for line in doubled)
        (unread,) = await told(ctx, "SGLANG_ENABLE_SPEC_V3", None, "1")
        assert "no line of sglang 0.5.11 reads SGLANG_ENABLE_SPEC_V3" in unread


@pytest.mark.lab
@pytest.mark.slow
async def test_an_engine_that_cannot_be_asked_has_refused_nothing(kimi: Lab, tmp_path: Path) -> None:
    async with context(kimi, tmp_path, ask_engine=True) as ctx:
        (said,) = await told(ctx, "--disable-cuda-graph", "true", None)
    assert said.startswith("the engine's own argument class could not be asked: ModuleNotFoundError"), said


def test_what_is_said_of_the_line_that_runs_is_not_held_against_a_change() -> None:
    doubt = Problem("rejected", "", "the engine refuses this launch line: a")
    other = Problem("rejected", "", "the engine refuses this launch line: b")
    unknown = Problem("unknown_flag", "--x", "no option --x")
    assert new_of([doubt], [doubt, other]) == []
    assert new_of([], [other]) == [other]
    assert new_of([unknown], [unknown]) == []
    refuse([Problem("deprecated", "--x", "--x is deprecated")])
    with pytest.raises(ToolError, match="would not start with this launch line: no option --x"):
        refuse([unknown])
