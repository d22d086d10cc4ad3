"""Answer the slash commands of a chat from what is recorded; none of them asks a model.

Each command stands in the file of its group; what one asks the chat to do besides is its reply's ``then``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent.forking import turns_of
from agent.surfaces import slash_log, slash_record, slash_spending, slash_threads
from agent.surfaces.slash_types import NOTHING_YET, Candidate, Command, Desk, DeskCommand, Reply, changes_of
from tools.display import printable
from tools.wrong_fields import near_or_all

if TYPE_CHECKING:
    from agent.session import Session

__all__ = [
    "HELP",
    "QUIT",
    "Desk",
    "Reply",
    "answer",
    "changes_of",
    "complete",
    "help_text",
    "names",
    "reads",
    "stops",
]

QUIT = "/quit"
HELP = "/help"
BY_HAND = "!"
NOT_NOW = "{} is for when nothing is under way: "
WORKING = "wait for the answer, or press Ctrl-C, which holds the model, and type it then"
HELD = "press Enter to go on, and type it after the answer"
HELD_TRIAL = "a change is under way; press Enter to go on, and type it after that"
DECIDING = "decide on the change first"
STOPS = ("/undo", "/fork", "/resume", "/new")
"""What may end work that is held, so that it can be done."""
LISTS = ("/fork", "/resume")
"""What only lists where nothing is said behind it, which can be done at any time."""

COMMANDS: dict[str, Command | DeskCommand] = {
    **slash_record.COMMANDS,
    **slash_log.COMMANDS,
    **slash_spending.COMMANDS,
    **slash_threads.COMMANDS,
}

KEYS = (
    (QUIT, "leave; Ctrl-D and Ctrl-C at an empty line do the same"),
    ("!COMMAND", "run it on the host by hand, under the policy; !HOST: COMMAND names one of several"),
    ("Ctrl-C", "while it works: hold the model, not what runs on the host; again: leave"),
    ("Enter", "while it works: the model's next turn hears it; Tab: it is said after the answer"),
    ("Alt-Enter", "a further line, as Ctrl-J; Ctrl-X Ctrl-E opens the editor"),
    ("y, n, e, d", "at a change: apply it, do not, another value, do not and say why; ? explains them"),
    ("H 1?3+2-", "in the status line: hypotheses that are open (?), supported (+) and refuted (-)"),
)


def answer(desk: Desk, line: str) -> Reply:
    """Return what a slash command shows and asks for; an unknown one says so."""
    name, _, argument = line.partition(" ")
    if name == HELP:
        return Reply(help_text(argument.strip()))
    command = COMMANDS.get(name)
    if command is None:
        return Reply(f"no command {printable(name)}; {near_or_all(name, names())}")
    if command.needs_idle and not desk.idle and not (name in LISTS and not argument.strip()):
        return Reply(f"{NOT_NOW.format(name)}{_what_first(desk.session)}")
    if isinstance(command, DeskCommand):
        found = command.answer(desk, argument.strip())
    elif desk.session is None:
        return Reply(f"{NOTHING_YET}; then {name}: {command.help}")
    else:
        found = command.answer(desk.session, argument.strip())
    if isinstance(found, str):
        return Reply(printable(found))
    return dataclasses.replace(found, text=printable(found.text))


def _what_first(session: Session | None) -> str:
    """Say what is to be done before a command that is for a session at rest."""
    if session is None:
        return "wait"
    if session.held:
        return HELD_TRIAL if session.work.trials.open is not None else HELD
    return DECIDING if session.waiting is not None else WORKING


def stops(session: Session, line: str) -> bool:
    """Tell whether a command may end this session's held work, and has something to do then."""
    name, _, argument = line.partition(" ")
    argument = argument.strip()
    if name not in STOPS or session.work.trials.open is not None:
        return False
    if name == "/fork":  # its answer already makes the fork
        return argument.isdecimal() and int(argument) in turns_of(session.events)
    return answer(Desk(session.work.settings, session, hosts=session.work.hosts), line).then is not None


def reads(line: str) -> bool:
    """Tell whether an answer reads files, so that it is had beside the loop."""
    command = COMMANDS.get(line.partition(" ")[0])
    return command is not None and command.reads


def names() -> list[str]:
    """Return every slash command."""
    return [HELP, *COMMANDS, QUIT]


def help_text(name: str = "") -> str:
    """Return a line for every command and key, or for the one that is named."""
    rows = [(command.usage, command.help) for command in COMMANDS.values()]
    if name:
        wanted = f"/{name.lstrip('/')}"
        rows = [row for row in rows if row[0].partition(" ")[0] == wanted]
        if not rows:
            return f"no command {printable(wanted)}; {near_or_all(wanted, names())}"
    else:
        rows += KEYS
    width = max(len(usage) for usage, _ in rows) + 2
    return "\n".join(f"{usage:<{width}}{text}" for usage, text in rows)


def complete(desk: Desk, typed: str) -> list[Candidate]:
    """Return what may follow what is typed so far; a candidate takes the place of its last word."""
    if typed.startswith(BY_HAND) and " " not in typed:
        several = desk.names if len(desk.names) > 1 else []
        return _fitting((Candidate(f"{BY_HAND}{host}:", "run a command there") for host in several), typed)
    if not typed.startswith("/"):
        return []
    name, space, argument = typed.partition(" ")
    if not space:
        rows = [(key, command.help) for key, command in COMMANDS.items()]
        rows = [(HELP, "these commands"), *rows, (QUIT, "leave")]
        return _fitting((Candidate(key, text) for key, text in rows), name)
    command = COMMANDS.get(name)
    if isinstance(command, DeskCommand):
        return _fitting(command.complete(desk), argument)
    if command is None or desk.session is None:
        return []
    return _fitting(command.complete(desk.session), argument)


def _fitting(candidates: Iterable[Candidate], begun: str) -> list[Candidate]:
    wanted = begun.lower()
    return [
        Candidate(printable(one.word), printable(one.help))
        for one in candidates
        if one.word.lower().startswith(wanted)
    ]
