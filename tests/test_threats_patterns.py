"""A pattern made to run for ever ends soon, wherever a model may give one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.checks import compile_pattern, evaluate, number_in, validate
from agent.state import RatioCheck, TextCheck, ValueCheck
from tools import grep, run
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.local import LocalHost

PATTERNS = [
    "(a+)+$",
    "(a|aa)+$",
    "(a|a)*b",
    "(a*)*b",
    "((a*)*)*b",
    "(.*a){25}b",
    "(.*)*(.*)*(.*)*x$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(?:a?){60}a{60}b",
    "(a{1,100}){1,100}b",
    "a{1000}{1000}",
    "(((((((((((((((((((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+$",
    "|".join(f"(a{{{number}}}b)" for number in range(1, 200)),
    "(?i)(ſ|s|k|K)+$",
    r"(a+)\1+b",
    "(?=(a+))a*b",
    "(" * 1000 + "a" + ")" * 1000,
    "[a-z" * 10,
]
TEXT = "a" * 2_000 + "!"
SOON_S = 20.0
"""Far above what a call takes, so that a slow machine fails no test; a pattern that runs away takes hours."""


def context(root: Path, host: LocalHost) -> ToolContext:
    return ToolContext(
        call_id="t1",
        hosts={"here": host},
        store=ArtifactStore(root / "artifacts"),
        redact=lambda data: data,
        settings=ToolSettings(),
    )


@pytest.mark.threat(10)
def test_patterns_of_the_ledger_and_of_claims_are_linear(
    record_property: Callable[[str, object], None],
) -> None:
    """Checked over 2,000 characters, several ways each; one that is no RE2 is refused with the reason."""
    refused = 0
    for pattern in PATTERNS:
        try:
            compile_pattern(pattern).search(TEXT)
        except ToolError:
            refused += 1
            continue
        evaluate(TextCheck(pattern=pattern, present=False), TEXT, TEXT, None)
        for check in (
            ValueCheck(pattern=f"({pattern})", op=">", value=1),
            RatioCheck(pattern=pattern, op=">", value=1),
        ):
            try:
                validate(check)
                evaluate(check, TEXT, TEXT, None)
                number_in(f"(?:{pattern})([0-9]+)", TEXT)
            except ToolError:
                pass
    assert 2 <= refused < len(PATTERNS) // 2
    record_property("cases", len(PATTERNS))


@pytest.mark.threat(10)
async def test_patterns_for_grep_end_on_the_host(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "x.py").write_text(f"x = '{TEXT}'\n" * 20)
    host = LocalHost("here")
    for pattern in PATTERNS:
        ctx = context(tmp_path, host)
        args = grep.Args(pattern=pattern, path=str(source), judge=False)
        async with asyncio.timeout(SOON_S):
            try:
                await grep.run(ctx, args)
            except ToolError as error:
                assert "pattern" in str(error) or "regex" in str(error) or "did not" in str(error), error
    await host.close()
    record_property("cases", len(PATTERNS))


@pytest.mark.threat(10)
@pytest.mark.parametrize("tool", ["grep -P", "rg -P", "grep -E", "rg"])
async def test_a_command_that_backtracks_is_ended(tmp_path: Path, tool: str) -> None:
    """What backtracks on the host is bounded by its own limit or by the time the call gives it."""
    (tmp_path / "x").write_text(f"{TEXT}\n")
    host = LocalHost("here")
    args = run.Args(command=f"{tool} '(a|aa)+$' {tmp_path}/x", timeout_s=2)
    async with asyncio.timeout(SOON_S):
        try:
            view: dict[str, Any] = await run.run(context(tmp_path, host), args)
        except ToolError:
            view = {"outcome": "refused"}
    await host.close()
    assert view["outcome"] in ("exited", "timed_out_killed", "refused", "signaled")
    assert view.get("exit_code") != 0
