"""What was measured, and what a change may promise on it: never more than the limits allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import re2

from agent.models.views import Facts, View, rows
from prompts.playbooks import ChangeTemplate, Limit


def measured(load: Sequence[View], facts: Facts) -> dict[str, str]:
    """Return throughput and power at one request and at the pipeline's slots, as texts may name them."""
    found = {"slots": str(facts.slots)}
    for view in load:
        for run in rows(view, "runs"):
            name = {1: "one", facts.slots: "many"}.get(int(run.get("concurrency") or 0))
            gpu = run.get("gpu")
            watts = gpu.get("power_w_mean") if isinstance(gpu, dict) else None
            for key, value in (("tok", run.get("output_throughput")), ("watts", watts)):
                if name and isinstance(value, int | float):
                    found.setdefault(f"{key}_{name}", f"{value:.4g}" if key == "tok" else f"{value:.0f}")
    limits = [row.get("power_limit_w") for row in rows(facts.view.get("hardware") or {}, "gpus")]
    if limits and isinstance(limits[0], int | float):
        found["watts_limit"] = f"{limits[0]:.0f}"
    return found


def fill(text: str, values: dict[str, str]) -> str | None:
    """Fill a text with what was measured; None when it names something that was not."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return None if re2.search(r"\{(tok|watts)_\w+\}", text) else text


def applicable(limits: Iterable[Limit], facts: Facts) -> list[Limit]:
    """Return the limits that are about this model and these GPUs."""
    return [one for one in limits if not one.where or re2.search(f"(?i){one.where}", facts.names)]


def promise(template: ChangeTemplate, values: dict[str, str], limits: Sequence[Limit], *, first: bool) -> str:
    """Say which number the change leads from and to; only for the first change, the next starts elsewhere."""
    base = values.get("tok_one" if template.at == "one" else "tok_many")
    if template.ratio is None or base is None or not first:
        return ""
    low, high = (float(base) * ratio for ratio in template.ratio)
    ceilings = [one.ceiling_tok_s for one in limits if one.ceiling_tok_s is not None]
    if template.at == "one" and ceilings:
        low, high = min(low, *ceilings), min(high, *ceilings)
    where = "one request" if template.at == "one" else f"concurrency {values['slots']}"
    return f" On what was measured here: from {base} tok/s at {where} to {low:.0f} to {high:.0f} tok/s."
