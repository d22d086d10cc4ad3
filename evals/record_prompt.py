"""Ask a person for the next turn: at an inline prompt with completion, or line by line from a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from agent.errors import UsageError
from agent.models import ToolSchema
from agent.models.demonstration import DemonstrationStopped
from agent.state import AssistantTurn, Message, ToolCall
from agent.surfaces.input_line import Closed, Interrupted, PipedLines
from evals.record_lines import SHORT_FORMS, choices_of, fields_of, understand
from tools.display import printable

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

HELP = """\
TOOL key=value ...      call a tool; TOOL {"key": "value"} is the same, a field of a field is key.part=value
... &                   call it together with the next one
hypothesis "STATEMENT" rank=1 for=PATTERN against=PATTERN
cite H1 P2 KIND t4.1 "QUOTE" lines=10-12        KIND: source, log, configuration, measurement, absence
claim TYPE key=value    keep a claim for the conclusion, such as
                        claim log_event says="..." cite.artifact=t4.1 cite.quote="..."
conclude outcome=diagnosed summary="..." causes=H1
say TEXT                say something in the next turn
tools, help TOOL        list the tools, show the fields of one
Ctrl-D                  stop; go on later with --resume
"""

_COMMANDS = ("say", "tools", "help")


class Lines(Protocol):
    """Give the lines of a person; raise `Interrupted` or `Closed`."""

    async def read(self, prompt: str, /) -> str:
        """Return the next line."""
        ...


class Person:
    """Take turns by what a person types; what is wrong is said at once and asked for again."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._claims: list[object] = []
        self._turns = 0

    async def __call__(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantTurn:
        """Return the next turn; raise `DemonstrationStopped` at the end of the input."""
        self._turns = sum(message["role"] == "assistant" for message in messages)
        if isinstance(self._lines, PromptedLines):
            self._lines.tools = tools
        said: list[str] = []
        calls: list[ToolCall] = []
        while True:
            line = (await self._next()).strip()
            word, _, rest = line.partition(" ")
            if word == "say":
                said.append(rest.strip())
            elif word in ("help", "tools", "?"):
                _tell(rest.strip(), tools)
            elif line:
                together = line.endswith(" &")
                self._add(line.removesuffix("&").strip(), tools, calls)
                if calls and not together:
                    return AssistantTurn(text="\n".join(said), tool_calls=calls)

    async def _next(self) -> str:
        try:
            return await self._lines.read("record> ")
        except (Closed, Interrupted) as error:
            raise DemonstrationStopped("stopped before a conclusion") from error

    def _add(self, line: str, tools: Sequence[ToolSchema], calls: list[ToolCall]) -> None:
        try:
            found = understand(line, tools, self._claims)
        except UsageError as error:
            sys.stderr.write(f"  {printable(str(error))}\n")
            return
        if found is None:
            sys.stderr.write(f"  {len(self._claims)} claims for the conclusion\n")
            return
        name, arguments = found
        ident = f"d{self._turns}-{len(calls) + 1}"
        calls.append(ToolCall(id=ident, name=name, arguments=json.dumps(arguments, ensure_ascii=False)))
        if name == "conclude":
            self._claims.clear()


class PromptedLines:
    """Read lines at a terminal, with completion of tools, fields and values."""

    def __init__(self) -> None:
        from prompt_toolkit import PromptSession

        self.tools: Sequence[ToolSchema] = ()
        self._session: PromptSession[str] = PromptSession(
            completer=_completer(self), complete_while_typing=False
        )

    async def read(self, prompt: str) -> str:
        """Return the next line."""
        try:
            return await self._session.prompt_async(prompt)
        except EOFError as error:
            raise Closed from error
        except KeyboardInterrupt as error:
            raise Interrupted from error


def lines_of_terminal() -> Lines:
    """Return a prompt at a terminal, else the lines of a pipe."""
    return PromptedLines() if sys.stdin.isatty() and sys.stderr.isatty() else PipedLines()


def suggestions(text: str, tools: Sequence[ToolSchema]) -> list[str]:
    """Return what may stand in place of the last word of a line."""
    words = text.split(" ")
    last = words[-1]
    if len(words) == 1:
        names = [*(tool["function"]["name"] for tool in tools), *SHORT_FORMS, *_COMMANDS]
        return [name for name in names if name.startswith(last)]
    fields = fields_of(words[0], tools)
    key, equals, value = last.partition("=")
    if equals:
        return [f"{key}={one}" for one in choices_of(fields.get(key, {})) if one.startswith(value)]
    return [f"{name}=" for name in fields if name.startswith(last)]


def _completer(lines: PromptedLines) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class Calls(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            text = document.text_before_cursor
            start = -len(text.split(" ")[-1])
            return (Completion(one, start_position=start) for one in suggestions(text, lines.tools))

    return Calls()


def _tell(tool: str, tools: Sequence[ToolSchema]) -> None:
    """Show how lines are written, or the fields of one tool."""
    if not tool:
        names = ", ".join(one["function"]["name"] for one in tools)
        sys.stderr.write(f"{HELP}tools: {names}\n")
        return
    rows = fields_of(tool, tools)
    text = "\n".join(f"  {name}: {schema.get('description', '')}" for name, schema in rows.items())
    sys.stderr.write(f"{text or f'  no tool {tool}'}\n")
