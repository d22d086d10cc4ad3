"""Commands that other packages register under the entry point ``leadline.commands``, loaded when named."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from agent.surfaces import plugins

GROUP = "leadline.commands"


class OpenGroup(TyperGroup):
    """Add registered commands to the built-in ones; a built-in name cannot be taken over."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the built-in commands in their order, then the registered ones."""
        own = super().list_commands(ctx)
        return [*own, *sorted(set(plugins.registered(GROUP)) - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a built-in command, else load the registered one."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
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
