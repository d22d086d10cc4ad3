"""The commands that complete what is typed in a shell: the script for it, and the words that it asks for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """Shells that have a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print what completes commands, hosts and investigations in your shell.

    Example, in ~/.bashrc: source <(leadline completion bash)
    """
    from agent.surfaces.completion_words import print_script

    print_script(shell.value)


def completion_words(state_dir: str, state_home: str, config_home: str, line: str) -> None:
    """Print the words that may stand at the end of a line, for the scripts."""
    from agent.surfaces.completion_words import Places, print_words

    print_words(line, Places.of(state_dir, state_home, config_home))


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("completion")(completion)
    app.command("completion-words", hidden=True)(completion_words)
