"""What a model is shown of a thread before its first turn: the prompt and the tools, and their digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agent.config import Settings
from agent.events import Started
from agent.investigation import schemas_of
from agent.models import TOOL_PREFIX, schema_digest
from prompts.render import digest, render
from tools.contract import Tool

PROMPTS: Final = ("system", "note_act", "note_last_turn")
QUESTION: Final = "question"
"""Stands below the system prompt where a question was asked."""


def system_prompt(started: Started, settings: Settings) -> str:
    """Return the first message of a thread."""
    text = render("system", hosts=started.hosts, mode=started.mode, max_turns=settings.max_turns)
    return f"{text}\n\n{render(QUESTION)}" if started.question else text


def digests(tools: Mapping[str, Tool[Any]], *, question: bool) -> dict[str, str]:
    """Return what tells, later, whether the model was shown the same prompts and the same tools."""
    names = (*PROMPTS, QUESTION) if question else PROMPTS
    prompts = {f"{name}.md.j2": digest(name) for name in names}
    schemas = schemas_of(tools, question=question)
    return prompts | {f"{TOOL_PREFIX}{one['function']['name']}": schema_digest(one) for one in schemas}


def default_tools(settings: Settings, *, question: bool) -> Mapping[str, Tool[Any]]:
    """Return the tools that a site offers to a model; a question has some more, and runbooks have one."""
    from agent.runbooks import find, tool
    from tools.registry import load_all

    offered = load_all(settings.tools, question=question)
    books = find(settings).books
    return {**offered, "runbook": tool(books)} if books else offered
