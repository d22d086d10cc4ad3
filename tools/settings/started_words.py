"""Find where an engine's own options begin in a launch line: after what starts it, and in shells."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

_STARTERS: Final = frozenset(
    (
        *("docker", "podman", "nerdctl", "env", "exec", "sudo", "setpriv", "setsid", "nohup", "timeout"),
        *("numactl", "taskset", "nice", "ionice", "chrt", "stdbuf", "systemd-run", "systemd-inhibit"),
        *("srun", "mpirun", "nsys", "ncu", "uv", "uvx", "conda", "micromamba", "mamba", "poetry", "pixi"),
    )
)
"""Programs that start another one, whose own options may come before it."""
_SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ash"))
_SHELL_COMMAND: Final = re.compile(r"-[a-z]*c")
_AFTER: Final = re.compile(r"[;|&<>].*|\d[<>].*|.*;")
"""Words of a shell that end a command."""
_SERVING_IMAGE: Final = re.compile(r"(?:\S*/)?vllm-openai(?:-[\w.-]+)?(?:[:@]\S+)?")
"""Images whose entry point is ``vllm serve``."""
_PROGRAM: Final = re.compile(r"(python|llama-server|ollama|text-generation-launcher)")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SPECIFIER: Final = re.compile(r"(?<!%)%[iInNpPjJhH](?![\w%])")


def engine_words(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return how the engine is started (``""``: not said, only options are given), and its own words."""
    starts = starts_another(argv)
    for place, word in enumerate(argv):
        module = word.removeprefix("-m")
        before = argv[place - 1].rpartition("/")[2] if place else ""
        if module.startswith("sglang.launch_server") or word.endswith("/sglang/launch_server.py"):
            return "sglang.launch_server", list(argv[place + 1 :])
        if module.startswith("vllm.entrypoints"):
            rest = list(argv[place + 1 :])
            return ("serve", rest[1:]) if rest[:1] == ["serve"] else (module, rest)
        if word == "serve" and (not place or before in ("sglang", "vllm")):
            return "serve", list(argv[place + 1 :])
        if starts and _SHELL_COMMAND.fullmatch(before) and " " in word:
            return engine_words(["exec", *_one_command(word)])
        if starts and _SERVING_IMAGE.fullmatch(word) and "--entrypoint" not in argv[:place]:
            return "serve", list(argv[place + 1 :])
        if place and word.startswith("--") and not _is_program(argv[0]) and not starts:
            break
    if argv and _is_program(argv[0]):
        return argv[0].rpartition("/")[2], list(argv[1:])
    return "", list(argv)


def words_for(engine: str, argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return what `engine_words` does, without what ``sglang serve`` takes for itself."""
    entry, words = engine_words(argv)
    if engine != "sglang" or entry != "serve":
        return entry, words
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--model-type":
            next(rest, None)
        elif not word.startswith("--model-type="):
            kept.append(word)
    return entry, kept


def starts_another(argv: Sequence[str]) -> bool:
    """Tell whether a line begins with a program that starts another, or with a shell."""
    first = argv[0].rpartition("/")[2] if argv else ""
    return first in _STARTERS or first in _SHELLS


def _is_program(word: str) -> bool:
    return not word.startswith("-") and _PROGRAM.search(word) is not None


def _one_command(text: str) -> list[str]:
    """Return the words of a shell's text up to the end of the command that starts an engine."""
    try:
        words = shlex.split(text)
    except ValueError:
        return text.split()
    found: list[str] = []
    for word in words:
        if _AFTER.fullmatch(word):
            if engine_words(["exec", *found])[0]:
                break
            found = []
            continue
        found.append(word)
    return found


def filled(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return words with the variables that are known put in, as systemd and shells do.

    A variable that is a whole word without braces stands for as many words as its value has.
    """
    found: list[str] = []
    for word in words:
        whole = _VARIABLE.fullmatch(word)
        if whole is not None and whole[2] and whole[2] in environment:
            found += environment[whole[2]].split()
        else:
            found.append(_VARIABLE.sub(lambda v: environment.get(v[1] or v[2], v[0]), word))
    return found


def unfilled(words: Sequence[str]) -> list[str]:
    """Return what still stands for something else in words: variables, and systemd's specifiers."""
    return list(
        dict.fromkeys(f[0] for word in words for p in (_VARIABLE, _SPECIFIER) for f in p.finditer(word))
    )
