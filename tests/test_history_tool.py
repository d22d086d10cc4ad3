"""The tool `history`, on this machine's own shell: looks compared, what the host tells, what is not known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tools import history
from tools.artifacts import ArtifactStore
from tools.contract import Capture, Host, Result, ToolContext, ToolError, ToolSettings
from tools.facts_flat import Flat, Look, looked
from tools.history_store import STORE, HistoryStore
from tools.local import LocalHost

NOW = datetime.now(UTC)
FACTS = {
    "s.service engine": "sglang",
    "s.service flag pp_size": "8",
    "s.service since": "2026-01-01T00:00:00+00:00",
}


def plain(data: bytes) -> bytes:
    """Redact nothing."""
    return data


def context(root: Path, host: Host, now: Flat | None) -> ToolContext:
    """Return what the tool works with; ``now`` is the look that was just taken."""
    cache: dict[str, Any] = {STORE: HistoryStore(root / "history", plain)}
    if now is not None:
        cache[looked(host.name)] = Look(now, NOW)
    store = ArtifactStore(root / "artifacts")
    hosts = {host.name: host}
    return ToolContext("t1", hosts=hosts, store=store, redact=plain, settings=ToolSettings(), cache=cache)


def keep(ctx: ToolContext, facts: Flat, *, days: float) -> None:
    """Let the history hold an earlier look."""
    store: HistoryStore = ctx.cache[STORE]
    store.record("here", None, facts, NOW - timedelta(days=days))


def text(ctx: ToolContext, handle: str) -> str:
    """Return a kept artifact."""
    return ctx.store.get(next(ref.sha256 for ref in ctx.kept if ref.handle == handle)).decode()


async def test_both_looks_are_kept_to_cite_and_a_change_lies_between_two(tmp_path: Path) -> None:
    ctx = context(tmp_path, LocalHost("here"), FACTS)
    keep(ctx, FACTS | {"s.service flag pp_size": "4"}, days=3)
    keep(ctx, FACTS | {"s.service flag pp_size": "4", "s.service env X": "1"}, days=2)
    keep(ctx, FACTS, days=0.5)
    view = await history.run(ctx, history.Args(since="1d"))
    rows = {row["name"]: (row["before"], row["after"]) for row in view["changes"]}
    assert rows == {"s.service flag pp_size": ("4", "8"), "s.service env X": ("1", None)}
    assert "s.service flag pp_size = 4\n" in text(ctx, view["before"]["artifact"])
    assert "s.service flag pp_size = 8\n" in text(ctx, view["after"]["artifact"])
    assert text(ctx, view["summary_artifact"]).startswith("2 facts differ")
    first, last = view["changes"][0]["between"]
    assert first[:10] == f"{NOW - timedelta(days=2):%Y-%m-%d}"
    assert last[:10] == f"{NOW - timedelta(days=0.5):%Y-%m-%d}"
    assert "known_since" not in view


async def test_what_changed_and_changed_back_is_told(tmp_path: Path) -> None:
    ctx = context(tmp_path, LocalHost("here"), FACTS)
    keep(ctx, FACTS, days=3)
    keep(ctx, FACTS | {"s.service flag pp_size": "4"}, days=0.5)
    keep(ctx, FACTS, days=0.2)
    view = await history.run(ctx, history.Args(since="1d"))
    assert view["changed"] == 0
    assert view["changed_and_back"] == ["s.service flag pp_size"]


async def test_a_server_that_went_is_one_line(tmp_path: Path) -> None:
    ctx = context(tmp_path, LocalHost("here"), {"kernel": "x"})
    keep(ctx, FACTS | {"kernel": "x"}, days=2)
    view = await history.run(ctx, history.Args())
    assert view["no_longer_runs"] == ["s.service"]
    assert view["changes"] == []


async def test_without_an_earlier_look_the_host_itself_is_asked(tmp_path: Path) -> None:
    unit = tmp_path / "s.service"
    unit.write_text("[Service]\n")
    package = tmp_path / "site" / "sglang"
    (tmp_path / "site" / "sglang-0.5.11.dist-info").mkdir(parents=True)
    now = FACTS | {f"s.service file {unit}": "sha256:0", "s.service package_root": str(package)}
    now |= {"s.service dropin /nowhere/10.conf": "sha256:0"}
    ctx = context(tmp_path, LocalHost("here"), now)
    view = await history.run(ctx, history.Args(since="1h"))
    assert "no earlier look" in view["known_since"]
    told = view["host_tells"]
    assert told["file"][0].endswith(str(unit))
    assert told["package"][0].endswith("sglang-0.5.11.dist-info")
    assert "/nowhere/10.conf" in told["not_permitted"]
    assert told["file"][0] in text(ctx, told["artifact"])
    assert view["running_since"] == {"s.service": FACTS["s.service since"]}
    old = await history.run(ctx, history.Args(since="2099-01-01"))
    assert "file" not in old["host_tells"], "what is older than asked for is no change"


class Down(LocalHost):
    """Stand for a host that was reached a moment ago."""

    async def exec(self, *_: Any, **__: Any) -> Result:
        """Lose the connection."""
        return Result(
            "here", (), "connection_lost_unknown", None, None, Capture(), Capture(), False, NOW, 0.0
        )


async def test_of_a_host_that_is_gone_the_last_look_is_told(tmp_path: Path) -> None:
    ctx = context(tmp_path, Down("here"), None)
    keep(ctx, FACTS | {"s.service flag pp_size": "4"}, days=3)
    keep(ctx, FACTS, days=0.5)
    view = await history.run(ctx, history.Args(since="1d"))
    assert "connection_lost_unknown" in view["unreachable"]
    assert view["changed"] == 1
    assert "host_tells" not in view


async def test_damage_is_told_in_the_answer(tmp_path: Path) -> None:
    ctx = context(tmp_path, LocalHost("here"), FACTS)
    keep(ctx, FACTS, days=3)
    (path,) = (tmp_path / "history").glob("*.jsonl")
    path.write_bytes(path.read_bytes() + b"damaged\n")
    view = await history.run(ctx, history.Args(since="1d"))
    assert len(view["damaged"]) == 1
    assert view["changed"] == 0


@pytest.mark.parametrize(
    ("words", "back"),
    [("30m", timedelta(minutes=30)), ("7d", timedelta(days=7)), ("yesterday", timedelta(days=1))],
)
def test_moments(words: str, back: timedelta) -> None:
    assert history.moment(words, NOW) == NOW - back


def test_a_moment_of_long_ago_is_refused() -> None:
    with pytest.raises(ToolError, match="ten years"):
        history.moment("999999d", NOW)


@pytest.mark.parametrize("words", ["", "soon", "99999999999d", "2026-13-01", "-1d"])
def test_a_moment_that_is_none_says_what_may_stand(words: str) -> None:
    with pytest.raises(ToolError, match="write 30m"):
        history.moment(words, NOW)
