"""What a given log tells by itself: lines that name why a server ends, quoted, and nothing beyond them.

For no host at all, for a host without a running engine, and beside what is found of one that runs. A line is
only what was logged; which cause stands behind it takes the host, its flags and its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, Final

import re2

from agent.models import claims
from agent.models.questions_answer import Look
from agent.models.questions_gpus import IDLE_PERCENT, card_claims
from agent.models.views import Facts, Quote, View, rows

GIVEN: Final = "stdin"
"""Host that the view of a given log names."""

MOST: Final = 6
_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Telling:
    """Tie what a line looks like to what it says happened; the first that matches is the most telling."""

    pattern: str
    says: str


TELLING: Final = (
    Telling(
        r"(?i)out of memory: killed process|oom-kill|oom_reaper", "the kernel killed a process: out of memory"
    ),
    Telling(
        r"(?i)(?:cuda|hip) out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory",
        "a GPU had no memory left",
    ),
    Telling(r"NVRM: Xid|\bXid \(", "the driver reported a fault of a GPU (Xid)"),
    Telling(r"(?i)uncorrectable ecc|fallen off the bus", "a GPU failed"),
    Telling(r"CUDA error: ", "a CUDA call failed"),
    Telling(
        r"ncclUnhandled|ncclSystemError|ncclRemoteError|NCCL error|Watchdog caught collective",
        "communication between GPUs failed",
    ),
    Telling(r"(?i)no space left on device", "a disk was full"),
    Telling(r"(?i)too many open files", "no file could be opened any more"),
    Telling(r"(?i)address already in use", "the port was taken"),
    Telling(
        r"(?i)unrecognized arguments|error: argument |error: the following arguments", "an option was refused"
    ),
    Telling(r"(?i)segmentation fault|segfault at|SIGSEGV|core dumped", "a process crashed"),
    Telling(r"(?i)code=(?:killed|dumped)|Main process exited|SIGKILL", "the main process ended"),
    Telling(r"(?:^|[\s.])[A-Z]\w*(?:Error|Exception)\b: ?\S", "an exception was raised"),
    Telling(r"(?i)\b(?:fatal|panic|critical)\b", "something was logged as fatal"),
)


def given(views: Sequence[View]) -> View | None:
    """Return the view of a log that the person gave, if there is one."""
    return next((view for view in views if view.get("host") == GIVEN and view.get("artifact")), None)


def telling_lines(log: View) -> Iterator[tuple[str, Quote]]:
    """Yield what happened, with the last line that says so, the most telling first."""
    lines = str(log.get("text", "")).split("\n")
    artifact = str(log["artifact"])
    used: set[str] = set()
    for one in TELLING:
        found = next((line for line in reversed(lines) if re2.search(one.pattern, line)), None)
        if found is None or found in used or "\\x" in found or len(found) > _LONGEST:
            continue
        used.add(found)
        yield one.says, Quote(artifact, found.strip())
        if len(used) == MOST:
            return


_ALONE: Final = "What a line stands for is not shown by the line alone."


def judge_log(log: View, seen_of_host: str) -> dict[str, Any]:
    """Return a conclusion of what a log tells; ``seen_of_host`` is what else is known, in a sentence."""
    found = list(telling_lines(log))
    return {
        "outcome": "needs_person" if found else "inconclusive",
        "summary": f"{_told(log, found)} {seen_of_host} {_ALONE}",
        "claims": list(_logged(found)),
        "next_step": "leadline ask HOST SYMPTOM reads the flags, the source and the journal where it runs.",
    }


def beside(log: View, facts: Facts, conclusion: dict[str, Any]) -> dict[str, Any]:
    """Return a conclusion on a running engine with what a log tells, and what the host looks like now.

    Where no cause was found, what the log says comes first, and it is for a person to go on from there.
    """
    found = list(telling_lines(log))
    now = f"On {facts.host} now: {_now(facts)}."
    conclusion = {**conclusion, "claims": [*_logged(found), *conclusion["claims"], *_seen_now(facts)]}
    if not found or conclusion["outcome"] not in ("inconclusive", "configuration_fine"):
        return conclusion | {"summary": f"{conclusion['summary']}\n{_told(log, found)} {now}"}
    return conclusion | {
        "outcome": "needs_person",
        "summary": f"{_told(log, found)} {_ALONE}\n{now}\nOf what runs now: {conclusion['summary']}",
        "next_step": "Read what stands above those lines in the log, and whether it is of this engine and of "
        f"which time: only its text can say. {conclusion['next_step']}",
    }


def _told(log: View, found: Sequence[tuple[str, Quote]]) -> str:
    name = str(log["artifact"])
    read = "all of it" if log.get("complete") and not log.get("cut") else "its head and its tail"
    told = "; ".join(f"{says} ({shorten(quote.text, 120, placeholder=' ...')})" for says, quote in found)
    if not found:
        return f"No line of the log ({name}, {read}) is telling."
    return f"The log ({name}, {read}) says: {told}."


def _logged(found: Sequence[tuple[str, Quote]]) -> Iterator[dict[str, Any]]:
    for says, quote in found:
        yield claims.observed(f"{says[0].upper()}{says[1:]}.", quote)


def _now(facts: Facts) -> str:
    """Say what runs, since when, how often systemd started it again, and whether GPUs are at work."""
    service = facts.service
    since = service.get("started_at") or facts.engine.get("started_at")
    told = [f"{facts.engine.get('engine')} ({facts.unit or 'no unit'}, pid {facts.pid}) runs"]
    told += [f"since {since}"] if since else []
    told += [f"started again by systemd {service['restarts']} times"] if "restarts" in service else []
    loads = [row.get("utilization") for row in rows(facts.view.get("hardware") or {}, "gpus")]
    known = [load for load in loads if isinstance(load, int | float)]
    idle = sum(load <= IDLE_PERCENT for load in known)
    told += [f"{idle} of {len(known)} GPUs are idle"] if known else []
    return ", ".join(told)


def _seen_now(facts: Facts) -> Iterator[dict[str, Any]]:
    handle, started = facts.artifact(f"show:{facts.unit}"), facts.service.get("started_at")
    if handle and started:
        says = f"{facts.unit}, as it runs now, was started at {started}."
        yield claims.observed(says, Quote(handle, f"ExecMainStartTimestamp={started}"))
    cards = rows(facts.view.get("hardware") or {}, "gpus")
    yield from card_claims(Look(facts.host, facts.view), cards)
