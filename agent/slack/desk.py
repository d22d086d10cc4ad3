"""What every conversation of the bot works with, and how it opens an investigation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.config import Settings
from agent.errors import UsageError
from agent.models.select import model_of
from agent.notes import notes_for
from agent.slack.access import Access
from agent.slack.door import Door
from agent.slack.hosts import Connected, connected, usable
from agent.slack.store import Kept, SlackStore
from agent.slack.stream import EVERY_S
from tools.contract import Host

if TYPE_CHECKING:
    from agent.session import Session

Opener = Callable[[Settings, Kept, Mapping[str, Host]], "Session"]
"""Start, or take up again, the investigation of a Slack thread on connected hosts."""

Connector = Callable[[Sequence[str], Settings], AbstractAsyncContextManager[Connected]]

ASKED_FIRST = "Investigate what this thread reports."
"""The symptom when somebody only mentions the bot in a thread of others."""

_ANEW = "ask anew, or ask who runs me to change slack.channels"


@dataclass(frozen=True, slots=True)
class Desk:
    """Hold the settings and the doors; one for the whole process."""

    settings: Settings
    door: Door
    store: SlackStore
    access: Access
    opener: Opener
    connector: Connector = connected
    every_s: float = EVERY_S
    """Seconds between two calls that show progress."""
    look_s: float = 2.0
    """Seconds between two looks whether an approval was decided elsewhere."""


def open_session(settings: Settings, kept: Kept, hosts: Mapping[str, Host]) -> Session:
    """Start the investigation of a Slack thread, or take it up again when there is one."""
    from agent import seen_before
    from agent.session import Session

    model = model_of(settings)
    if kept.thread is not None:
        return Session.resume(settings, kept.thread, model, hosts)
    mode = settings.slack.channel(kept.place.channel).mode
    notes = [*notes_for(settings, list(hosts)), *seen_before.told(settings, list(hosts), symptom(kept))]
    return Session.start(settings, model, hosts, symptom(kept), mode, requester=kept.requester, notes=notes)


def refuse_what_was_taken_away(settings: Settings, kept: Kept) -> None:
    """Raise `UsageError` when a thread of before may not go on as it began: settings have changed."""
    from agent import threads

    if kept.thread is None:
        return
    channel = kept.place.channel
    lost = set(kept.hosts) - set(usable(settings, channel))
    if lost:
        raise UsageError(f"{', '.join(sorted(lost))} may not be looked at from here any more", do=_ANEW)
    if (
        threads.started(settings, kept.thread).mode == "apply"
        and settings.slack.channel(channel).mode != "apply"
    ):
        raise UsageError("no changes may be tried from here any more", do=_ANEW)


def symptom(kept: Kept) -> str:
    """Return what is asked, with the earlier messages of the thread marked as data."""
    from agent.untrusted import wrapped
    from prompts.render import render

    context = wrapped(kept.context) if kept.context else ""
    return render("asked_in_slack", question=kept.question or ASKED_FIRST, context=context)


def limited(settings: Settings) -> Settings:
    """Return the settings with the budget of an investigation that Slack asks for."""
    slack = settings.slack
    limits = {
        "max_turns": slack.max_turns,
        "max_wall_s": slack.max_wall_s,
        "max_cost_usd": slack.max_cost_usd,
    }
    return settings.model_copy(update={name: value for name, value in limits.items() if value is not None})
