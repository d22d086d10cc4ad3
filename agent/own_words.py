"""Refuse as evidence what a command printed because it was told to, as ``echo`` does.

The host must say it, not the model: a quote that the model typed itself shows nothing about a host.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from agent.quotes import collapse
from tools.contract import ArtifactRef, ToolError
from tools.policy_parse import Unreadable, parse

_COMMANDS: Final = frozenset({"run", "bash"})
"""Tools whose output is that of a command the model wrote: ours, and the shell of the baseline in evals."""

_STDERR: Final = " (stderr)"
_ECHO: Final = frozenset({"echo", "printf"})
_SHOW_ARGUMENTS: Final = frozenset(
    {"basename", "dirname", "readlink", "realpath", "file", "ps", "pgrep", "pstree", "top", "docker"}
    | {"podman", "nerdctl", "crictl", "kubectl", "rpm", "dpkg-query"}
)
_OWN_PROCESS: Final = re.compile(r"/proc/(?:self|thread-self)/")
_FORMATS: Final = {
    "date": r"[+]",
    "stat": r"-[Lft]*c|--format=?|--printf=?",
    "find": r"-f?printf",
    "ps": r"[a-z]+=",
    "column": r"-[txJ]*[oN]|--output-separator=?|--table-columns=?",
    "curl": r"-[a-zA-Z0]*w|--write-out=?",
    "cut": r"--output-delimiter=?",
    "paste": r"-[sz]*d|--delimiters=?",
    "rpm": r"--qf|--queryformat=?",
    "dpkg-query": r"-f=?|--showformat=?",
}
"""What a format stands behind, as the start of a word or as the word before."""

_PLACEHOLDER: Final = re.compile(r"%[-_0^#]*(?:\{[^}]*\}|:*[A-Za-z%])|\\[a-z0]")
_PATH: Final = r"(?:\.[A-Za-z_]\w*|\.?\[\d*\]|\.?\[\"[^\"]*\"\]|\.\"[^\"]*\"|\.)+\??"
_PATHS: Final = re.compile(rf"\s*(?:{_PATH}|keys|length|type)(?:\s*[|,]\s*(?:{_PATH}|keys|length|type))*\s*")


def refuse_own_words(tool: str, ref: ArtifactRef, quote: str) -> None:
    """Raise `ToolError` when the quoted words may be those of the command instead of the host's."""
    if tool not in _COMMANDS:
        return
    command = ref.label.removesuffix(_STDERR)
    stages = _stages(command)
    if any(_speaks(argv) for argv in stages) or _OWN_PROCESS.search(command):
        raise ToolError(f"{ref.handle}: `{command}` can print words of its own, so it is no evidence")
    names = {argv[0].rsplit("/", 1)[-1] for argv in stages}
    if command == ref.label and stages and not names & _SHOW_ARGUMENTS:
        return
    words = collapse(" ".join(word for argv in stages for word in argv))
    if collapse(quote) in words or collapse(quote) in collapse(command):
        raise ToolError(f"{ref.handle}: the quote stands in the command itself; cite what the host says")


@lru_cache(maxsize=256)
def _stages(command: str) -> tuple[Sequence[str], ...]:
    """Return the words of each command of a pipeline, none where it is more than that."""
    try:
        return tuple(stage.argv for stage in parse(command))
    except Unreadable:
        return ()


def _speaks(argv: Sequence[str]) -> bool:
    """Tell whether a command may print any text that its arguments hold."""
    name, *words = argv[0].rsplit("/", 1)[-1], *argv[1:]
    if name in _ECHO:
        return True
    if name == "jq":
        programs = [word for word in words if not word.startswith(("-", "/"))][:1]
        return any(re.fullmatch(r"-[A-Za-z]*n[A-Za-z]*|--null-input", word) for word in words) or not all(
            _PATHS.fullmatch(program) for program in programs
        )
    return any(re.search(r"[^\W_]", _PLACEHOLDER.sub("", text)) for text in _formats(name, words))


def _formats(name: str, words: Sequence[str]) -> list[str]:
    """Return the texts that a command was given as formats."""
    if name not in _FORMATS:
        return []
    option = re.compile(_FORMATS[name])
    found: list[str] = []
    for place, word in enumerate(words):
        if match := option.match(word):
            rest = word[match.end() :]
            found += [rest] if rest or word.endswith("=") else words[place + 1 : place + 2]
    return found
