from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from agent.actions import ACTION_ARGS
from prompts.render import FOLDER, digest, render
from tools.contract import ToolError
from tools.registry import TOOLS, load, load_all


def test_every_listed_tool_is_the_one_its_module_names() -> None:
    loaded = load_all()
    assert [tool.name for tool in loaded.values()] == [name for name, _ in TOOLS]
    for tool in loaded.values():
        assert "host" in tool.args.model_fields and tool.description
        assert tool.read_only


def test_no_tool_has_the_name_of_an_action() -> None:
    assert not set(ACTION_ARGS) & {name for name, _ in TOOLS}


def test_an_unlisted_name_is_never_imported() -> None:
    with pytest.raises(ToolError, match="no tool named os; there are: facts, run"):
        load("os")


def test_a_prompt_without_a_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("system", hosts=["a"], mode="propose")


@pytest.mark.parametrize("mode", ["read-only", "propose"])
def test_the_system_prompt_names_hosts_and_mode(mode: str) -> None:
    text = render("system", hosts=["a", "b"], mode=mode, max_turns=7)
    assert "Hosts: a, b." in text and f"Mode: {mode}." in text and "7 turns" in text
    assert "{" not in text


def test_each_prompt_has_a_digest() -> None:
    names = [path.name.removesuffix(".md.j2") for path in FOLDER.glob("*.md.j2")]
    assert len({digest(name) for name in names}) == len(names) >= 3
