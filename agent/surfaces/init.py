"""Ask what a first settings file needs, show it, and write it whole: what ``leadline init`` does."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.config import Settings, config_files, load_settings
from agent.errors import LeadlineError, UsageError
from agent.models.select import PLAYBOOK, model_of
from agent.surfaces.console import write_fitted
from agent.surfaces.init_file import Answers, name_of, text_of
from agent.surfaces.init_hosts import ask_hosts, check_hosts
from tools.display import printable

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
    write_fitted(f"\n{path}:\n\n{_indented(text)}\n", sys.stderr)
    if asks and not _wanted(path, options):
        write_fitted("nothing was written\n", sys.stderr)
        return
    write(path, text)
    sys.stdout.write(f"{path}\n")
    write_fitted(_next(answers), sys.stderr)


def answered(options: InitOptions, ask: Ask) -> Answers:
    """Return what flags say, and answers to what they leave open; ``ask`` gets a question and a default."""
    url, model = _endpoint(options, ask)
    return Answers(
        base_url=url or None,
        model=model or PLAYBOOK,
        hosts=options.hosts if options.hosts is not None else ask_hosts(ask, shows=ask is not by_default),
        slack=options.slack if options.slack is not None else agreed("Slack bot? [y/N]", "n", ask),
        state_dir=_state(options.state_dir, ask),
    )


def agreed(question: str, default: str, ask: Ask) -> bool:
    """Ask until the answer is yes or no: what is neither decides nothing."""
    while True:
        answer = ask(question, default).strip(" .!'\"").lower()
        if answer in _YES or answer in _NO:
            return answer in _YES
        write_fitted("answer y or n, or Enter for the one in capitals\n", sys.stderr)


def by_default(question: str, default: str) -> str:
    """Answer with the default: where nobody can be asked."""
    return default


def asked(question: str, default: str) -> str:
    """Ask on stderr and return the line, or the default for an empty one."""
    write_fitted(f"{question}{f' [{default}]' if default and '[' not in question else ''}: ", sys.stderr)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("the input ended before all was answered; nothing was written", do="begin again")
    return line.strip() or default


def _endpoint(options: InitOptions, ask: Ask) -> tuple[str, str]:
    """Return the endpoint and the model there, both empty for neither; ask again for what cannot be one."""
    question = (
        "Model endpoint, OpenAI-compatible (such as http://gpu1:30000/v1; empty: the built-in playbooks)"
    )
    while True:
        url = options.base_url if options.base_url is not None else ask(question, "")
        if options.model is not None:
            if url and not options.model:
                raise _nameless(url)
            return url, options.model
        if not url:
            return "", ""
        settings = load_settings(base_url=url, model="?")  # whatever a file that is there names
        try:
            model_of(settings)
        except UsageError as error:
            if options.base_url is not None or ask is by_default:
                raise
            write_fitted(f"{printable(str(error))}\n", sys.stderr)
            continue
        model = _model(url, _offered(settings), ask)
        return (url, model) if model else ("", "")


def _model(url: str, offered: list[str], ask: Ask) -> str:
    """Return the model that is to be asked for; empty where the endpoint is left out after all."""
    if offered:
        write_fitted(f"It serves: {', '.join(offered)}\n", sys.stderr)
    while True:
        model = ask("Model", offered[0] if offered else "")
        if model:
            return model
        if ask is by_default:
            raise _nameless(url)
        write_fitted(
            f"an endpoint takes the name of a model, and none is known for {printable(url)}\n", sys.stderr
        )
        if agreed("Leave the endpoint out? [y/N]", "n", ask):
            return ""


def _nameless(url: str) -> UsageError:
    return UsageError(f"no model is named for {url}", do="name one that it serves with --model")


def _offered(settings: Settings) -> list[str]:
    from agent.models.listing import served

    try:
        return [printable(name) for name in asyncio.run(served(settings))]
    except LeadlineError as error:
        write_fitted(f"note: {printable(str(error))}\n", sys.stderr)
        return []


def _state(flag: Path | None, ask: Ask) -> Path | None:
    usual = load_settings().state_dir
    chosen = flag if flag is not None else Path(ask("Where transcripts and case files lie", str(usual)))
    chosen = chosen.expanduser().absolute()
    return None if chosen == usual else chosen


def _check(answers: Answers, text: str) -> None:
    """Refuse what would be no settings file, or settings that nothing could start with."""
    check_hosts(answers.hosts)
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
