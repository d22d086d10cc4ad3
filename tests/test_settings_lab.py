"""Settings are explained over SSH on lab hosts: where they were asked for, what is in force, and why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from evals.lab.hosts import Lab
from tests.lab_fixtures import running, said
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.host import connect
from tools.redact import redact
from tools.settings.answer import bounded_view, full_view
from tools.settings.evidence import gather
from tools.settings.locate import locate
from tools.settings.own_words import own_words
from tools.settings.requested import requested
from tools.settings.tool import Args

pytestmark = [pytest.mark.lab, pytest.mark.slow]

UNIT = "/etc/systemd/system/sglang-kimi.service"


@pytest.fixture(scope="module")
def kimi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    settings = Settings(state_dir=tmp_path_factory.mktemp("lab"))
    with running("kimi-k26-pp8", settings) as lab:
        yield lab


@asynccontextmanager
async def context(lab: Lab, folder: Path) -> AsyncIterator[ToolContext]:
    host = await connect(lab.target(), Settings(state_dir=folder))
    store = ArtifactStore(folder / "store")
    try:
        yield ToolContext("t1", {host.name: host}, store, redact, ToolSettings(), cache_dir=folder / "cache")
    finally:
        await host.close()


async def asked(lab: Lab, folder: Path, **arguments: Any) -> dict[str, Any]:
    async with context(lab, folder) as ctx:
        return await full_view(ctx, Args(**arguments))


async def test_the_founding_case_is_explained(kimi: Lab, tmp_path: Path) -> None:
    names = ["disable_cuda_graph", "disable_piecewise_cuda_graph", "disable_overlap_schedule"]
    view = await asked(kimi, tmp_path, names=[*names, "pp_async_batch_depth"])
    assert view["unit"] == "sglang-kimi.service" and view["accepted"] is not False
    settings = view["settings"]
    graph = settings["disable_cuda_graph"]
    assert (graph["value"], graph["class"]) == (True, "launch flag")
    assert graph["requested"][0]["where"] == f"{UNIT}:18"
    assert "triton attention crashed" in graph["requested"][0]["remark"]
    assert {"text": "sglang:is_cuda_graph 0.0", "source": "metric"} in graph["observed"]
    assert [row for row in graph["overwrites"] if row["result"] == "fires"] == []
    (mis,) = [row for row in graph["overwrites"] if row["cite"].startswith("srt/server_args.py:1276@")]
    assert mis["decided_at"].startswith("srt/server_args.py:1271@")
    piecewise = settings["disable_piecewise_cuda_graph"]
    assert (piecewise["value"], piecewise["class"]) == (True, "silent override")
    (deciding,) = [step for step in piecewise["steps"] if step.get("decides")]
    assert deciding["cite"].startswith("srt/server_args.py:1212@0.5.11#")
    assert deciding["conditions"][-1]["cite"].startswith("srt/server_args.py:1211@")
    overlap = settings["disable_overlap_schedule"]
    assert (overlap["value"], overlap["class"]) == (True, "logged override")
    assert overlap["log"].endswith("Pipeline parallelism is incompatible with overlap schedule.")
    depth = settings["pp_async_batch_depth"]
    assert (depth["value"], depth["class"]) == (0, "default")
    assert any("scheduler_pp_mixin.py" in row["cite"] for row in depth["readers"])


async def test_everything_that_is_no_default_is_listed_with_its_cause(kimi: Lab, tmp_path: Path) -> None:
    view = await asked(kimi, tmp_path, what="diff")
    settings = view["settings"]
    assert settings["pp_size"]["class"] == "launch flag"
    assert settings["attention_backend"]["class"] == "logged override"
    assert "Use triton backend by default" in settings["attention_backend"]["log"]
    assert settings["pp_max_micro_batch_size"]["value"] == 1
    assert len(settings) > 300 and view["source"]["bytes_received"] < 2 << 20
    assert "files compared with RECORD" in view["source"]["record"]


async def test_a_second_look_at_a_host_costs_few_bytes(kimi: Lab, tmp_path: Path) -> None:
    first = await asked(kimi, tmp_path, names=["pp_size"])
    second = await asked(kimi, tmp_path, names=["pp_size"])
    assert second["source"]["bytes_received"] < first["source"]["bytes_received"] / 3
    assert second["source"]["commands"] < first["source"]["commands"]


async def test_a_model_gets_a_view_that_fits_and_handles_to_cite(kimi: Lab, tmp_path: Path) -> None:
    async with context(kimi, tmp_path) as ctx:
        view = await bounded_view(ctx, Args(names=["--disable-cuda-graph"]))
        assert len(json.dumps(view)) <= ctx.settings.view_chars
        handle = view["artifacts"]["srt/server_args.py"]
        (kept,) = [ref for ref in ctx.kept if ref.handle == handle]
        assert kept.path is not None and kept.path.endswith("/sglang/srt/server_args.py")
        assert "disable_cuda_graph: bool = False" in ctx.store.get(kept.sha256).decode()
        again = await bounded_view(ctx, Args(what="diff"))
        assert len(json.dumps(again)) <= ctx.settings.view_chars
        assert again["artifacts"]["srt/server_args.py"] == handle


async def test_names_units_and_processes_that_are_not_there_are_told(kimi: Lab, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"nearest: .*pp_async_batch_depth"):
        await asked(kimi, tmp_path, names=["pp_async_batch_dept"])
    with pytest.raises(ToolError, match="has no unit nothing"):
        await asked(kimi, tmp_path, names=["pp_size"], unit="nothing.service")
    with pytest.raises(ToolError, match="no process 4000000"):
        await asked(kimi, tmp_path, names=["pp_size"], pid=4_000_000)
    by_unit = await asked(kimi, tmp_path, names=["pp_size"], unit="sglang-kimi.service")
    assert str(by_unit["pid"]) == said(kimi, "systemctl show -p MainPID --value sglang-kimi.service").strip()


async def test_a_launch_line_of_vllm_is_found_where_it_was_written(tmp_path: Path) -> None:
    lab_folder = tmp_path / "state"
    with running("vllm-enforce-eager", Settings(state_dir=lab_folder)) as lab:
        async with context(lab, tmp_path) as ctx:
            host = ctx.host()
            location, tree = await locate(ctx, host)
            evidence = await gather(host, location)
            found = requested(
                location.process.argv, location.process.environ, evidence, {}, location.process.pid
            )
            names = ["model_config.max_model_len", "parallel_config.tensor_parallel_size"]
            words = own_words(location, evidence, names)
            assert await asyncio.to_thread(tree.read, "engine/arg_utils.py")
    rows = {row.word: row for row in found}
    assert (tree.engine, tree.version, location.started_as) == ("vllm", "0.33.0", "vllm serve")
    assert rows["--enforce-eager"].where.startswith("/etc/systemd/system/vllm-glm.service:")
    assert rows["VLLM_HOST_IP"].way == "unit"
    assert {name: word.value for name, word in words.items()} == {
        "model_config.max_model_len": 131072,
        "parallel_config.tensor_parallel_size": 4,
    }
