"""Tell whether a prompt or a playbook gives a case's answer away: a phrase, number, host, path or line of it.

A model that is told the answer is not measured. Names that stand in the package of the case's scenario are
free to be used, since whoever reads the source meets them; numbers, host names, paths, line numbers and prose
are not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent.errors import UsageError
from evals import case as cases
from evals.case import Case
from evals.lab import scenario as scenarios
from evals.recordings import load as recording

ROOT = Path(__file__).parent.parent
SHOWN = (
    "prompts/*.j2",
    "prompts/*.yaml",
    "prompts/playbooks/*.md",
    "agent/*.py",
    "agent/models/*.py",
    "tools/*.py",
    "tools/settings/*.py",
)
"""What a model is shown or works by: prompts, playbooks, tool descriptions, refusals, the built-in method."""

_PHRASE = 5
_MEANING = 3
"""A phrase of five words counts when three of them carry meaning."""

_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be been but by can do does each every for from had has have how if in into is it
        its more most no not of off on one only or out over per s so than that the their then there they this
        to under up was were what when where which while who why will with without""",
    )
)
_NAME = re.compile(r"--[\w-]+|\b\w*_\w+\b|\b[A-Z][a-z]+[A-Z]\w*\b|\b[A-Z]{2,}\w*\b")
_VERSION = re.compile(r"\b\d+(?:\.\d+){2,}\b")
_NUMBER = re.compile(r"(?<![\w.#-])\d+(?:\.\d+)?(?![\w-]|\.\d)")
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Leak:
    """Say what of which case's answer stands where."""

    case: str
    kind: str
    what: str
    file: str
    line: int

    def __str__(self) -> str:
        """Return one line for a person."""
        return f"{self.file}:{self.line}: {self.kind} of case {self.case}: {self.what}"


@dataclass(frozen=True, slots=True)
class Answers:
    """Hold what of a case must stand in nothing that a model is shown."""

    case: str
    phrases: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    places: frozenset[str]

    @classmethod
    def of(cls, case: Case) -> Answers:
        """Collect them from a case and the description of its scenario."""
        hosts = [scenarios.load(name) for name in _scenarios(case)]
        prose = [case.description, *(host.description for host in hosts)]
        prose += [cause.says for cause in case.causes]
        told = [*prose, *(proof.quote for proof in case.evidence), *(proof.label for proof in case.evidence)]
        told += [*case.answer.rows, *case.answer.says] if case.answer else []
        values = [
            f"{value:g}" if isinstance(value, float) else str(value)
            for fix in case.fixes
            for value in (*fix.to, fix.least, fix.most)
        ]
        ends = [proof.path for proof in case.evidence if "/" in proof.path]
        lines = [f"{Path(proof.path).name}:{line}" for proof in case.evidence for line in proof.lines or ()]
        return cls(
            case.name,
            frozenset(phrase for text in prose for phrase in _phrases(text)),
            frozenset(number for text in [*told, *values] for number in _numbers(text)),
            frozenset(
                {case.name, *(text for host in hosts for text in (host.hostname, host.name))}
                - _ordinary(case)
            ),
            frozenset([*ends, *lines]),
        )


def _scenarios(case: Case) -> list[str]:
    if case.go_on is None:
        return case.scenarios
    return [recording(case.go_on.transcript).started.scenario or ""]


def _ordinary(case: Case) -> set[str]:
    """Return names that are plain words and so give nothing away."""
    return {name for name in (case.name, *case.scenarios) if "-" not in name}


def _phrases(text: str) -> Iterator[str]:
    """Yield the runs of five words, names left out, of which three carry meaning."""
    for sentence in re.split(r"[.;:()]\s", _NAME.sub(" ; ", text)):
        words = _WORD.findall(sentence.lower())
        for at in range(len(words) - _PHRASE + 1):
            run = words[at : at + _PHRASE]
            if sum(word not in _COMMON for word in run) >= _MEANING:
                yield " ".join(run)


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of three or more digits that are no version, no power of two and not round."""
    for number in _NUMBER.findall(_VERSION.sub(" ", text)):
        digits = number.replace(".", "").lstrip("0")
        value = float(number)
        whole = value.is_integer()
        plain = whole and (int(value) & (int(value) - 1) == 0 or int(value) % 100 == 0)
        if len(digits.rstrip("0") if whole else digits) >= _MEANING and not plain:
            yield number


def leaks(answers: Answers, file: str, text: str) -> Iterator[Leak]:
    """Yield what of the answers stands in a text, with its line."""
    for number, (line, numbers) in enumerate(_lines(text), 1):
        for found in answers.numbers & numbers:
            yield Leak(answers.case, "number", found, file, number)
        for kind, known in (("name", answers.names), ("place", answers.places)):
            for one in known:
                if one in line and re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", line):
                    yield Leak(answers.case, kind, one, file, number)
    for phrase in answers.phrases & _said(text):
        yield Leak(answers.case, "phrase", phrase, file, _line_of(text, phrase))


@lru_cache(maxsize=512)
def _lines(text: str) -> list[tuple[str, frozenset[str]]]:
    """Return the lines of a text with the numbers of each: every case is held against the same texts."""
    return [(line, frozenset(_numbers(line))) for line in text.splitlines()]


@lru_cache(maxsize=512)
def _said(text: str) -> frozenset[str]:
    return frozenset(_phrases(re.sub(r"\n\s*", " ", text)))


def _line_of(text: str, phrase: str) -> int:
    found = re.search(r"[^a-z]+".join(phrase.split()), text.lower())
    return text.count("\n", 0, found.start()) + 1 if found else 1


def shown(root: Path = ROOT) -> dict[str, str]:
    """Return what models are shown or work by: path below the checkout, text."""
    files = sorted(path for pattern in SHOWN for path in root.glob(pattern))
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in files}


def check(names: Sequence[str] = ()) -> list[Leak]:
    """Return the leaks of the named cases, or of all."""
    texts = shown()
    found: list[Leak] = []
    for name in names or cases.names():
        answers = Answers.of(cases.load(name))
        found += [leak for file, text in texts.items() for leak in leaks(answers, file, text)]
    return found


def main(argv: Sequence[str]) -> int:
    """Print every leak; return 1 when there is one."""
    try:
        found = check(argv)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    sys.stdout.write("".join(f"{leak}\n" for leak in found) or "no prompt or playbook holds an answer\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
