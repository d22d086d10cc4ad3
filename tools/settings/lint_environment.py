"""Tell which of the engine's environment variables the installed version does not read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from tools.settings.problems import Problem
from tools.settings.types import Definition, SourceTree

_OURS: Final = {"sglang": ("SGLANG_", "SGL_"), "vllm": ("VLLM_",)}
_OTHERS: Final = {"SGLANG_": "sglang", "SGL_": "sglang", "VLLM_": "vllm"}
_OLD_PREFIX: Final = b'replace("SGL_", "SGLANG_"'
"""How SGLang takes a variable with its former prefix for the present one."""


def check_environment(
    tree: SourceTree, definitions: Mapping[str, Definition], environment: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield the variables of an engine that this version does not read, or that are deprecated in it."""
    for name in environment:
        prefix = next((each for each in _OTHERS if name.startswith(each)), None)
        if prefix is None or tree.engine not in _OURS:
            continue
        known = definitions.get(name)
        if known is not None and known.deprecated:
            said = " ".join(known.deprecated.split())[:200]
            yield Problem("deprecated", name, f"{name} is deprecated: {said}", None, known.cite)
        elif known is None and prefix not in _OURS[tree.engine]:
            if not _is_mentioned(tree, name):
                mine = f"{tree.engine} {tree.version}"
                message = f"{name} is a variable of {_OTHERS[prefix]}; {mine} does not read it"
                yield Problem("unknown_environment", name, message)
        elif known is None:
            yield from _unread(tree, definitions, name)


def _unread(tree: SourceTree, definitions: Mapping[str, Definition], name: str) -> Iterator[Problem]:
    if _is_mentioned(tree, name):
        return  # read in a way that is not known for one
    renamed = name.replace("SGL_", "SGLANG_", 1)
    present = definitions.get(renamed) if name.startswith("SGL_") else None
    if present is not None and _OLD_PREFIX in (tree.read("srt/environ.py") or b""):
        message = f"{name} has the former prefix; this version takes it for {renamed}"
        yield Problem("deprecated", name, message, renamed, present.cite)
        return
    names = [each.name for each in definitions.values() if each.kind == "environment"]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    message = f"no line of {tree.engine} {tree.version} reads {name}"
    message += f"; the nearest variable is {near[0]}" if near else ""
    cite = definitions[near[0]].cite if near else None
    yield Problem("unknown_environment", name, message, near[0] if near else None, cite)


def _is_mentioned(tree: SourceTree, name: str) -> bool:
    whole = re.compile(rb"(?<![A-Za-z0-9_])" + re.escape(name.encode()) + rb"(?![A-Za-z0-9_])")
    return any(whole.search(data) for data in tree.mentions([name]).values())
