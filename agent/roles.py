"""Say who may decide on changes: by surface, team id and user id, never by a name; fail closed.

An empty map means: nobody but the person at the keyboard, as the user who owns the state folder. A display
name is shown to people and decides nothing.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Surface = Literal["terminal", "http", "slack"]
Role = Literal["approver", "admin"]
Standing = Literal["member", "guest", "unknown"]

_FORM = "SURFACE:TEAM:USER, such as slack:T024BE7LD:U024BE7LH, http:ops:ana or terminal::ana"
_SLACK_TEAM = re.compile(r"[TE][A-Z0-9]{2,20}")
_SLACK_USER = re.compile(r"[UW][A-Z0-9]{2,20}")
_WORD = re.compile(r"[!-9;-~]{1,128}")  # printable ASCII without blanks and colons


class Person(BaseModel):
    """Name who asks or decides; the ids count, ``name`` is only shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    surface: Surface
    team: str = ""
    user: str
    name: str = ""
    standing: Standing = Field(
        default="unknown", description="What the surface knows of the account; Slack has guests."
    )

    @property
    def key(self) -> tuple[Surface, str, str]:
        """Return what roles are keyed by."""
        return self.surface, self.team, self.user

    def label(self) -> str:
        """Return the person as others read it; what is not typed at a terminal shows its ids."""
        if self.surface == "terminal":
            return self.name or self.user
        ids = f"{self.surface} {self.team}/{self.user}"
        return f"{self.name} ({ids})" if self.name else ids


def at_terminal(name: str = "") -> Person:
    """Return the user that this process runs as."""
    return Person(surface="terminal", user=_login(os.getuid()), name=name, standing="member")


def owner_of(state_dir: Path) -> str:
    """Return the user who owns the state folder, and so can do by hand whatever a terminal could."""
    return _login(state_dir.stat().st_uid)


def _login(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"  # a container may know no names


def _entry(text: str) -> str:
    """Return an entry of the role map, or say what it is not."""
    surface, *rest = text.split(":")
    if len(rest) != 2:
        raise ValueError(f"{text!r} is not {_FORM}")
    team, user = rest
    match surface:
        case "slack":
            if not _SLACK_TEAM.fullmatch(team):
                raise ValueError(f"{text!r}: {team!r} is no team id of Slack (T... or E...)")
            if not _SLACK_USER.fullmatch(user):
                raise ValueError(
                    f"{text!r}: {user!r} is no user id of Slack (U... or W...); names do not count"
                )
        case "http":
            if not _WORD.fullmatch(user) or (team and not _WORD.fullmatch(team)):
                raise ValueError(f"{text!r}: team and user are words without blanks")
        case "terminal":
            if team or not _WORD.fullmatch(user):
                raise ValueError(f"{text!r}: a user of this machine is written terminal::USER")
        case _:
            raise ValueError(f"{text!r}: {surface!r} is no surface; there are terminal, http and slack")
    return text


Entry = Annotated[str, AfterValidator(_entry)]


class RoleMap(BaseModel):
    """List who has which role; one person has one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    approver: tuple[Entry, ...] = Field(
        default=(), description="Who decides on changes, as SURFACE:TEAM:USER."
    )
    admin: tuple[Entry, ...] = Field(default=(), description="Who may also void what others approved.")

    @model_validator(mode="after")
    def _once(self) -> RoleMap:
        seen: dict[str, Role] = {}
        for role, entry in self._all():
            if entry in seen:
                also = "twice" if seen[entry] == role else f"and {seen[entry]}"
                raise ValueError(f"{entry} is {role} {also}; one person has one role, once")
            seen[entry] = role
        return self

    def role_of(self, person: Person) -> Role | None:
        """Return the role of a person; None for everybody who is not in the map."""
        wanted = ":".join(person.key)
        return next((role for role, entry in self._all() if entry == wanted), None)

    def _all(self) -> Iterator[tuple[Role, str]]:
        yield from (("approver", entry) for entry in self.approver)
        yield from (("admin", entry) for entry in self.admin)


class ApprovalSettings(BaseModel):
    """Hold what a site says of approvals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    roles: RoleMap = Field(
        default_factory=RoleMap,
        description="approver decides; admin may also take back what others approved.",
    )
    requester_may_approve: bool | None = Field(
        default=None,
        description="May who asked for an investigation approve its changes? Default: at a terminal only.",
    )
    expires_s: float = Field(
        default=1800.0, gt=0, le=86_400, description="A plan that nobody decided on, or used, is void then."
    )
    keep_days: float = Field(
        default=90.0, ge=1, description="So long after it expired an approval is listed, then removed."
    )


def refusal(
    settings: ApprovalSettings, person: Person, requester: Person, *, owner: str, approves: bool
) -> str | None:
    """Return why a person may not decide; None when they may."""
    if not _at_the_keyboard(person, owner):
        if settings.roles.role_of(person) is None:
            return f"{person.label()} has no role in [approvals.roles]"
        if person.surface == "slack" and person.standing != "member":
            return f"{person.label()} is not known to be a full member of the team"
    if approves and person.key == requester.key and not _may_approve_own(settings, person):
        return f"{person.label()} asked for this investigation, and somebody else has to approve its changes"
    return None


def may_take_back(settings: ApprovalSettings, person: Person, decided_by: Person, *, owner: str) -> bool:
    """Tell whether a person may void what was approved: who approved it, an admin, or the state's owner."""
    own = _at_the_keyboard(person, owner) or settings.roles.role_of(person) == "admin"
    return own or person.key == decided_by.key


def _at_the_keyboard(person: Person, owner: str) -> bool:
    return person.surface == "terminal" and person.user == owner


def _may_approve_own(settings: ApprovalSettings, person: Person) -> bool:
    said = settings.requester_may_approve
    return person.surface == "terminal" if said is None else said
