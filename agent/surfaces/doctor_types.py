"""What a check of the setup says: fine, to be watched, broken, or not looked at, and how to mend it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Verdict = Literal["ok", "warning", "broken", "skipped"]


class Check(BaseModel):
    """Hold one line."""

    model_config = ConfigDict(frozen=True)

    about: str
    verdict: Verdict
    says: str
    do: str = ""


def ok(about: str, says: str) -> Check:
    """Return a line for what is fine."""
    return Check(about=about, verdict="ok", says=says)


def warning(about: str, says: str, do: str = "") -> Check:
    """Return a line for what works, but not as well as it could, or is not known."""
    return Check(about=about, verdict="warning", says=says, do=do)


def broken(about: str, says: str, do: str = "") -> Check:
    """Return a line for what does not work."""
    return Check(about=about, verdict="broken", says=says, do=do)


def skipped(about: str, says: str) -> Check:
    """Return a line for what was not looked at, with the reason."""
    return Check(about=about, verdict="skipped", says=says)
