"""Ask what a first settings file needs, show it, and write it whole: what ``leadline init`` does."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.config import Settings, config_files, load_settings
from agent.errors import LeadlineError, UsageError
from agent.models.select import PLAYBOOK, model_of
from agent.ssh_aliases import ssh_aliases
from agent.surfaces.init_file import Answers, name_of, text_of
from tools.display import printable

_SHOWN = 20
_YES, _NO = ("y", "yes"), ("n", "no")
Ask = Callable[[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """Hold the flags; None is a question where somebody can be asked."""

    base_url: str | None
    model: str | None
    hosts: list[str] | None
    slack: bool | None
    state_dir: Path | None
    yes: bool
    force: bool


def run(options: InitOptions) -> None:
    """Ask, show, write, and say what comes next."""
    path = config_files()[1]
    asks = not options.yes and sys.stdin.isatty() and sys.stderr.isatty()
    if path.exists() and not (options.force or asks):
        raise UsageError(f"{path} is there already", do="edit it, or write over it with --force")
    answers = answered(options, asked if asks else by_default)
    text = text_of(answers)
    _check(answers, text)
    sys.stderr.write(f"\n{path}:\n\n{_indented(text)}\n")
    if asks and not _wanted(path, options):
        sys.stderr.write("nothing was written\n")
        return
    write(path, text)
    sys.stdout.write(f"{path}\n")
    sys.stderr.write(_next(answers))


def answered(options: InitOptions, ask: Ask) -> Answers:
    """Return what flags say, and answers to what they leave open; ``ask`` gets a question and a default."""
    url, offered = _endpoint(options, ask)
    model = options.model
    if model is None and url:
        if offered:
            sys.stderr.write(f"It serves: {', '.join(offered)}\n")
        model = ask("Model", offered[0] if offered else "")
    if url and not model:
        raise UsageError(f"no model is named for {url}", do="name one that it serves with --model")
    return Answers(
        base_url=url or None,
        model=model or PLAYBOOK,
        hosts=options.hosts if options.hosts is not None else _hosts(ask),
        slack=options.slack if options.slack is not None else agreed("Slack bot? [y/N]", "n", ask),
        state_dir=_state(options.state_dir, ask),
    )


def agreed(question: str, default: str, ask: Ask) -> bool:
    """Ask until the answer is yes or no: what is neither decides nothing."""
    while True:
        answer = ask(question, default).strip(" .!'\"").lower()
        if answer in _YES or answer in _NO:
            return answer in _YES
        sys.stderr.write("answer y or n, or Enter for the one in capitals\n")


def by_default(question: str, default: str) -> str:
    """Answer with the default: where nobody can be asked."""
    return default


def asked(question: str, default: str) -> str:
    """Ask on stderr and return the line, or the default for an empty one."""
    sys.stderr.write(f"{question}{f' [{default}]' if default and '[' not in question else ''}: ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise UsageError("the input ended before all was answered; nothing was written", do="begin again")
    return line.strip() or default


def _endpoint(options: InitOptions, ask: Ask) -> tuple[str, list[str]]:
    """Return the endpoint and the models that it serves; ask again for what cannot be one."""
    question = (
        "Model endpoint, OpenAI-compatible (such as http://gpu1:30000/v1; empty: the built-in playbooks)"
    )
    while True:
        url = options.base_url if options.base_url is not None else ask(question, "")
        if not url or options.model is not None:
            return url, []
        settings = load_settings(base_url=url, model="?")  # whatever a file that is there names
        try:
            model_of(settings)
        except UsageError as error:
            if options.base_url is not None or ask is by_default:
                raise
            sys.stderr.write(f"{printable(str(error))}\n")
            continue
        return url, _offered(settings)


def _offered(settings: Settings) -> list[str]:
    from agent.models.listing import served

    try:
        return [printable(name) for name in asyncio.run(served(settings))]
    except LeadlineError as error:
        sys.stderr.write(f"note: {printable(str(error))}\n")
        return []


def _hosts(ask: Ask) -> list[str]:
    aliases = ssh_aliases(load_settings().ssh_config)
    for number, alias in enumerate(aliases[:_SHOWN], 1):
        if ask is not by_default:
            sys.stderr.write(f"  {number}  {printable(alias)}\n")
    more = f" (and {len(aliases) - _SHOWN} more)" if len(aliases) > _SHOWN else ""
    where = f"of ~/.ssh/config{more}, numbers, names or all" if aliases else "as [user@]address"
    while True:
        try:
            return picked(ask(f"Hosts to take, {where}, commas between (empty: none)", ""), aliases)
        except UsageError as error:
            sys.stderr.write(f"{error}\n")


def picked(line: str, aliases: Sequence[str]) -> list[str]:
    """Return the hosts that a line names by number, alias, address, or `all`."""
    found: list[str] = []
    for word in filter(None, (part.strip() for part in line.replace(",", " ").split())):
        if word == "all":
            found += aliases
        elif word.isdecimal() and word not in aliases:
            if not 0 < int(word) <= len(aliases):
                raise UsageError(f"there is no host {word}", do=f"numbers go from 1 to {len(aliases)}")
            found.append(aliases[int(word) - 1])
        else:
            found.append(word)
    return list(dict.fromkeys(found))


def _state(flag: Path | None, ask: Ask) -> Path | None:
    usual = load_settings().state_dir
    chosen = flag if flag is not None else Path(ask("Where transcripts and case files lie", str(usual)))
    chosen = chosen.expanduser().absolute()
    return None if chosen == usual else chosen


def _check(answers: Answers, text: str) -> None:
    """Refuse what would be no settings file, or settings that nothing could start with."""
    names = [name_of(place) for place in answers.hosts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"two hosts would be named {twice}", do="take one of them, and name the other by hand"
        )
    model_of(load_settings(**tomllib.loads(text)))


def _indented(text: str) -> str:
    return "".join(f"    {printable(line)}\n" for line in text.splitlines())


def _wanted(path: Path, options: InitOptions) -> bool:
    over = path.exists() and not options.force
    question = f"{path} is there already. Write over it? [y/N]" if over else "Write it? [Y/n]"
    return agreed(question, "n" if over else "y", asked)


def write(path: Path, text: str) -> None:
    """Put the file there whole, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _next(answers: Answers) -> str:
    lines = ["", "Check it:      leadline doctor"]
    if answers.hosts:
        lines += [
            "Its hosts:     leadline hosts check",
            f'Then:          leadline ask {name_of(answers.hosts[0])} "decode is slow"',
        ]
    else:
        lines.append('Then:          leadline ask HOST "decode is slow", or lab:kimi-k26-pp8 to try it')
    if answers.slack:
        lines.append("Slack:         leadline slack manifest")
    return "\n".join(lines) + "\n"
