"""Judge what a free shell command does: does it change the host, does it read the source of a package?

The policy of `run` judges one plain command and sends back everything else. An agent that has a whole shell
writes lists, loops, substitutions and wrappers, so its command is taken apart first and each simple command
in it is judged by that same policy. What the policy merely does not know is no offence here; what it refuses
is one, unless it only reads, puts load on a server of the host itself, or touches nothing but scratch files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tools.policy import judge, read_denied

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_WRAPPERS: Final = frozenset(
    {"nohup", "env", "xargs", "time", "nice", "ionice", "stdbuf", "setsid", "command", "timeout", "sudo"}
)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh"})
_INSTALLERS: Final = frozenset({"pip", "pip3", "uv", "apt", "apt-get", "conda", "npm", "snap", "dpkg"})
_ALTERS: Final = frozenset({"install", "uninstall", "remove", "purge", "upgrade", "dist-upgrade", "-i"})
_CONTROLS: Final = frozenset({"service", "docker", "podman", "kubectl", "ollama", "crontab", "git", "tar"})
_CONTROLLED: Final = frozenset(
    {"start", "stop", "restart", "reload", "kill", "rm", "run", "create", "apply", "delete", "pull", "serve"}
    | {"-r", "-e", "checkout", "reset", "xf", "-xf", "xzf", "-xzf", "exec", "update", "cp", "push"}
)
_LAUNCHES: Final = re.compile(r"\b(?:launch_server|api_server|vllm serve|llama-server|torchrun)\b")
_READERS: Final = frozenset({"grep", "rg", "pgrep", "ps", "cat", "sed", "awk"})
_SCRATCH: Final = re.compile(r"(?:/tmp|/var/tmp|/dev/shm)/[^/].*|/dev/(?:null|stdout|stderr|fd/\d+)")
_WRITERS: Final = frozenset({"tee", "mkdir", "touch", "rm", "rmdir", "truncate", "cp", "chmod"})
_LOAD: Final = re.compile(
    r"(?:https?://)?(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?/(?:generate|tokenize|api/generate|api/chat"
    r"|completion|v1/(?:chat/)?completions)/?"
)
_SENDS: Final = re.compile(
    r"-X\s?(?:POST|PUT|DELETE|PATCH)|POST|PUT|DELETE|PATCH|-[dFT].*|--(?:data|form|json|upload).*"
)
_ONTO_DISK: Final = re.compile(r"-[a-zA-Z]*o|--output|--cookie-jar|-c|-D|--dump-header")
_SOURCE: Final = re.compile(
    r"(?:site|dist)-packages/|\.(?:pyx?|pyi|cu|cuh|cc|cpp|hpp|go|rs)\b(?![-\w:])", re.IGNORECASE
)
_LISTS_ONLY: Final = frozenset({"ls", "find", "stat", "du", "readlink", "realpath", "file", "test", "which"})
_DEEPEST: Final = 4


@lru_cache(maxsize=4096)
def changes_host(command: str) -> str:
    """Return the part of a command that would change the host, with the reason; empty when none would."""
    return next(_offences(command, 0), "")


@lru_cache(maxsize=4096)
def reads_source(command: str) -> bool:
    """Tell whether a command shows lines of source files, rather than only their names."""
    return any(
        words and words[0].rsplit("/", 1)[-1] not in _LISTS_ONLY and _SOURCE.search(" ".join(words[1:]))
        for words, _ in _simple(command)
    )


def _offences(command: str, depth: int) -> Iterator[str]:
    for words, writes in _simple(command):
        yield from (f"> {target}: writes a file" for target in writes if not _is_scratch(target))
        yield from _offences_of(words, depth)


def _offences_of(words: Sequence[str], depth: int) -> Iterator[str]:
    """Yield what a simple command, and every command that it starts, would change."""
    if not words or depth > _DEEPEST:
        return
    name = words[0].rsplit("/", 1)[-1]
    for inner in _started(name, words[1:]):
        yield from _offences_of(inner, depth + 1)
    if name in _SHELLS or name == "eval":
        for script in _scripts(name, words[1:]):
            yield from _offences(script, depth + 1)
        if name in _SHELLS and not words[1:]:
            yield f"{name}: runs whatever it is fed"
    if name in _WRAPPERS or name in _SHELLS or name == "eval":
        return
    if why := _offence(name, words):
        yield f"{' '.join(words)[:160]}: {why}"


def _offence(name: str, words: Sequence[str]) -> str:
    if name in _INSTALLERS and _ALTERS.intersection(words[1:3]):
        return "changes what is installed"
    if name == "curl":
        return _requests(words)
    if name in _CONTROLS and _CONTROLLED.intersection(words[1:3]):
        return "starts, stops or alters something"
    if _LAUNCHES.search(" ".join(words[:6])) and name not in _READERS and not _only_reads(words):
        return "starts a server"
    if name == "sed" and any(re.fullmatch(r"-[a-zA-Z]*i.*|--in-place.*", word) for word in words[1:]):
        return "edits files in place"
    if name == "find" and "-delete" in words:
        return "deletes files"
    if name == "find" or _only_scratch(name, words):
        return ""
    seen = ["/x" if read_denied(word) else word for word in words]
    decision = judge(shlex.join(seen))
    return decision.reason if decision.verdict == "refuse" else ""


def _only_reads(words: Sequence[str]) -> bool:
    """Tell whether the product's own policy lets it run: a unit or a file may have a server's name."""
    return judge(shlex.join(words)).verdict == "allow"


def _requests(words: Sequence[str]) -> str:
    """Return what is wrong with a curl that sends something or writes a file; load on its own host is not."""
    files = [words[place + 1] for place, word in enumerate(words[:-1]) if _ONTO_DISK.fullmatch(word)]
    if not all(_is_scratch(file) for file in files) or "-O" in words:
        return "writes a file"
    places = [word for word in words[1:] if re.match(r"(?:https?://|localhost|127\.|\[::1\])", word)]
    if any(not re.match(r"(?:https?://)?(?:localhost|127\.|\[::1\])", place) for place in places):
        return "asks another machine"
    load = bool(places) and all(_LOAD.fullmatch(place) for place in places)
    sends = any(_SENDS.fullmatch(word) for word in words[1:])
    return "sends what may change a server" if sends and not load else ""


def _only_scratch(name: str, words: Sequence[str]) -> bool:
    """Tell whether a command that writes touches nothing but scratch files."""
    targets = [word for word in words[1:] if not word.startswith("-")]
    if name == "cp":
        targets = targets[-1:]
    if name == "chmod":
        targets = targets[1:]
    return name in _WRITERS and bool(targets) and all(_is_scratch(target) for target in targets)


def _is_scratch(target: str) -> bool:
    return bool(_SCRATCH.fullmatch(target)) and ".." not in target


def _started(name: str, words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the commands that a command starts: behind a wrapper, or behind ``find -exec``."""
    if re.fullmatch(r"python[\d.]*", name) and words[:2] == ("-m", "pip"):
        yield words[1:]
    if name in _WRAPPERS:
        for place, word in enumerate(words):
            if not word.startswith("-") and "=" not in word and not re.fullmatch(r"[\d.]+[smh]?|\{\}", word):
                yield words[place:]
                return
    if name == "find":
        for place, word in enumerate(words):
            if word in {"-exec", "-execdir", "-ok", "-okdir"}:
                yield words[place + 1 :]


def _scripts(name: str, words: Sequence[str]) -> Iterator[str]:
    if name == "eval":
        yield " ".join(words)
        return
    for place, word in enumerate(words[:-1]):
        if re.fullmatch(r"-[a-z]*c", word):
            yield words[place + 1]
            return


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


@lru_cache(maxsize=4096)
def _simple(command: str) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Return every simple command in a text, with the files that it is redirected to."""
    source = command.encode("utf-8", "replace")
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    nodes = [_parser().parse(source).root_node]
    while nodes:
        node = nodes.pop()
        if node.type == "command":
            found.append((tuple(_words(node, source)), ()))
        elif node.type == "file_redirect" and (target := _target(node, source)) is not None:
            found.append(((), (target,)))
        nodes.extend(reversed(node.children))
    return tuple(found)


def _words(node: Node, source: bytes) -> Iterator[str]:
    for child in node.children:
        if child.type not in {"variable_assignment", "file_redirect", "herestring_redirect"}:
            yield _plain(_text(child, source))


def _target(node: Node, source: bytes) -> str | None:
    """Return the file that a redirect writes; None for input, and for one descriptor onto another."""
    kinds = [child.type for child in node.children]
    if not any(kind.startswith((">", "&>")) for kind in kinds) or not node.children:
        return None
    target = _plain(_text(node.children[-1], source))
    return None if re.fullmatch(r"\d+|-", target) and ">&" in "".join(kinds) else target


def _text(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _plain(word: str) -> str:
    """Return a word without its quotes, in characters that the policy reads; what expands stays as it is."""
    if len(word) > 1 and word[0] in "\"'" and word[-1] == word[0]:
        word = word[1:-1]
    return "".join(char if char.isascii() and char.isprintable() else " " for char in word)
