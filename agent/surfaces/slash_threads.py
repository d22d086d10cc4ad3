"""Slash commands on the session as a whole: save it, copy from it, take a change back, fork it, change it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agent import threads
from agent.errors import LeadlineError
from agent.events import Ended, TurnTaken
from agent.forking import fork
from agent.standing_changes import kept_changes
from agent.state import Change
from agent.surfaces.ages import age
from agent.surfaces.slash_record import show, some_calls
from agent.surfaces.slash_types import (
    Afresh,
    Candidate,
    Command,
    Desk,
    DeskCommand,
    Enter,
    PutOnClipboard,
    Reply,
    Share,
    TakeBack,
)

if TYPE_CHECKING:
    from agent.session import Session

FORMS = {"md": "Markdown", "html": "one page", "json": "for programs"}
_LISTED = 20


def _kept(session: Session) -> dict[str, Change]:
    """Return the changes of this session that were kept and that nobody has taken back."""
    return kept_changes(session.work.settings, session.events)


def _undo(session: Session, argument: str) -> str | Reply:
    kept = _kept(session)
    if not kept:
        return "no change of this session stands: there is nothing to take back"
    name = argument.upper() or (next(iter(kept)) if len(kept) == 1 else "")
    if name not in kept:
        rows = [f"{one.id}: {one.setting} on {one.unit}" for one in kept.values()]
        which = f"{name} is not one that stands" if argument else "which one?"
        return "\n".join([f"{which}; /undo C1 takes one back. These stand:", *rows])
    change = kept[name]
    return Reply(
        f"to be taken back: {name}, {change.setting} on {change.unit}",
        then=TakeBack(f"{session.thread}/{name}"),
    )


def _undoable(session: Session) -> Iterable[Candidate]:
    return [Candidate(one.id, f"{one.setting} on {one.unit}") for one in _kept(session).values()]


def _fork(session: Session, argument: str) -> str | Reply:
    if not argument.isdecimal():
        turns = list(_turns(session))
        rows = [f"  {one.word}  {one.help}" for one in turns[-_LISTED:]]
        last = turns[-1].word if turns else "0"
        return "\n".join([f"/fork N begins a thread that goes on from turn N; there are 0 to {last}", *rows])
    turn = int(argument)
    try:
        new = fork(session.work.settings, session.thread, session.events, turn)
    except LeadlineError as error:
        return str(error)
    later = ", ".join(name for name in _kept(session) if _kept_after(session, name, turn))
    stand = f" What was kept after that stands on its host: {later}." if later else ""
    return Reply(f"{new} goes on from turn {turn}; {session.thread} stays as it is.{stand}", then=Enter(new))


def _kept_after(session: Session, change: str, turn: int) -> bool:
    return any(
        event.type == "change_moved" and event.change.id == change and event.turn > turn
        for event in session.events
    )


def _turns(session: Session) -> Iterable[Candidate]:
    for event in session.events:
        if isinstance(event, TurnTaken):
            calls = ", ".join(call.name for call in event.tool_calls)
            yield Candidate(str(event.turn), " ".join(event.text.split())[:60] or calls)


def _resume(desk: Desk, argument: str) -> str | Reply:
    own = desk.session.thread if desk.session is not None else None
    found = [one for one in threads.chats(desk.settings) if one.thread != own]
    if not argument:
        now = datetime.now(UTC)
        rows = [
            f"{one.thread}  {one.outcome or 'unfinished'}  {age(one.started_at, now)}  "
            f"{', '.join(one.hosts) or 'no host'}  {' '.join(one.symptom.split())}"
            for one in found[:_LISTED]
        ]
        return "\n".join(rows) or "there is no other thread"
    if argument == own:
        return f"this is {own}"
    try:
        return Reply("", then=Enter(threads.chosen(argument, [one.thread for one in found], see="/resume")))
    except LeadlineError as error:
        return str(error)


def _threads(desk: Desk) -> Iterable[Candidate]:
    own = desk.session.thread if desk.session is not None else None
    for one in threads.chats(desk.settings):
        if one.thread != own:
            yield Candidate(one.thread, f"{', '.join(one.hosts)}: {' '.join(one.symptom.split())}"[:60])


def _new(desk: Desk, argument: str) -> str | Reply:
    if desk.session is None:
        return "nothing was investigated yet: say what is wrong"
    return Reply(
        f"{desk.session.thread} stays as it is; your next message begins one on {', '.join(desk.names)}",
        then=Afresh(),
    )


def _save(session: Session, argument: str) -> str:
    path = Path(argument).expanduser() if argument else Path(f"leadline-{session.thread}.md")
    form = path.suffix.lstrip(".").lower() or "md"
    if form not in FORMS:
        return f"{path} is no form of a case file; its name ends in {', '.join(FORMS)}"
    return _written(session, path, form, over=not argument)


def _export(session: Session, argument: str) -> str:
    form = argument.lower() or "md"
    if form not in FORMS:
        return f"no form {argument}; there are: {', '.join(FORMS)}"
    return _written(session, Path(f"leadline-{session.thread}.{form}"), form, over=True)


def _written(session: Session, path: Path, form: str, *, over: bool) -> str:
    """Write the case file; only a file of our own name is written ``over``."""
    from agent.surfaces.records import case_text

    text = case_text(session.folder, form)
    try:
        if over:
            path.unlink(missing_ok=True)
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(text, encoding="utf-8")
    except FileExistsError:
        return f"{path} exists; name another file"
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    return f"written: {path.absolute()} ({path.stat().st_size:,} bytes)"


def _forms(session: Session) -> Iterable[Candidate]:
    return [Candidate(form, says) for form, says in FORMS.items()]


def _share(session: Session, argument: str) -> Reply:
    return Reply("", then=Share())


def _copy(session: Session, argument: str) -> str | Reply:
    if not argument:
        text = last_answer(session)
        if text is None:
            return "no answer yet; /copy tN copies what a call returned"
        return Reply("", then=PutOnClipboard(text, "the last answer"))
    shown = show(session, argument)
    if isinstance(shown, str):  # it says what is not there
        return shown
    return Reply("", then=PutOnClipboard(shown.text, f"t{argument.lstrip('tT')}"))


def last_answer(session: Session) -> str | None:
    """Return the last thing that was an answer: the end of the investigation, or words after it."""
    from agent.surfaces.ending import answer_of

    ended: Ended | None = None
    words = ""
    for event in session.events:
        if isinstance(event, Ended):
            ended, words = event, ""
        elif isinstance(event, TurnTaken) and ended is not None and event.text and not event.tool_calls:
            words = event.text
    if words:
        return words
    return answer_of(session, ended, []).rstrip() if ended is not None else None


COMMANDS: dict[str, Command | DeskCommand] = {
    "/undo": Command(
        "/undo [C1]", "take a kept change back, approved like any change", _undo, _undoable, needs_idle=True
    ),
    "/fork": Command(
        "/fork N",
        "begin a thread from turn N of this one, which stays",
        _fork,
        _turns,
        needs_idle=True,
        reads=True,
    ),
    "/resume": DeskCommand(
        "/resume [ID]",
        "go on in another thread; without ID, list them",
        _resume,
        _threads,
        needs_idle=True,
        reads=True,
    ),
    "/new": DeskCommand("/new", "begin another investigation on the same hosts", _new, needs_idle=True),
    "/save": Command(
        "/save [FILE]", "write the case file here, or to FILE (.md, .html, .json)", _save, reads=True
    ),
    "/export": Command(
        "/export [md]", "write the case file as md, html or json", _export, _forms, reads=True
    ),
    "/share": Command("/share", "give the model what !COMMAND printed last", _share, needs_idle=True),
    "/copy": Command(
        "/copy [tN]", "put the last answer, or an output, on the clipboard", _copy, some_calls, reads=True
    ),
}
