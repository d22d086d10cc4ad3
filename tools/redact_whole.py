"""Mask secrets that only their place in a whole text gives away: Kubernetes secrets, YAML over lines."""

from __future__ import annotations

import re
from typing import Any, Final

from tools.redact_marks import MASKED, compiled, over_lines, placeholder, substitute
from tools.redact_names import harmless, strength

_NAMES: Final = r"(?:token|secret|passw|passphrase|pwd|key|credential)[a-z0-9_.-]*"
_AT_END: Final = r"[\"']?[ \t]*:[ \t]*(?:[|>][+-]?[0-9]?)?[ \t]*\r?\n"
BLOCK_SIGN: Final = _NAMES + _AT_END
"""What a text has that needs `mask_blocks`."""

_BLOCK: Final = rf"(?mi)^([ \t]*(?:-[ \t]+)?[\"']?)([a-z0-9_.-]*{_NAMES})({_AT_END})".encode()
_SECRET_KIND: Final = (
    rb"(?m)(?:^[ \t]*kind:[ \t]*[\"']?Secret[\"']?[ \t\r]*$|\"kind\"[ \t]*:[ \t]*\"Secret\")"
)
_DATA: Final = rb"(?m)^([ \t]*)(?:data|stringData):[ \t\r]*\n"
_PAIR: Final = re.compile(rb"^([ \t]*)([^\s:#][^:\n]*:[ \t]+)([^\s|>][^\n]*)$")
_JSON_DATA: Final = rb"\"(?:data|stringData)\"[ \t]*:[ \t]*\{([^{}]*)\}"
_JSON_PAIR: Final = re.compile(rb"(\"[^\"\n]+\"\s*:\s*\")((?:[^\"\\\n]|\\.)+)\"")
_DOCUMENT: Final = re.compile(rb"(?m)^---[ \t\r]*$")


def mask_kubernetes(data: bytes) -> bytes:
    """Mask every value below ``data`` in documents of kind Secret."""
    documents: list[bytes] = []
    position = 0
    for mark in [*_DOCUMENT.finditer(data), None]:
        end = mark.start() if mark else len(data)
        document = data[position:end]
        if compiled(_SECRET_KIND).search(document) is not None:
            document = _yaml_values(substitute(_JSON_DATA, document, _json_values))
        documents += (document, mark.group() if mark else b"")
        position = mark.end() if mark else end
    return b"".join(documents)


def _json_values(match: Any) -> bytes:
    def replace(pair: re.Match[bytes]) -> bytes:
        return pair[1] + _value(pair[2]) + b'"'

    return _JSON_PAIR.sub(replace, match.group())


def _yaml_values(document: bytes) -> bytes:
    out: list[bytes] = []
    position = 0
    for head in compiled(_DATA).finditer(document):
        if head.start() < position:
            continue
        out.append(document[position : head.end()])
        lines, position = _indented(document, head.end(), len(head.group(1)))
        out += [_yaml_line(line) for line in lines]
    return b"".join((*out, document[position:]))


def _yaml_line(line: bytes) -> bytes:
    """Mask the value of ``name: value``, or a whole line of a value that goes over lines."""
    body = line.rstrip(b"\r\n")
    if (pair := _PAIR.match(body)) is not None:
        return pair[1] + pair[2] + _value(pair[3]) + line[len(body) :]
    if not body.strip() or body.rstrip().endswith((b":", b"|", b">", b"|-", b">-")):
        return line
    blank = body[: len(body) - len(body.lstrip())]
    return blank + _value(body.lstrip()) + line[len(body) :]


def _value(value: bytes) -> bytes:
    bare = value.strip(b"\"' ")
    return value if not bare or MASKED.search(value) else value.replace(bare, placeholder("secret", bare), 1)


def _indented(data: bytes, position: int, indent: int) -> tuple[list[bytes], int]:
    """Return the lines from a place on that stand deeper than ``indent``, and where they end."""
    lines: list[bytes] = []
    while position < len(data):
        stop = data.find(b"\n", position) + 1 or len(data)
        line = data[position:stop]
        if line.strip() and len(line) - len(line.lstrip(b" \t")) <= indent:
            break
        lines.append(line)
        position = stop
    return lines, position


def mask_blocks(data: bytes) -> bytes:
    """Mask values that begin on the line after the name of a secret: blocks, one word, or a list of words."""
    out: list[bytes] = []
    done = 0
    for head in compiled(_BLOCK).finditer(data):
        if head.start() < done or strength(head.group(2).decode("latin-1")) not in ("strong", "token"):
            continue
        lines, end = _indented(data, head.end(), len(head.group(1).rstrip(b"\"'")))
        block = any(sign in head.group(3) for sign in (b"|", b">"))
        masked = _block(lines) if block else _words(lines)
        out += (data[done : head.end()], masked)
        done = end
    return b"".join((*out, data[done:])) if out else data


def _block(lines: list[bytes]) -> bytes:
    text = b"".join(lines)
    body = text.strip()
    if not body or MASKED.search(body):
        return text
    start = text.index(body)
    return text[:start] + over_lines("secret", body) + text[start + len(body) :]


def _words(lines: list[bytes]) -> bytes:
    """Mask lines of one word each; leave what is a mapping or a sentence."""
    return b"".join(_word(line) for line in lines)


def _word(line: bytes) -> bytes:
    body = line.strip().removeprefix(b"- ").strip(b"\"' \t,")
    if not body or len(body.split()) != 1 or body.endswith(b":") or b": " in body or MASKED.search(body):
        return line
    if harmless("password", "strong", body.decode("latin-1"), assigned=False):
        return line
    return line.replace(body, placeholder("secret", body), 1)
