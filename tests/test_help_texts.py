"""The help of every command shows its whole text: square brackets in it are not read as markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from agent.surfaces.cli import app
from agent.surfaces.completion_words import Places, words_for

_BRACKETS = re.compile(r"\[[^\]\s]*\]")


def commands(command: Any, path: str, parent: Any = None) -> Iterator[tuple[str, Any, Any]]:
    """Yield every command below one, itself first, with its path and what it is asked in."""
    context = command.make_context(path.rpartition(" ")[2], [], parent=parent, resilient_parsing=True)
    yield path, command, context
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from commands(command.get_command(context, name), f"{path} {name}", context)


def test_no_help_text_loses_what_stands_in_square_brackets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 300)
    found = {}
    for path, command, context in commands(typer.main.get_command(app), "leadline"):
        texts = [command.help, command.epilog, *(getattr(param, "help", "") for param in command.params)]
        named = {word for text in texts for word in _BRACKETS.findall(text or "")}
        command.get_help(context)
        shown = capsys.readouterr().out
        assert "\\[" not in shown, path
        assert {word for word in named if word not in shown} == set(), path
        found[path] = named
    assert "[user@]" in found["leadline init"] and "[models.NAME]" in found["leadline ask"]
    assert len(found) > 70


def test_what_a_shell_is_told_of_an_option_has_no_marks_of_markup(tmp_path: Any) -> None:
    told = dict(words_for("leadline init --", Places(tmp_path, ())))
    assert "\\" not in "".join(told.values())
    assert "[user@]" in told["--host"]
