"""Secrets that only other lines give away: in lists, blocks, logs, and where a tool shows some lines only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import grep, read_file, run
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolSettings
from tools.local import LocalHost
from tools.redact import redact

SECRET = "c4N4ryV4lu3x7Qz"
PLACES = [
    "- --api-key\n- {}",
    '  - "--api-key"\n  - {}\n',
    "  - '--api-key'\n  - '{}'\n",
    "- --api-key\n# a remark\n- {}",
    "- --api-key\r\n- {}\r\n",
    "+- --api-key\n+- {}\n",
    "12:- --api-key\n13:- {}",
    "x.yaml-12-- --api-key\nx.yaml:13:- {}",
    "- --api-key\n- |\n  {}\n",
    "--api-key \\\n  {}",
    "password: |\n  {}\n  more\nnext: 1",
    "password: >-\n  {}\n",
    "api_key:\n  {}\n",
    "api_keys:\n  - {}\n  - other\n",
    "kind: Secret\ndata:\n  a: {}\n",
    "data:\n  a: {}\nkind: Secret\n",
    '{"kind": "Secret", "data": {"a": "{}", "b": "{}"}}',
    "args: {'api_key': ['{}', 'x'], 'port': 1}",
    "Nov 29 10:00:00 gpu1 run[7]: - --api-key\nNov 29 10:00:00 gpu1 run[7]: - {}",
    "2026-11-29T10:00:00+0000 gpu1 run[7]: password: |\n2026-11-29T10:00:01+0000 gpu1 run[7]:   {}",
]
ORDINARY = [
    "tokens:\n  - prompt\n  - completion\n",
    "max_tokens:\n  4096\n",
    "kind: ConfigMap\ndata:\n  port: '30000'\n",
    "args:\n- --tokenizer-path\n- /models/kimi\n",
    "key:\n  name: x\n  path: /etc/x\n",
    "- --api-key-file\n- /etc/key.txt\n",
    "Nov 29 10:00:00 gpu1 run[7]: #token: 8231\nNov 29 10:00:00 gpu1 run[7]: done",
]


@pytest.mark.threat(2)
@pytest.mark.parametrize("place", PLACES)
def test_a_value_is_masked_for_what_stands_on_another_line(place: str) -> None:
    text = place.replace("{}", SECRET)
    masked = redact(text.encode())
    assert SECRET.encode() not in masked and b"<masked:secret:" in masked
    assert masked.count(b"\n") == text.count("\n")
    assert redact(masked) == masked


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_lines_stay(text: str) -> None:
    assert redact(text.encode()) == text.encode()


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    return ToolContext(
        "t1", {"local": LocalHost("local")}, ArtifactStore(tmp_path / "store"), redact, ToolSettings()
    )


async def seen(ctx: ToolContext, tool: Any, **values: Any) -> str:
    view = await tool.run(ctx, tool.Args(**values))
    return json.dumps(
        view["results"] if "results" in view else view.get("text", view.get("stdout"))
    ) + "".join(ctx.store.get(ref.sha256).decode() for ref in ctx.kept)


@pytest.mark.threat(2)
@pytest.mark.parametrize("place", PLACES[:-2])
async def test_a_tool_that_shows_the_one_line_masks_it(place: str, tmp_path: Path, ctx: ToolContext) -> None:
    file = tmp_path / "deploy.yaml"
    file.write_bytes(place.replace("{}", SECRET).encode() + b"\nlast\n")
    number = 1 + file.read_text().split(SECRET)[0].count("\n")
    for tool, values in (
        (grep, {"path": str(file), "pattern": SECRET[:4]}),
        (grep, {"path": str(tmp_path), "pattern": SECRET[-4:], "glob": "*.yaml"}),
        (read_file, {"path": str(file), "start": number, "end": number}),
        (run, {"command": f"cat {file}"}),
        (run, {"command": f"grep -n {SECRET[:4]} {file}"}),
        (run, {"command": f"tail -n 2 {file}"}),
        (run, {"command": f"sed -n {number},{number}p {file}"}),
    ):
        assert SECRET not in await seen(ctx, tool, **values), (tool, values)


@pytest.mark.threat(2)
async def test_a_range_of_a_large_file_is_read_with_the_lines_before_it(
    tmp_path: Path, ctx: ToolContext
) -> None:
    file = tmp_path / "large.yaml"
    filler = "# nothing but a remark in here\n" * 150_000
    file.write_text(f"{filler}- --api-key\n- {SECRET}\nlast: 1\n")
    view = await read_file.run(ctx, read_file.Args(path=str(file), start=150_002, end=150_003))
    assert view["text"].startswith("150002: - <masked:secret:") and view["text"].endswith("150003: last: 1")
    assert SECRET.encode() not in ctx.store.get(ctx.kept[0].sha256)


@pytest.mark.threat(2)
async def test_a_search_of_more_files_than_are_read_masks_lone_words(
    tmp_path: Path, ctx: ToolContext
) -> None:
    for number in range(230):
        (tmp_path / f"{number}.yaml").write_text(f"- --api-key\n- {SECRET}{number}\n")
    assert SECRET not in await seen(ctx, grep, path=str(tmp_path), pattern=SECRET, glob="*.yaml")
