"""Turn what the library of the command line refuses into one line that names what is near."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.errors import UsageError
from tools.wrong_fields import bare, nearest, words

if TYPE_CHECKING:
    from typer import TyperException

_PROGRAM = "leadline"
_QUOTED = re.compile(r"'([^']*)'")
_COMMAND = "No such command "
_NEEDS = re.compile(r"Option '(-[^']*)' requires")
_CHOICES = re.compile(r"('(?:[^'\\]|\\.)*') is not one of (.+?)\.?$")
_EXTRA = re.compile(r"unexpected extra argument\(?s?\)? \((.*)\)")


def of(error: TyperException, meant: Callable[[], str]) -> UsageError:
    """Return the line: what is wrong, and the nearest name, or where to read what there is.

    ``meant`` returns the command, for an error that does not name it.
    """
    found: Any = error
    context = getattr(found, "ctx", None)
    path = context.command_path if context is not None else meant()
    read = f"see: {path} --help"
    path = path.removeprefix(_PROGRAM).strip()
    where = f"{path}: " if path else ""
    said = error.message
    if said.startswith(_COMMAND):
        shown = said.removeprefix(_COMMAND).partition(". Did you mean")[0].rstrip(".")
        return _unknown(f"{where}there is no command {shown}", shown[1:-1], _commands(context), read)
    if hasattr(found, "possibilities"):
        given = found.option_name
        return _unknown(f"{where}there is no option {given}", given, _options(context), read)
    if hasattr(found, "param_type"):  # one that is missing
        return UsageError(f"{where}{_named(found)} is missing", do=read)
    if hasattr(found, "param"):
        return _bad_value(found, read)
    if needs := _NEEDS.match(said):
        return UsageError(f"{needs[1]} needs a value", do=read)
    if extra := _EXTRA.search(said):
        return UsageError(
            f"{where}no further words are taken: {extra[1]}",
            do=f"put a text of several words in quotes, or {read}",
        )
    return UsageError(f"{where}{said[:1].lower()}{said[1:].rstrip('.')}", do=read)


def _unknown(what: str, given: str, known: list[str], read: str) -> UsageError:
    near = nearest(given, known, most=2, cutoff=0.6)
    return UsageError(what, do=f"nearest: {', '.join(near)}" if near else read)


def _bad_value(found: Any, read: str) -> UsageError:
    name, said = _named(found), bare(found.message)
    refused = found.__cause__
    choices = _CHOICES.match(said)
    if choices is not None:
        given, known = choices[1], _QUOTED.findall(choices[2])
        return _unknown(f"{name}: {given} is none of {', '.join(known)}", given.strip("'"), known, read)
    if hasattr(refused, "errors"):
        said = words(refused.errors(include_url=False)[0])
    return UsageError(f"{name}: {said.rstrip('.')}", do=read)


def _named(found: Any) -> str:
    """Return an option or an argument as it is written on the command line."""
    param = found.param
    if param is None:
        return str(found.param_hint or "a word").strip("'")
    if param.param_type_name == "option":
        return next((name for name in param.opts if name.startswith("--")), str(param.opts[0]))
    return str(param.metavar or param.name).strip("[].").upper()


def _commands(context: Any) -> list[str]:
    listed = getattr(getattr(context, "command", None), "list_commands", None)
    return list(listed(context)) if listed is not None else []


def _options(context: Any) -> list[str]:
    params = context.command.params if context is not None else []
    names = [name for param in params for name in (*param.opts, *param.secondary_opts)]
    return [*(name for name in names if name.startswith("--")), "--help"]
