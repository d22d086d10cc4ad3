"""Render an HTML page of this folder: everything put into it is escaped, made visible, and cut to a bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompts.render import FOLDER

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(name: str, finalize: Callable[[Any], Any], folder: Path = FOLDER, **values: Any) -> str:
    """Return ``NAME.html.j2`` filled in; ``finalize`` sees every value before it is escaped.

    A page of another folder may include the style and the parts that lie in this one.
    """
    return _environment(finalize, folder).get_template(f"{name}.html.j2").render(**values).strip() + "\n"


@cache
def _environment(finalize: Callable[[Any], Any], folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([folder, FOLDER]),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
