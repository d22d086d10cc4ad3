"""Run a command that only reads, after the policy; anything else is sent back with the reason."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from tools.contract import Capture, Host, HostArgs, Result, Tool, ToolContext, ToolError
from tools.display import printable
from tools.policy import Decision, judge, policy_in_force
from tools.policy_paths import read_denied, tree_denied
from tools.policy_settings import SWITCHED_OFF, PolicySettings
from tools.reshaped import conceal, reshapes, secrets_behind

if TYPE_CHECKING:
    from tools.contract import ArtifactRef

_STDERR_CHARS = 2000
_LINE_CHARS = 2000
_FRAME_CHARS = 1200
BOUNDED = ("sh", "-c", 'ulimit -v 2097152 2>/dev/null; exec "$@"', "sh")
"""Goes before a command that may take no more than 2 GiB of memory."""
_REAL_PATHS = (
    'for f; do readlink -f -- "$f" || echo; '
    'if [ -p "$f" ]; then echo "a FIFO"; elif [ -S "$f" ]; then echo "a socket"; '
    'elif [ -b "$f" ] || [ -c "$f" ]; then echo "a device"; else echo; fi; done'
)
"""Prints two lines for each path: where it really leads, and what it is when it is no file to read."""
_RANGE = re.compile(r"([0-9]+)(?:,[0-9]+)?p")


class Args(HostArgs):
    """Say what to run: one command or pipeline, quoted with ``'...'``."""

    command: str = Field(
        min_length=1,
        max_length=4000,
        description="One read-only command or pipeline, such as: ps -ef | grep sglang. Of a shell only | "
        "< FILE 2>/dev/null 2>&1 and quotes are understood; quote * ? [ { $ with '...'.",
    )
    timeout_s: float = Field(default=30.0, ge=1, le=300)


@dataclass(frozen=True, slots=True)
class Shown:
    """Hold the part of an output that fits the view."""

    text: str
    lines: int
    cut: str | None


def allowed(command: str, settings: PolicySettings | None = None) -> Decision:
    """Return the decision on a command that may run without a person; raise `ToolError` for any other."""
    decision = judge(command, policy_in_force(settings) if settings else None)
    if decision.verdict == "ask":
        raise ToolError(
            f"not run, it is not known to only read: {decision.reason}; "
            "where its answer matters, say in the conclusion that a person has to run it by hand"
        )
    if decision.verdict == "refuse":
        raise ToolError(f"refused: {decision.reason}")
    return decision


def entered(args: Args, ctx: ToolContext) -> list[str]:
    """Return what goes before a command so that it runs in the process root asked for."""
    if args.process_root is None:
        return []
    if not ctx.settings.allow_container_exec:
        raise ToolError(
            f"running inside the root of process {args.process_root} needs the site's consent "
            "(setting tools.allow_container_exec), which is missing; grep and read_file take process_root, "
            f"and cat or ls take /proc/{args.process_root}/root/PATH"
        )
    return ["nsenter", "--target", str(args.process_root), "--mount", "--net", "--"]


async def _check_links(host: Host, enter: list[str], decision: Decision) -> None:
    """Judge where the paths of a command really lead; the text of a path says nothing about links."""
    if not decision.reads:
        return
    result = await host.exec(
        [*enter, "sh", "-c", _REAL_PATHS, "sh", *decision.reads], timeout_s=10, retry=True
    )
    _check_entered(enter, result)
    lines = result.stdout.data.decode("utf-8", "surrogateescape").split("\n")[:-1]
    if not result.ok or len(lines) != 2 * len(decision.reads):
        raise ToolError(f"on {host.name} it could not be told where the paths of this command lead")
    for path, target, special in zip(decision.reads, lines[::2], lines[1::2], strict=True):
        why = f"{target}, which is {special}, no regular file" if special else None
        if target == "/dev/null":
            why = None
        if target and why is None:
            why = tree_denied(target) if path in decision.trees else read_denied(target)
        if why:
            raise ToolError(f"refused: {path} leads to {printable(why)}")


def _check_entered(enter: list[str], result: Result) -> None:
    if enter and not result.ok and result.stderr.head.startswith((b"nsenter:", b"sh: ")):
        said = printable(result.stderr.head[:200].decode("utf-8", "replace")).strip()
        raise ToolError(f"not permitted: entering process {enter[2]} needs CAP_SYS_ADMIN there ({said})")


def whole_lines(capture: Capture) -> bytes:
    """Return what was kept without the lines cut in two at the gap: half a secret is not known for one."""
    if capture.complete:
        return capture.data
    head = capture.head[: max(capture.head.rfind(b"\n"), capture.head.rfind(b" ")) + 1]
    tail = capture.tail[capture.tail.find(b"\n") + 1 :]
    missing = capture.total - len(head) - len(tail)
    return head + f"\n[... {missing} bytes left out ...]\n".encode() + tail


def source_of(decision: Decision) -> tuple[str | None, int]:
    """Return which file the output is a copy of, and from which line on; None when it is not plainly one."""
    if not decision.direct or len(decision.reads) != 1:
        return None, 1
    name, *args = decision.argv[0]
    if name == "cat" and len(args) == 1:
        return decision.reads[0], 1
    if name == "sed" and len(args) == 3 and args[0] == "-n" and (found := _RANGE.fullmatch(args[1])):
        return decision.reads[0], int(found[1])
    return None, 1


def fit(data: bytes, budget: int, handle: str, first_line: int = 1) -> Shown:
    """Return the head and the tail of an output within ``budget`` characters, and say what is left out."""
    text = printable(data.decode("utf-8", "replace").replace("\0", " "))
    lines = text.removesuffix("\n").split("\n") if text else []
    clipped = [line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]} [...]" for line in lines]
    if sum(len(line) + 2 for line in clipped) <= budget:
        long = "long lines are cut; all is in " + handle if clipped != lines else None
        return Shown("\n".join(clipped), len(lines), long)
    head = _fitting(clipped, budget * 2 // 3)
    tail = _fitting(clipped[:head:-1], budget - sum(len(line) + 2 for line in clipped[:head]) - 60)
    left_out = len(lines) - head - tail
    shown = [*clipped[:head], f"[... {left_out} lines left out ...]", *clipped[len(lines) - tail :]]
    first, last, end = (first_line + count for count in (head, len(lines) - tail - 1, len(lines) - 1))
    cut = f"lines {first} to {last} of {end}: read_file artifact={handle} start={first} end={last}"
    return Shown("\n".join(shown), len(lines), cut)


def _fitting(lines: list[str], budget: int) -> int:
    """Return how many of the first lines fit."""
    for count, line in enumerate(lines):
        budget -= len(line) + 2
        if budget < 0:
            return count
    return len(lines)


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Run the command and return how it ended and what it printed."""
    if not ctx.settings.policy.free_form:
        raise ToolError(SWITCHED_OFF)
    decision = allowed(args.command, ctx.settings.policy)
    result, secrets = await executed(ctx, args, decision)
    return view(ctx, decision, result, secrets)


async def executed(ctx: ToolContext, args: Args, decision: Decision) -> tuple[Result, Collection[bytes]]:
    """Run what was decided on; return how it ended, and secrets of its own files that may show in it."""
    host = ctx.host(args.host)
    enter = entered(args, ctx)
    await _check_links(host, enter, decision)
    argv = list(decision.argv[0]) if decision.direct else ["sh", "-c", decision.rendered]
    if any(stage[0].rsplit("/", 1)[-1] == "jq" for stage in decision.argv):
        # Its programs can double a text without end: a host that serves a model has no memory to lose.
        argv = [*BOUNDED, *argv]
    secrets = await secrets_behind(host, enter, decision) if reshapes(decision) else set()
    result = await host.exec([*enter, *argv], timeout_s=args.timeout_s)
    _check_entered(enter, result)
    return result, secrets


def view(
    ctx: ToolContext, decision: Decision, result: Result, secrets: Collection[bytes] = ()
) -> dict[str, Any]:
    """Keep what was printed, without ``secrets``, and return the view of it."""
    path, first_line = source_of(decision)
    ended = result.outcome == "exited" and not result.truncated
    out = ctx.keep(
        conceal(whole_lines(result.stdout), secrets),
        host=result.host,
        label=decision.rendered,
        taken_at=result.started_at,
        path=path if result.ok else None,
        first_line=first_line if result.ok else 1,
        complete=ended and result.stdout.complete,
    )
    err: ArtifactRef | None = None
    if result.stderr.total:
        err = ctx.keep(
            conceal(whole_lines(result.stderr), secrets),
            host=result.host,
            label=f"{decision.rendered} (stderr)",
            taken_at=result.started_at,
            complete=ended and result.stderr.complete,
        )
    stderr = fit(ctx.store.get(err.sha256), _STDERR_CHARS, err.handle) if err else Shown("", 0, None)
    budget = ctx.settings.view_chars - _FRAME_CHARS - len(decision.rendered) - len(stderr.text)
    stdout = fit(ctx.store.get(out.sha256), max(budget, 500), out.handle, out.first_line)
    shown: dict[str, Any] = {
        "host": result.host,
        "command": decision.rendered,
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "stdout": stdout.text,
        "stderr": stderr.text,
        "artifact": out.handle,
        "stderr_artifact": err.handle if err else None,
        "lines": stdout.lines,
        "truncated": result.truncated,
        "seconds": round(result.duration_s, 2),
    }
    shown |= {"cut": stdout.cut} if stdout.cut else {}
    shown |= {"note": note} if (note := _note(result)) else {}
    return shown


def _note(result: Result) -> str | None:
    """Say what must not be read out of an output that may be only a part."""
    if result.truncated:
        return "it printed more than is kept and was stopped: what is not shown is not absent"
    if result.outcome == "exited":
        return None
    detail = f" ({printable(result.detail)})" if result.detail else ""
    return f"it did not end by itself{detail}: this is no success, and what is not shown is not absent"


TOOL = Tool(
    name="run",
    description=(
        "Run one read-only command or pipeline on a host: ps, ss, nvidia-smi, systemctl show, curl on its "
        "own loopback, and the like. Anything that could write, or is not known to only read, is not run."
    ),
    args=Args,
    run=run,
)
