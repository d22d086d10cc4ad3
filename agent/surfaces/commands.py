"""Commands, made when they are named: our own, and those that other packages register.

The help text needs one line of each; to make them all, with their options, took a third of its time.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import (
    get_command_from_info,
    get_command_name,
    get_group_from_info,
    solve_typer_info_help,
)
from typer.models import CommandInfo, TyperInfo

from agent.surfaces import plugins

GROUP = "leadline.commands"


def postpone(app: typer.Typer) -> None:
    """Take the commands out of a program: `OpenGroup` makes each when it is named."""
    found: dict[str, CommandInfo | TyperInfo] = {}
    for command in app.registered_commands:
        assert command.callback is not None  # no command is made without one
        found[command.name or get_command_name(command.callback.__name__)] = command
    found |= {str(group.name): group for group in app.registered_groups}
    OpenGroup.later = found
    app.registered_commands, app.registered_groups = [], []


class OpenGroup(TyperGroup):
    """Add registered commands to the built-in ones; a built-in name cannot be taken over."""

    later: ClassVar[dict[str, CommandInfo | TyperInfo]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(self.later)  # type: ignore[assignment]  # what a typing error is like
        self._listing = False

    def make_context(self, *words: Any, **options: Any) -> Any:
        """Read the words before a command; raise `UsageError` for those that make no sense."""
        with _one_line(lambda: "leadline"):
            return super().make_context(*words, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the words of a command and carry it out; raise `UsageError` for those that make no sense."""
        words = [*ctx._protected_args, *ctx.args]
        with _one_line(lambda: _path(ctx, words)):
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the built-in commands in their order, then the registered ones."""
        return [*self.later, *sorted(set(plugins.registered(GROUP)) - set(self.later))]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help text, for which a line of each command is enough."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Make a built-in command, else load the registered one."""
        info = self.later.get(cmd_name)
        if info is not None:
            return _line(cmd_name, info) if self._listing else self._made(cmd_name, info)
        return self._registered(cmd_name)

    def described(self, cmd_name: str) -> TyperCommand | None:
        """Return a line of a command; None for a registered one, which is not loaded for that."""
        info = self.later.get(cmd_name)
        return _line(cmd_name, info) if info is not None else None

    def _made(self, name: str, info: CommandInfo | TyperInfo) -> Any:
        look: dict[str, Any] = {"pretty_exceptions_short": True, "rich_markup_mode": self.rich_markup_mode}
        if isinstance(info, CommandInfo):
            return get_command_from_info(info, **look)
        return get_group_from_info(info, suggest_commands=self.suggest_commands, **look)

    def _registered(self, cmd_name: str) -> Any:
        try:
            registered = plugins.load(GROUP, cmd_name)
        except ImportError as error:
            sys.stderr.write(f"leadline: command {cmd_name} cannot be loaded: {error}\n")
            return None
        if registered is None:
            return None
        command = typer.main.get_command(registered)
        command.name = cmd_name
        return command


@contextlib.contextmanager
def _one_line(path: Callable[[], str]) -> Iterator[None]:
    """Turn what the library refuses into an error of ours; a help text in place of one stays as it is.

    ``path`` says which command was meant, for the errors of the library that do not.
    """
    try:
        yield
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        from agent.surfaces import usage  # loaded only when something is wrong

        raise usage.of(error, path) from None


def _path(ctx: Any, words: Sequence[str]) -> str:
    """Return the command that words name, as it is written."""
    command, path = ctx.command, [ctx.command_path]
    for word in words:
        command = command.get_command(ctx, word) if hasattr(command, "get_command") else None
        if command is None:
            break
        path.append(word)
    return " ".join(path)


def _line(name: str, info: CommandInfo | TyperInfo) -> TyperCommand:
    """Return what stands for a command in a list: its name and its help."""
    if isinstance(info, TyperInfo):
        return TyperCommand(name, help=solve_typer_info_help(info))
    text = inspect.getdoc(info.callback) if info.help is None else inspect.cleandoc(info.help)
    return TyperCommand(
        name, help=text, short_help=info.short_help, hidden=info.hidden, deprecated=info.deprecated
    )
