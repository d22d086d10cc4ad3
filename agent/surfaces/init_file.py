"""The settings file that ``leadline init`` writes: TOML with a comment where a person will ask."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from agent.models.select import PLAYBOOK

_HEAD = """\
# Settings of Leadline. Every one of them, and what a file may say: docs/configuration.md.
# `leadline config show` says what is in force and what gave it; `leadline doctor` checks it.
"""
_KEY = """\
# The key of the endpoint stands in LEADLINE_API_KEY or OPENAI_API_KEY, not here.
"""
_SLACK = """
# The Slack bot answers nobody until it is told whom: docs/slack.md. Its keys stand in SLACK_BOT_TOKEN and
# SLACK_APP_TOKEN, not here. Begin with `leadline slack manifest`.
[slack]
# teams = ["T..."]
# users = ["T...:U..."]
"""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(slots=True)
class Answers:
    """Hold what a person, or the flags, answered."""

    base_url: str | None = None
    model: str = PLAYBOOK
    hosts: list[str] = field(default_factory=list)
    slack: bool = False
    state_dir: Path | None = None


def text_of(answers: Answers) -> str:
    """Return the file."""
    parts = [_HEAD, f"\nmodel = {_quoted(answers.model)}\n"]
    if answers.base_url is not None:
        parts += [f"base_url = {_quoted(answers.base_url)}\n", _KEY]
    if answers.state_dir is not None:
        parts.append(f"state_dir = {_quoted(str(answers.state_dir))}\n")
    for place in answers.hosts:
        name = name_of(place)
        parts.append(f"\n[hosts.{_quoted(name) if '.' in name else name}]\n")
        if place != name:
            parts.append(f"ssh = {_quoted(place)}\n")
        parts.append('# groups = ["pool-a"]\n# role = "decode"       # router, prefill, decode or worker\n')
    if answers.slack:
        parts.append(_SLACK)
    return "".join(parts)


def name_of(place: str) -> str:
    """Return the name of a host in the inventory: its alias, or its address without user and port."""
    name = place.rpartition("@")[2]
    name = name.partition(":")[0] if name.count(":") == 1 else name
    return _NOT_IN_NAMES.sub("-", name).strip("-.") or "host"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
