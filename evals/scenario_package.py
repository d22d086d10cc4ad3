"""Say which version of its engine's package a scenario pins, each scenario read once."""

from __future__ import annotations

from functools import lru_cache

from agent.errors import LeadlineError
from evals.lab.scenario import load


@lru_cache(maxsize=256)
def version_of(scenario: str | None) -> str:
    """Return the version; empty when the scenario is not known here or pins no package."""
    if not scenario:
        return ""
    try:
        package = load(scenario).package
    except LeadlineError:
        return ""
    return package.version if package else ""
