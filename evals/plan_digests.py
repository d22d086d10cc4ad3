"""Bind approvals to plans again after names in a plan were replaced: its digest, everywhere it is named."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import ValidationError

from evals.packed_rows import Row
from tools.service_types import ChangePlan

_ACTION = 8
"""Characters of a plan's digest in the ids of its actions."""


def bound_again(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the digest that each plan has now, in place of the one it had."""
    changed: dict[str, str] = {}
    for row in rows:
        if row.get("type") != "plan_made":
            continue
        try:
            now = ChangePlan.model_validate(row["plan"]).digest()
        except ValidationError:
            continue  # a plan of another version, which nothing of this one can be bound to
        if now != row["digest"]:
            changed[row["digest"]] = now
    return [_renamed(row, changed) for row in rows] if changed else list(rows)


def _renamed(row: Row, changed: dict[str, str]) -> Row:
    text = json.dumps(row, ensure_ascii=False)
    for old, new in changed.items():
        text = text.replace(old, new).replace(f".{old[:_ACTION]}.", f".{new[:_ACTION]}.")
    renamed: Row = json.loads(text)
    return renamed
