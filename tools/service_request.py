"""Say which changes are never planned, whatever the host looks like."""

from __future__ import annotations

import re

from tools import dropin_edit
from tools.contract import ToolError
from tools.display import printable
from tools.service_types import ChangeRequest

LONGEST_VALUE = 2000
"""Characters of a value that a person can still read before approving it."""

FLAGS_OF_PEOPLE = {
    "--host": "who can reach the server",
    "--port": "where the server listens, so nothing could be measured",
    "--api-key": "who may use the server",
    "--admin-api-key": "who may use the server",
    "--trust-remote-code": "which code runs",
}
"""Flags that decide about more than speed, and what."""

_NAMES_OF_PEOPLE = re.compile(
    r"LD_[A-Z_]+|(BASH_)?ENV|HOME|PATH|PYTHON(PATH|HOME|STARTUP|INSPECT|USERBASE|BREAKPOINT)"
)
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,200}\.service")
_FLAG = re.compile(r"--[A-Za-z0-9][A-Za-z0-9_.-]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-[0-9.]+([eE][-+]?[0-9]+)?")


def check(request: ChangeRequest) -> None:
    """Raise `ToolError` when a request is not one setting of one unit, or is for a person to change."""
    if not _UNIT.fullmatch(request.unit) or request.unit.startswith("-"):
        raise ToolError(
            f"{printable(request.unit)!r} is not the full name of a service, such as sglang.service"
        )
    if "@." in request.unit:
        raise ToolError(f"{request.unit} is a template; name one of its instances")
    if request.setting == dropin_edit.SETTING:
        _check_dropin(request)
        return
    if not (_FLAG.fullmatch(request.setting) or _NAME.fullmatch(request.setting)):
        raise ToolError("a setting is a flag (--x), the NAME of an environment variable, or drop-in")
    if not _FLAG.fullmatch(request.setting) and request.setting != request.setting.upper():
        raise ToolError(f"{request.setting} is neither a flag nor a variable; a person has to change it")
    if request.from_value == request.to_value:
        raise ToolError("the change changes nothing")
    for value in (request.from_value, request.to_value):
        _check_value(value or "")
    if request.setting.startswith("--"):
        _check_flag(request.setting, request.to_value or "")
    elif _NAMES_OF_PEOPLE.fullmatch(request.setting):
        raise ToolError(f"{request.setting} decides which code runs; a person has to change it")


def flag_of_people(flag: str) -> str | None:
    """Return the flag that is for a person to change and that this one stands for, or None."""
    plain = flag.replace("_", "-")  # vLLM takes both
    if len(plain) <= len("--x"):
        return None
    # The beginning of a flag stands for it.
    return next((known for known in FLAGS_OF_PEOPLE if known.startswith(plain)), None)


def _check_dropin(request: ChangeRequest) -> None:
    if request.from_value is not None or not request.to_value:
        raise ToolError(
            "a drop-in is added as a whole: leave from_value out and name its directives in to_value; one "
            "that was added is taken back with `leadline undo`"
        )
    _check_value(request.to_value)
    dropin_edit.read(request.to_value)


def _check_value(value: str) -> None:
    if len(value) > LONGEST_VALUE:
        raise ToolError(
            f"the value has {len(value)} characters; nobody can approve more than {LONGEST_VALUE}"
        )
    if printable(value) != value or "\n" in value or "\t" in value:
        raise ToolError("the value holds characters that cannot be shown, so nobody can approve it")


def _check_flag(flag: str, value: str) -> None:
    if (of_people := flag_of_people(flag)) is not None:
        raise ToolError(f"{of_people} decides {FLAGS_OF_PEOPLE[of_people]}; a person has to change it")
    words = value.split()
    option = bool(words) and words[0].startswith("-") and not _NUMBER.fullmatch(words[0])
    if (option and words[0] != "-") or any(word.startswith("--") for word in words):
        raise ToolError(
            "the value, or a part of it, would be read as a flag of its own; propose one setting a change"
        )
