"""Turn the text of a command into the argument vectors that bash and dash would run, or say why not.

tree-sitter gives the structure; the words are decoded here, from a short list of plain characters and two
kinds of quotes. A node, character or redirect that is not on a list is not accepted: this is not a shell.
"""

from __future__ import annotations

import re
import shlex
import string
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES = 4000
MAX_STAGES = 8

PLAIN = frozenset(string.ascii_letters + string.digits + "_@%+=:,./^!-")
"""Characters that mean themselves outside quotes, to bash and to dash, wherever they stand in an argument."""

_SILENCED = re.compile(r"2> ?/dev/null")
_MERGED = "2>&1"
_ZSH_COMMAND = re.compile(r"=[A-Za-z0-9_@%+:,./^!-]")
_LEAVES = ("word", "number", "raw_string", "string", "concatenation")
_HINTS = {
    "list": "give one command a call instead of ; && ||",
    "command_substitution": "run the inner command first and write its result out",
    "simple_expansion": "write the value out instead of the variable",
    "expansion": "write the value out instead of the variable",
    "subshell": "give one command a call",
    "heredoc_redirect": "here documents are not accepted",
    "herestring_redirect": "here strings are not accepted",
    "variable_assignment": "assignments before a command are not accepted",
}


class Unreadable(Exception):
    """Report text that is not one argument vector; ``dangerous`` when nobody types it in good faith."""

    def __init__(self, why: str, *, dangerous: bool = False) -> None:
        super().__init__(why)
        self.dangerous = dangerous


@dataclass(frozen=True, slots=True)
class Stage:
    """Hold one command of a pipeline: its arguments, the file it reads from, its redirects as rendered."""

    argv: tuple[str, ...]
    stdin: str | None = None
    redirects: tuple[str, ...] = ()

    @property
    def rendered(self) -> str:
        """Return the command as text that every POSIX shell reads back as exactly these arguments."""
        source = [f"< {shlex.quote(self.stdin)}"] if self.stdin is not None else []
        return " ".join([shlex.join(self.argv), *source, *self.redirects])


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parse(command: str) -> tuple[Stage, ...]:
    """Return the stages of a pipeline; raise `Unreadable` for everything that is more than that."""
    if not command.isascii() or not command.isprintable():
        raise Unreadable("only printable ASCII is accepted: no tab, no line break", dangerous=True)
    if not command.strip(" "):
        raise Unreadable("the command is empty")
    if len(command) > MAX_BYTES:
        raise Unreadable(f"the command is longer than {MAX_BYTES} characters")
    source = command.strip(" ")
    root = _parser().parse(source.encode("ascii")).root_node
    if root.type != "program" or root.has_error or len(root.children) != 1:
        raise Unreadable(_why_not(root))
    reader = _Reader(source)
    stages = reader.statement(root.children[0])
    reader.check_coverage()
    if len(stages) > MAX_STAGES:
        raise Unreadable(f"a pipeline of more than {MAX_STAGES} commands is not accepted")
    return tuple(stages)


def _not_accepted(node: Node) -> Unreadable:
    return Unreadable(_HINTS.get(node.type, f"{node.type.replace('_', ' ')} is not accepted here"))


def _why_not(root: Node) -> str:
    kinds = {child.type for child in root.children}
    if "&" in kinds or ";" in kinds:
        return "give one command a call instead of ; or &"
    return "this is not one plain command or pipeline; quote arguments with '...'"


class _Reader:
    """Walk the tree, decode words, and note which bytes were understood."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.covered = bytearray(len(source))

    def check_coverage(self) -> None:
        """Refuse text of which some byte, other than a space, belongs to no accepted leaf."""
        for position, seen in enumerate(self.covered):
            if not seen and self.source[position] != " ":
                raise Unreadable(f"{self.source[position]!r} at {position} is not understood")

    def _take(self, node: Node) -> str:
        start, end = node.start_byte, node.end_byte
        if any(self.covered[start:end]):
            raise Unreadable("parts of the command overlap")
        self.covered[start:end] = b"\x01" * (end - start)
        return self.source[start:end]

    def statement(self, node: Node) -> list[Stage]:
        """Return the stages of a command, a pipeline, or one of them with redirects behind."""
        if node.type == "command":
            return [self._command(node)]
        if node.type == "pipeline":
            return self._pipeline(node)
        if node.type == "redirected_statement":
            first, *redirects = node.children
            stages = self.statement(first)
            for redirect in redirects:
                stages[-1] = self._redirected(stages[-1], redirect)
            return stages
        raise _not_accepted(node)

    def _pipeline(self, node: Node) -> list[Stage]:
        stages: list[Stage] = []
        for index, child in enumerate(node.children):
            if index % 2 == 0:
                stages += self.statement(child)
            elif child.type == "|":
                self._take(child)
            else:
                raise Unreadable(f"{child.type} is not accepted; write 2>&1 |")
        return stages

    def _command(self, node: Node) -> Stage:
        words: list[str] = []
        for child in node.children:
            if child.type == "command_name" and not words and len(child.children) == 1:
                words.append(self._word(child.children[0]))
            elif words and child.type in _LEAVES:
                words.append(self._word(child))
            else:
                raise _not_accepted(child)
        if not words or not words[0]:
            raise Unreadable("the name of the command is missing")
        return Stage(tuple(_checked(word) for word in words))

    def _redirected(self, stage: Stage, node: Node) -> Stage:
        text = self.source[node.start_byte : node.end_byte]
        if node.type != "file_redirect" or self.source[node.start_byte - 1] != " ":
            raise Unreadable(_HINTS.get(node.type, "put a space before a redirect"))
        if _SILENCED.fullmatch(text) or text == _MERGED:
            self._take(node)
            rendered = _MERGED if text == _MERGED else "2>/dev/null"
            return Stage(stage.argv, stage.stdin, (*stage.redirects, rendered))
        kinds = [child.type for child in node.children]
        if stage.stdin is None and len(kinds) == 2 and kinds[0] == "<":
            self._take(node.children[0])
            return Stage(stage.argv, _checked(self._word(node.children[1])), stage.redirects)
        raise Unreadable("of redirects only 2>/dev/null, 2>&1 and < FILE are accepted")

    def _word(self, node: Node) -> str:
        if node.type == "concatenation":
            position = node.start_byte
            words = []
            for child in node.children:
                if child.start_byte != position or child.type == "concatenation":
                    raise Unreadable("a word made of parts is not understood")
                words.append(self._word(child))
                position = child.end_byte
            return "".join(words)
        if node.type not in _LEAVES:
            raise _not_accepted(node)
        text = self._take(node)
        if node.type == "raw_string":
            return _single_quoted(text)
        if node.type == "string":
            return _double_quoted(text)
        return _bare(text)


def _checked(word: str) -> str:
    if _ZSH_COMMAND.match(word):
        raise Unreadable("an argument that starts with = is the path of a command to zsh")
    return word


def _bare(text: str) -> str:
    for character in text:
        if character not in PLAIN:
            raise Unreadable(f"quote {character!r}: outside quotes a shell may read it as more than itself")
    return text


def _single_quoted(text: str) -> str:
    if len(text) < 2 or text[0] != "'" or text[-1] != "'" or "'" in text[1:-1]:
        raise Unreadable("this quoting is not understood")
    return text[1:-1]


def _double_quoted(text: str) -> str:
    """Decode ``"..."``: a backslash escapes four characters, and ``$`` is itself only before ``" ) |``."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise Unreadable("this quoting is not understood")
    body = text[1:-1]
    decoded = []
    position = 0
    while position < len(body):
        character = body[position]
        following = body[position + 1 : position + 2]
        if character == "\\" and following and following in '$`"\\':
            decoded.append(following)
            position += 2
            continue
        if character in '`"' or (character == "\\" and not following):
            raise Unreadable("use '...' around this argument", dangerous=character == "`")
        if character == "$" and following not in ("", ")", "|"):
            raise Unreadable("write $ inside '...', or write the variable's value out")
        decoded.append(character)
        position += 1
    return "".join(decoded)
