"""Answer from the facts how many GPUs there are, what they are, and how many of them do nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from agent.models.questions_answer import Answer, Look, folded, quoted
from agent.models.questions_query import Query
from agent.models.views import Quote, View, rows

IDLE_PERCENT: Final = 5


def gpus(query: Query, looks: Sequence[Look]) -> Answer:
    """Count GPUs, and those that do nothing at the moment of the look."""
    answer = Answer(["HOST", "GPUS", "IDLE", "BUSY", "W EACH", "LIMIT W EACH", "GIB EACH", "HOTTEST C"])
    wants = {"idle": "busy", "busy": "idle"}.get(query.wants, "") if query.denied else query.wants
    total = idle = busy = 0
    where: dict[str, dict[str, int]] = {"idle": {}, "busy": {}}
    drawn: dict[str, float] = {}
    for look in looks:
        if look.error:
            continue
        cards = rows(look.view.get("hardware") or {}, "gpus")
        used = [row for row in cards if _load(row) is not None]
        still = [row for row in used if (_load(row) or 0) <= IDLE_PERCENT]
        total, idle = total + len(cards), idle + len(still)
        busy += len(used) - len(still)
        where["idle"][look.host], where["busy"][look.host] = len(still), len(used) - len(still)
        drawn |= {look.host: sum(watts)} if (watts := _values(cards, "power_w")) else {}
        answer.row(look.host, _kinds(cards), str(len(still)), str(len(used) - len(still)), *_measures(cards))
        if len(used) < len(cards):
            answer.unknown.append(f"{look.host} ({len(cards) - len(used)} GPUs tell no load)")
        answer.claims += card_claims(look, cards)
        problems = [str(one) for one in look.view.get("problems") or [] if "nvidia-smi" in str(one)]
        if problems or not cards:
            answer.unknown.append(f"{look.host} ({problems[0] if problems else 'no nvidia-smi there'})")
    answer.missing(looks)
    many = {"idle": f"{idle} of {total} GPUs are idle", "busy": f"{busy} of {total} GPUs are busy"}
    told = "; ".join(
        f"{cells[0]} on {hosts}" for hosts, *cells in folded([(h, c[:1]) for h, c in answer.cells])
    )
    said = many.get(wants, f"{total} GPUs are seen ({told}); {idle} of them are idle")
    bound = "above" if wants == "busy" else "of at most"
    answer.said.append(f"{said}: utilization {bound} {IDLE_PERCENT} % at the moment of the look.")
    if wants:
        hosts = [f"{host} ({count})" for host, count in where[wants].items() if count]
        answer.said.append(f"Hosts with {wants} GPUs: {', '.join(hosts) or 'none'}.")
    for name in query.names:
        place = answer.head.index(name) - 1
        groups = folded([(host, (cells[place],)) for host, cells in answer.cells if len(cells) > place])
        answer.said.append(f"{name}: {'; '.join(f'{value} on {hosts}' for hosts, value in groups)}.")
    if "W EACH" in query.names and drawn:
        answer.said.append(
            f"In all: {'; '.join(f'{watts:.0f} W on {host}' for host, watts in drawn.items())}."
        )
    answer.known = total > 0
    return answer


def _kinds(cards: Sequence[View]) -> str:
    kinds = ", ".join(dict.fromkeys(str(row.get("name")) for row in cards))
    return f"{len(cards)} x {kinds}" if cards else "none is seen"


def _measures(cards: Sequence[View]) -> tuple[str, ...]:
    """Return what each card draws and may draw, its memory, and the highest temperature."""
    limits, memory = (
        ", ".join(dict.fromkeys(f"{value / part:.0f}" for value in _values(cards, key)))
        for key, part in (("power_limit_w", 1), ("memory_mib", 1024))
    )
    return (
        _range(_values(cards, "power_w")),
        limits or "-",
        memory or "-",
        _range(_values(cards, "temperature_c")[-1:]),
    )


def _values(cards: Sequence[View], key: str) -> list[float]:
    """Return what the cards tell of themselves, rising; a limit or a size in the order of the cards."""
    found = [float(row[key]) for row in cards if _number(row.get(key))]
    return sorted(found) if key in ("power_w", "temperature_c") else found


def _range(rising: Sequence[float]) -> str:
    if not rising:
        return "-"
    low, high = f"{rising[0]:.0f}", f"{rising[-1]:.0f}"
    return low if low == high else f"{low} to {high}"


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _load(row: View) -> float | None:
    value = row.get("utilization")
    return float(value) if isinstance(value, int | float) else None


def card_claims(look: Look, cards: Sequence[View]) -> Iterator[dict[str, Any]]:
    """Claim the row of each GPU, in one piece where every field of it is known."""
    artifacts, driver = look.view.get("artifacts"), look.view.get("driver")
    handle = artifacts.get("gpus") if isinstance(artifacts, dict) else None
    version = driver.get("nvidia") if isinstance(driver, dict) else None
    fields = ("power_w", "power_limit_w", "utilization", "sm_clock_mhz", "temperature_c")
    if handle is None or not cards:
        return
    whole = all(isinstance(row.get(name), int | float) for row in cards for name in fields)
    if whole and version:
        text = " ".join(_csv(row, str(version)) for row in cards)
        yield quoted(
            f"These are the GPUs of {look.host} at the moment of the look.", Quote(str(handle), text)
        )
        return
    for row in cards:
        text = f"{row.get('index')}, {row.get('name')}"
        yield quoted(f"{look.host} has GPU {row.get('index')}.", Quote(str(handle), text))


def _csv(row: View, driver: str) -> str:
    return (
        f"{row['index']}, {row['name']}, {row['memory_mib']} MiB, {row['power_w']:.2f} W, "
        f"{row['power_limit_w']:.2f} W, {row['utilization']} %, {row['sm_clock_mhz']} MHz, {row['pstate']}, "
        f"{row['temperature_c']}, {driver}"
    )
