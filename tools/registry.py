"""List the tools by name, and load them when they are wanted: a tool is one module and one line here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from tools.contract import Tool, ToolError, ToolSettings

TOOLS: Final[tuple[tuple[str, str], ...]] = (
    ("facts", "tools.facts"),
    ("run", "tools.run"),
    ("grep", "tools.grep"),
    ("settings", "tools.settings.tool"),
    ("read_file", "tools.read_file"),
    ("journal", "tools.journal"),
    ("benchmark", "tools.benchmark"),
)
"""Name and module of every tool that works on a host, in the order a model sees them."""

FOR_QUESTIONS: Final[tuple[tuple[str, str], ...]] = (
    ("engine_state", "tools.engine_state"),
    ("history", "tools.history"),
)
"""Tools that are offered where a question was asked, beside the others."""


def load(name: str) -> Tool[Any]:
    """Import the module of one tool and return the tool; raise `ToolError` for a name that is not listed."""
    module = dict(TOOLS + FOR_QUESTIONS).get(name)
    if module is None:
        raise ToolError(
            f"no tool named {name}; there are: {', '.join(known for known, _ in TOOLS + FOR_QUESTIONS)}"
        )
    tool: Tool[Any] = importlib.import_module(module).TOOL
    return tool


def load_all(settings: ToolSettings | None = None, *, question: bool = False) -> Mapping[str, Tool[Any]]:
    """Return every tool by name; with a site's settings only those that it offers to a model."""
    offered = {name: load(name) for name, _ in TOOLS + (FOR_QUESTIONS if question else ())}
    if settings is not None and not settings.policy.free_form:
        del offered["run"]
    return offered
