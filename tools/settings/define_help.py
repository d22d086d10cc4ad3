"""Define the settings of engines that are no Python by what their ``--help`` prints, less deep."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools.settings.types import Cite, Definition, Engine

COMMANDS: Final[dict[Engine, str]] = {
    "llama.cpp": "llama-server --help",
    "ollama": "ollama serve --help",
    "tgi": "text-generation-launcher --help",
}
"""What prints each engine's help; a definition cites lines of that."""
MAX_LINES: Final = 20_000
_OPTION: Final = re.compile(
    r"^ {0,7}(?P<flags>-{1,2}[A-Za-z0-9][\w.-]*(?:, +-{1,2}[A-Za-z0-9][\w.-]*)*)"
    r"(?: (?P<metavar>\S.*?))?(?:  +(?P<help>\S.*))?$"
)
_VARIABLE: Final = re.compile(r"^\s{2,}(?P<name>[A-Z][A-Z0-9_]{3,})\s{2,}(?P<help>\S.*)$")
_HEADING: Final = re.compile(r"^(-{3,}.*|[A-Z_]+|\S.*:)$")
_ENVIRONMENT: Final = re.compile(r"[(\[]env: ([A-Z][A-Z0-9_]*)(?:=[^\]]*)?[)\]]")
_DEFAULT: Final = re.compile(
    r"""\[default: ([^\]]*)\]|\(default:? ("[^"]*"|'[^']*'|[^,;()]*)|default: ('[^']*'|\d+)"""
)
_CHOICES: Final = re.compile(r"\[possible values: ([^\]]*)\]|allowed values: ([^()\[]*)")
_BULLET: Final = re.compile(r"^\s*- ([\w.-]+):", re.MULTILINE)
_PLAIN: Final = re.compile(r"-?[\w.:+/*-]+")
_SWITCHED: Final = {"enabled": True, "disabled": False, "true": True, "false": False}
_OLLAMA: Final = {
    "OLLAMA_CONTEXT_LENGTH": "context length of a model that names none",
    "OLLAMA_MULTIUSER_CACHE": "whether the prompt cache is laid out for several users",
    "OLLAMA_NEW_ENGINE": "whether Ollama's own engine runs models instead of llama.cpp",
    "OLLAMA_INTEL_GPU": "whether Intel GPUs are looked for",
    "CUDA_VISIBLE_DEVICES": "NVIDIA GPUs that may be used",
    "ROCR_VISIBLE_DEVICES": "AMD GPUs that may be used",
    "HIP_VISIBLE_DEVICES": "AMD GPUs that may be used",
    "GPU_DEVICE_ORDINAL": "AMD GPUs that may be used",
    "HSA_OVERRIDE_GFX_VERSION": "architecture that an AMD GPU is taken for",
    "HTTPS_PROXY": "proxy by which models are fetched",
    "NO_PROXY": "hosts that are reached without the proxy",
}
"""Variables that the server reads and logs at its start, and that its help does not name."""


@dataclass(slots=True)
class _Entry:
    """Hold one option or variable of a help text with all its lines."""

    flags: tuple[str, ...]
    metavar: str
    first: int
    last: int
    words: list[str] = field(default_factory=list)
    name: str = ""

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def definitions(engine: Engine, help_text: bytes, version: str = "") -> dict[str, Definition]:
    """Return the options and variables that a help text names, all marked shallow."""
    sha256 = hashlib.sha256(help_text).hexdigest()
    lines = help_text.decode("utf-8", "replace").splitlines()[:MAX_LINES]
    command = COMMANDS.get(engine, "--help")
    found: dict[str, Definition] = {}
    for entry in _entries(lines):
        cite = Cite(command, entry.first, entry.last, version, sha256)
        for definition in _of_entry(entry, cite, command):
            found.setdefault(definition.name, definition)
    if engine == "ollama":
        cite = Cite("ollama's documentation", 0, 0, version, "")
        for name, text in _OLLAMA.items():
            found.setdefault(name, _documented(name, text, cite))
    return found


def _entries(lines: Sequence[str]) -> Iterator[_Entry]:
    entry: _Entry | None = None
    for number, line in enumerate(lines, 1):
        begun = _begun(line.rstrip(), number)
        if begun is not None:
            if entry is not None:
                yield entry
            entry = begun
        elif entry is not None and _HEADING.match(line.rstrip()):
            yield entry
            entry = None
        elif entry is not None and line.strip():
            entry.words.append(line if _BULLET.match(line) else line.strip())
            entry.last = number
    if entry is not None:
        yield entry


def _begun(line: str, number: int) -> _Entry | None:
    """Return the entry that a line begins."""
    option = _OPTION.match(line)
    if option is not None:
        flags = tuple(flag.strip() for flag in option["flags"].split(","))
        return _Entry(flags, option["metavar"] or "", number, number, [option["help"] or ""])
    variable = _VARIABLE.match(line)
    if variable is not None:
        return _Entry((), "", number, number, [variable["help"]], variable["name"])
    return None


def _of_entry(entry: _Entry, cite: Cite, command: str) -> Iterator[Definition]:
    known, default, text = _default(entry)
    if entry.name:
        yield _shallow(entry.name, "environment", command, cite, entry, known, default, text)
        return
    positive, negative = _split(entry.flags)
    leading = [flag for flag in positive if flag.startswith("--")] or list(positive)
    name = leading[-1].lstrip("-").replace("-", "_")
    if name in ("help", "usage", "version", "h", "V"):
        return
    flags = tuple(sorted(positive, key=lambda flag: not flag.startswith("--")))
    yield _shallow(name, "field", command, cite, entry, known, default, text, flags, negative)
    variable = _ENVIRONMENT.search(entry.text)
    if variable is not None:
        yield _shallow(variable[1], "environment", command, cite, entry, known, default, text)


def _shallow(
    name: str,
    kind: Any,
    owner: str,
    cite: Cite,
    entry: _Entry,
    known: bool,
    default: Any,
    text: str,
    flags: tuple[str, ...] = (),
    negative: tuple[str, ...] = (),
) -> Definition:
    return Definition(
        name,
        kind,
        owner,
        cite,
        type=None if entry.metavar or entry.name else "bool",
        default=default,
        default_known=known,
        default_text=text,
        choices=_choices(entry),
        help=entry.text,
        flags=flags,
        negative_flags=negative,
        shallow=True,
        takes="unknown" if entry.name else "one" if entry.metavar else "none",
    )


def _documented(name: str, text: str, cite: Cite) -> Definition:
    return Definition(
        name,
        "environment",
        cite.path,
        cite,
        default_known=False,
        default_text="",
        help=text,
        shallow=True,
    )


def _split(flags: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take apart the flags that switch off: where there is a pair, all behind the last that switches on."""
    on = [place for place, flag in enumerate(flags) if flag.startswith("--") and not flag.startswith("--no-")]
    if not on or not any(flag.startswith("--no-") for flag in flags):
        return tuple(flags), ()
    return tuple(flags[: on[-1] + 1]), tuple(flags[on[-1] + 1 :])


def _default(entry: _Entry) -> tuple[bool, Any, str]:
    """Return whether the default is known, the default, and the help's words for it."""
    found = _DEFAULT.search(entry.text)
    if found is None:
        switch = bool(entry.flags) and not entry.metavar
        return switch, False if switch else None, ""
    text = next(group for group in found.groups() if group is not None).strip()
    if text in _SWITCHED and not entry.metavar:
        return True, _SWITCHED[text], text
    bare = text.strip("\"'`")
    if bare != text and " " not in bare:
        return True, bare, text
    if re.fullmatch(r"-?\d+", text):
        return True, int(text), text
    if re.fullmatch(r"-?\d+\.\d+", text):
        return True, float(text), text
    known = _PLAIN.fullmatch(text) is not None
    return known, text if known else None, text


def _choices(entry: _Entry) -> tuple[Any, ...] | None:
    found = _CHOICES.search(entry.text)
    if found is not None:
        text = next(group for group in found.groups() if group is not None)
        return tuple(word.strip() for word in text.split(",") if word.strip())
    inner = re.fullmatch(r"\{([\w,.-]+)\}|[<\[]([\w.-]+(?:\|[\w.-]+)+)[>\]]", entry.metavar)
    if inner is not None:
        return tuple(re.split(r"[,|]", inner[1] or inner[2]))
    if "Possible values:" in entry.text:
        return tuple(_BULLET.findall("\n".join(entry.words))) or None
    return None
