"""Say which words may stand at the end of a line that is typed in a shell.

It runs at every press of Tab, so it loads no settings: the shell hands over what stands in the environment,
the files are read for names alone, and only the command that is typed is made.
"""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from agent.ssh_aliases import ssh_aliases
from agent.surfaces import completion_threads
from agent.surfaces.completion_threads import Row

FILES = "@files"
"""Stands in the answer where the shell completes names of files itself."""

_MOST_READ = 1 << 20
_OFFERED = re.compile(r"[\w@./-][\w@.,:/#%+=-]*")
"""What a shell takes as it stands: bash puts a word into the line unquoted; zsh runs what begins with =."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_KINDS = {
    "HOST": "hosts",
    "HOSTS": "hosts",
    "ID": "sessions",
    "CHANGE": "changes",
    "FILE": "files",
    "DIR": "files",
    "SCENARIO": "scenarios",
    "LAB": "labs",
}
_RECORDED = {"sessions": completion_threads.sessions, "changes": completion_threads.changes}
_PROGRAM = "leadline"
_PLUGINS = "leadline.hosts"


@dataclass(frozen=True, slots=True)
class Places:
    """Say where states and settings lie, as the shell has them from its environment."""

    state: Path
    configs: tuple[Path, ...]

    @classmethod
    def of(cls, state_dir: str, state_home: str, config_home: str) -> Places:
        """Take what the environment names, empty where it does not."""
        config = Path(config_home or Path.home() / ".config") / "leadline" / "config.toml"
        configs: tuple[Path, ...] = (Path("/etc/leadline/config.toml"), config)
        if _trusted(configs):  # else a folder's file has no say in any of this
            configs = (*configs, Path(".leadline.toml"))
        said = [str(one["state_dir"]) for one in _tables(configs) if "state_dir" in one]
        named = state_dir or (said[-1] if said else "")
        return cls(Path(named or Path(state_home or Path.home() / ".local/state") / "leadline"), configs)


def print_script(shell: str) -> None:
    """Print the script of a shell."""
    sys.stdout.write((Path(__file__).with_name("shells") / f"leadline.{shell}").read_text())


def print_words(line: str, places: Places) -> None:
    """Print a word a line, with what it is behind a tab; `FILES` where the shell goes on by itself."""
    for word, told in words_for(line, places):
        sys.stdout.write(f"{word}\t{told}\n" if told else f"{word}\n")


def words_for(line: str, places: Places) -> list[Row]:
    """Return what may take the place of the last word of a line, which may be empty."""
    *before, last = _split(line)
    try:
        rows = [(word, told) for word, told in _rows(before[1:], last, places) if _OFFERED.fullmatch(word)]
        # A name that looks like an option would be one.
        rows = [row for row in rows if last.startswith("-") or not row[0].startswith("-")]
        return [(word, _plain(told)) for word, told in rows if word == FILES or word.startswith(last)]
    except (OSError, ValueError):  # a Tab never prints an error into the line
        return []


def _split(line: str) -> list[str]:
    """Return the words of a line from our own name on; the last one is what is being typed."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that is still open
        words = [*line.split(" ")[:-1], ""]
    else:
        words = [*words, ""] if not line or line[-1].isspace() else words
    ours = (at for at, word in enumerate(words[:-1]) if word.rpartition("/")[2] == _PROGRAM)
    return words[next(ours, 0) :]


def _rows(words: list[str], last: str, places: Places) -> Iterable[Row]:
    from typer.main import get_command

    from agent.surfaces.cli import app

    command: Any = get_command(app)
    rest = ["ask", *words[1:]] if words[:1] in (["-p"], ["--print"]) else list(words)
    while hasattr(command, "list_commands"):
        at = next((place for place, word in enumerate(rest) if not word.startswith("-")), None)
        if at is None:
            return _options(command) if last.startswith("-") else _named(command)
        command = command.get_command(None, rest[at])
        if command is None:
            return []
        rest = rest[at + 1 :]
    return _of_command(command, rest, last, places)


def _named(group: Any) -> Iterator[Row]:
    describe = getattr(group, "described", None) or (lambda name: group.get_command(None, name))
    for name in group.list_commands(None):
        known = describe(name)
        if known is None or not known.hidden:
            yield name, known.get_short_help_str(60) if known is not None else ""


def _options(command: Any) -> list[Row]:
    found = []
    for param in command.params:
        if param.param_type_name == "option" and not param.hidden:
            names = [*param.opts, *param.secondary_opts]
            told = (param.help or "").replace("\\[", "[")  # a help text is markup, and a shell's list is not
            found += [(name, told) for name in names if name.startswith("--")]
    return [*found, ("--help", "Show this message and exit.")]


def _of_command(command: Any, rest: list[str], last: str, places: Places) -> Iterable[Row]:
    options = {name: param for param in command.params for name in (*param.opts, *param.secondary_opts)}
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    given, waiting = 0, None
    for word in rest:
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and len(word) > 1:
            param = options.get(word)
            waiting = param if param is not None and not param.is_flag else None
        else:
            given += 1
    if waiting is not None:
        return _values(waiting, last, places)
    if last.startswith("-"):
        return _options(command)
    if not arguments:
        return []
    many = arguments[-1].nargs == -1
    if given >= len(arguments) and not many:
        return []
    return _values(arguments[min(given, len(arguments) - 1)], last, places)


def _values(param: Any, last: str, places: Places) -> Iterable[Row]:
    """Return what may be given for an option or an argument."""
    described = getattr(param, "type_descriptor", None)
    annotated = getattr(described, "annotation", None)
    if isinstance(annotated, type) and issubclass(annotated, Enum):
        return [(str(one.value), "") for one in annotated]
    kind = _KINDS.get(str(param.metavar or "").strip("[].").upper(), "")
    if param.name == "approval":
        kind = ""  # they lie sealed in a database
    elif param.name in ("resume", "session"):
        kind = "sessions"
    elif param.name in ("host", "hosts"):
        kind = "hosts"
    elif annotated is Path:
        kind = "files"
    if kind == "hosts":
        before, comma, begun = last.rpartition(",")  # a list is one word
        rows = [row for row in (*_hosts(places), *_plugged(begun, places)) if row[0] not in before.split(",")]
        return [(f"{before}{comma}{name}", told) for name, told in rows]
    if kind == "scenarios":
        return [(word.partition(":")[2], told) for word, told in _plugged("lab:", places) if "#" not in word]
    if kind == "labs":
        return [(word.partition("#")[2], told) for word, told in _plugged("lab:", places) if "#" in word]
    if kind in _RECORDED:
        return _RECORDED[kind](places.state)
    return [(FILES, "")] if kind == "files" else []


def _hosts(places: Places) -> Iterator[Row]:
    seen = {"local"}
    yield "local", "this machine"
    ssh = Path.home() / ".ssh" / "config"
    groups: dict[str, None] = {}
    for table in _tables(places.configs):
        ssh = Path(str(table.get("ssh_config") or ssh)).expanduser()
        entries = table.get("hosts")
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            told = entry if isinstance(entry, dict) else {}
            groups.update((f"@{one}", None) for one in told.get("groups") or ())
            if name not in seen:
                seen.add(name)
                yield name, " ".join(str(told.get(key) or "") for key in ("role", "ssh")).strip()
    yield from ((name, "a group") for name in groups)
    yield from ((name, "of ~/.ssh/config") for name in ssh_aliases(ssh) if name not in seen)


def _plugged(last: str, places: Places) -> Iterator[Row]:
    """Yield hosts of plugins, once the beginning of a scheme is typed: there may be many."""
    from agent.surfaces import plugins

    for scheme in plugins.registered(_PLUGINS):
        if last.startswith(f"{scheme}:") or (len(last) > 1 and f"{scheme}:".startswith(last)):
            try:
                offered = getattr(plugins.load(_PLUGINS, scheme), "offered", None)
            except ImportError:  # what other packages bring is no reason to offer nothing
                continue
            yield from offered(places.state) if offered is not None else ()


def _trusted(configs: Iterable[Path]) -> bool:
    named = [one for table in _tables(configs) for one in table.get("trusted_projects") or ()]
    return any(Path(str(one)).expanduser().resolve() == Path.cwd() for one in named)


def _tables(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        try:
            if path.is_file():  # a pipe would hold the shell for ever
                with path.open("rb") as file:
                    yield tomllib.loads(file.read(_MOST_READ).decode())
        except (OSError, ValueError, RecursionError):
            continue


def _plain(text: str) -> str:
    """Return a text on one line, with nothing in it that a terminal would obey."""
    return " ".join(_UNSAFE.sub(" ", text).split())[:80]
