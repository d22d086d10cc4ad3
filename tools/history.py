"""Say what changed on a host since a moment: kept looks compared, and what the host tells of its past."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from tools import facts
from tools.contract import Host, HostArgs, Tool, ToolContext, ToolError
from tools.engine_state import look_at
from tools.facts_flat import Flat, part_of
from tools.history_diff import Change, changes, folded_gone, gone_subjects
from tools.history_store import STORE, HistoryStore, Past, State

_AGO = re.compile(r"(\d{1,6})\s*(m|h|d|w)")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FURTHEST: Final = {"m": 5_256_000, "h": 87_600, "d": 3_650, "w": 521}
_SHOWN: Final = 60
Event = tuple[Change, datetime, datetime]
_TOLD: Final = 24


class Args(HostArgs):
    """Arguments of `history`."""

    since: str = Field(
        default="1d", description="30m, 2h, 7d, 2w, yesterday, today, or a date as in 2026-11-30T08:00."
    )


def moment(text: str, now: datetime) -> datetime:
    """Return the moment that words name; raise `ToolError` that says what may stand."""
    words = text.strip().lower()
    if found := _AGO.fullmatch(words):
        if int(found[1]) > _FURTHEST[found[2]]:
            raise ToolError(f"since {text!r}: that is more than ten years ago")
        return now - timedelta(**{_UNITS[found[2]]: int(found[1])})
    if words in ("yesterday", "today"):
        return now - timedelta(days=1) if words == "yesterday" else now.replace(hour=0, minute=0, second=0)
    try:
        stamp = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ToolError(f"since {text!r}: write 30m, 2h, 7d, yesterday, or 2026-11-30T08:00") from None
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).astimezone(UTC)


@cache
def _script() -> str:
    return Path(__file__).with_name("history_probe.sh").read_text()


def _words(flat: Mapping[str, str]) -> list[str]:
    """Return what the probe is to look at: the units, files and packages among the facts of a host."""
    words = []
    for name, value in flat.items():
        subject, _, rest = name.partition(" ")
        if rest == "active":
            words.append(f"UNIT={subject}")
        elif rest.startswith(("file /", "dropin /")):
            words.append(f"FILE={rest.partition(' ')[2]}")
        elif rest == "package_root" and value.startswith("/"):
            words.append(f"PACKAGE={value}")
    return list(dict.fromkeys(words))


async def _told(ctx: ToolContext, host: Host, flat: Flat, since: datetime) -> dict[str, Any]:
    """Ask the host what it tells of its past; what it may not read is said."""
    argv = ["sh", "-c", _script(), "leadline-history", str(int(since.timestamp())), *_words(flat)]
    result = await host.exec(argv, timeout_s=20.0, max_bytes=1 << 20, retry=True)
    lines = result.stdout.data.decode("utf-8", "replace").splitlines()
    out: dict[str, Any] = {}
    if not result.ok or "end" not in lines:
        out["problem"] = f"{result.outcome}: what the host tells of its past is not whole"
    if hidden := [line.removeprefix("unread ") for line in lines if line.startswith("unread ")]:
        out["not_permitted"] = hidden[:_TOLD]
    kept = [line for line in lines if line.partition(" ")[0] in ("file", "package", "journal", "dpkg")]
    if kept:
        ref = ctx.keep(
            "\n".join(kept).encode() + b"\n",
            host=host.name,
            label="times of unit files and packages, starts and stops in the journal, package log",
            taken_at=result.started_at,
            complete=not result.truncated,
        )
        out["artifact"] = ref.handle
    for kind in ("file", "package", "journal", "dpkg"):
        rows = [line.partition(" ")[2] for line in kept if line.startswith(f"{kind} ")]
        if recent := [row for row in rows if _is_since(row, since)]:
            out[kind] = recent[-_TOLD:]
        if kind == "file" and rows:
            out["newest_file"] = max(rows)
    return out


def _is_since(row: str, since: datetime) -> bool:
    """Tell whether the time that begins a line is not before a moment; without one it is not."""
    found = re.match(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)\S*\s*([+-]\d\d):?(\d\d)?", row)
    if found:
        stamp = datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3]}:{found[4] or '00'}")
        return stamp >= since
    plain = re.match(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)", row)
    return plain is not None and datetime.fromisoformat(f"{plain[1]}T{plain[2]}+00:00") >= since


def _events(past: Past, base: State, now: Flat | None, at: datetime) -> list[Event]:
    """Return what changed after a state, each with the two looks between which it did."""
    found: list[Event] = []
    before = base
    for state in past.states:
        if state.first > base.first:
            found += [(one, before.last, state.first) for one in changes(before.facts, state.facts)]
            before = state
    if now is not None:
        found += [(one, before.last, at) for one in changes(before.facts, now)]
    return found


def _short(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _keep(ctx: ToolContext, host: str, label: str, flat: Flat, taken_at: datetime) -> str:
    text = "".join(f"{name} = {value}\n" for name, value in flat.items())
    return ctx.keep(text.encode(), host=host, label=label, taken_at=taken_at).handle


def _compared(
    ctx: ToolContext, host: str, past: Past, base: State, now: Flat | None, at: datetime
) -> dict[str, Any]:
    end = now if now is not None else past.states[-1].facts
    end_at = at if now is not None else past.states[-1].last
    parts = {part_of(name) for name in end}
    found = changes({n: v for n, v in base.facts.items() if part_of(n) in parts}, end)
    gone = gone_subjects(base.facts, end)
    found = folded_gone(found, gone)
    when = {one.name: (first, last) for one, first, last in _events(past, base, now, at)}
    rows = []
    for one in found[:_SHOWN]:
        row: dict[str, Any] = {"name": one.name, "before": one.before, "after": one.after}
        if one.name in when:
            row["between"] = [_short(moment) for moment in when[one.name]]
        rows.append(row)
    view: dict[str, Any] = {
        "before": {
            "first_seen": _short(base.first),
            "last_seen": _short(base.last),
            "artifact": _keep(
                ctx, host, f"facts of {host} kept at {_short(base.first)}", base.facts, base.first
            ),
        },
        "after": {
            "at": _short(end_at),
            "artifact": _keep(ctx, host, f"facts of {host} at {_short(end_at)}", end, end_at),
        },
        "changed": len(found),
        "changes": rows,
    }
    if gone:
        view["no_longer_runs"] = gone
    if len(found) > _SHOWN:
        view["cut"] = f"the first {_SHOWN} of {len(found)} changes"
    back = [one.name for one, _, _ in _events(past, base, now, at)]
    if undone := sorted(set(back) - {one.name for one in found} - {f"{one} since" for one in gone}):
        view["changed_and_back"] = undone[:_TOLD]
    summary = f"{len(found)} facts differ between {_short(base.first)} and {_short(end_at)}\n"
    view["summary_artifact"] = ctx.keep(
        summary.encode(), host=host, label="comparison of the two looks", taken_at=at
    ).handle
    return view


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Compare the look before a moment with now, keep both to cite, and add what the host itself tells."""
    host = ctx.host(args.host)
    at = datetime.now(UTC)
    since = moment(args.since, at)
    store: HistoryStore | None = ctx.cache.get(STORE)
    past = store.past(host.name, host.key_fingerprint) if store else Past()
    view: dict[str, Any] = {"host": host.name, "since": _short(since), "looks_kept": len(past.states)}
    try:
        look = await look_at(ctx, host)
        now: Flat | None = look.facts
        at = look.at
    except ToolError as error:
        now = None
        view["unreachable"] = str(error)
    base = past.at(since) or (past.states[0] if past.states else None)
    if base is not None and (now is None or base.first < at.replace(microsecond=0)):
        view |= _compared(ctx, host.name, past, base, now, at)
        if base.first > since:
            view["known_since"] = f"{_short(base.first)}: no earlier look at this host was kept"
    else:
        view["known_since"] = "now: no earlier look at this host was kept"
    if past.problems:
        view["damaged"] = past.problems[:_TOLD]
    if now is not None:
        view["host_tells"] = await _told(ctx, host, now, since)
        view["running_since"] = {
            name.removesuffix(" since"): value for name, value in now.items() if name.endswith(" since")
        }
    clean: dict[str, Any] = facts.redacted(view, ctx.redact)
    return clean


TOOL = Tool(
    name="history",
    description=(
        "Say what changed on a host since a moment: every investigation and `leadline facts` keep a look at "
        "a host, and the one before the moment is compared with now. `before` and `after` name both looks as "
        "artifacts (lines: name = value), to cite; `between` says between which looks a fact changed. "
        "`host_tells` holds what the host itself tells: times of unit files and packages, starts and stops, "
        "the package log. `known_since` says where knowledge begins; nothing is known of what was before."
    ),
    args=Args,
    run=run,
)
