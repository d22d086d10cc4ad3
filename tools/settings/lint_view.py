"""Lint the launch line of a subject, or one that is proposed for it, and show what was found."""

from __future__ import annotations

from typing import Any

from tools.launch_line import mask
from tools.settings.lint import lint
from tools.settings.problems import Problem, shown
from tools.settings.subject import Subject, evaluated, words_of


def problems_of(subject: Subject, launch_line: str | None = None) -> tuple[list[str], tuple[Problem, ...]]:
    """Return the words of a launch line, and what is to be said of them; that of the process by default."""
    words = list(subject.argv) if launch_line is None else words_of(launch_line)
    evaluation = subject.evaluation if launch_line is None else evaluated(subject, words)
    read_file = subject.facts.read_file
    found = lint(subject.tree, subject.definitions, words, subject.environment, evaluation, read_file)
    return words, found


def lint_view(subject: Subject, launch_line: str | None = None) -> dict[str, Any]:
    """Return what is to be said of a launch line, as JSON types."""
    words, found = problems_of(subject, launch_line)
    return {
        "launch_line": mask(words),
        "refused": any(problem.level == "error" for problem in found),
        "problems": shown(found),
    }
