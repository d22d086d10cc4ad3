"""Render the prompt files of this folder; a value that is missing is an error, never an empty string."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent


def render(name: str, **values: Any) -> str:
    """Return the text of ``NAME.md.j2`` with ``values`` filled in."""
    return _environment().get_template(f"{name}.md.j2").render(**values).strip()


def digest(name: str) -> str:
    """Return the sha256 of a prompt file, for the transcript."""
    return hashlib.sha256((FOLDER / f"{name}.md.j2").read_bytes()).hexdigest()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
