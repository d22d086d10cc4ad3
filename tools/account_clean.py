"""Find what investigations and changes left on a host, and remove what nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict

from tools.contract import Host, ToolError
from tools.display import printable
from tools.transaction import HELPER, entry

LeftKind = Literal["rg", "state", "file", "drop-in", "aside", "timer", "process", "unread"]
LeftState = Literal["over", "open", "kept", "-"]

_WORDS: dict[str, str] = {
    "rg": "a static rg that was sent",
    "state": "the state of a change",
    "file": "a file of a change that did not finish",
    "drop-in": "the drop-in of a change",
    "aside": "a drop-in that was put aside",
    "timer": "a unit of a change",
    "process": "a command that outlived its session",
    "unread": "not permitted",
}
_WHY: dict[str, str] = {
    "over": "may go",
    "open": "still needed: its change is not settled, or its plan has not expired",
    "kept": "stays: it is a kept change; leadline undo takes it back",
    "-": "",
}


class Left(BaseModel):
    """Name one thing that was left on a host."""

    model_config = ConfigDict(frozen=True)

    kind: LeftKind
    state: LeftState
    name: str

    @property
    def says(self) -> str:
        """Return what it is and whether it may go, in one line."""
        why = _WHY[self.state]
        return f"{_WORDS[self.kind]}: {printable(self.name)}{f' ({why})' if why else ''}"


async def left_on(host: Host) -> list[Left]:
    """Return what lies on a host; change nothing."""
    return await _call(host, "list", [])


async def remove(host: Host, which: Sequence[Left]) -> list[Left]:
    """Remove what is over, and return what lies there then; the host looks at each again first."""
    return await _call(host, "remove", [word for one in which if one.state == "over" for word in _pair(one)])


def _pair(one: Left) -> tuple[str, str]:
    return one.kind, one.name


async def _call(host: Host, do: str, words: Sequence[str]) -> list[Left]:
    script = Path(__file__).with_name("account_clean.sh").read_text()
    argv = ["sh", "-c", script, "leadline", HELPER, entry(), do, *words]
    result = await host.exec(argv, timeout_s=60.0, retry=do == "list")
    found: list[Left] = []
    ended = False
    for line in result.stdout.data.decode("utf-8", "replace").splitlines():
        kind, _, rest = line.partition(" ")
        state, _, name = rest.partition(" ")
        if kind == "end":
            ended = True
        elif kind in _WORDS and state in _WHY:
            found.append(Left(kind=cast("LeftKind", kind), state=cast("LeftState", state), name=name))
    if not result.ok or not ended:
        raise ToolError(
            f"what lies on {host.name} could not be read: {result.detail or result.outcome}; try again"
        )
    return found
