"""Who said what in a thread, so that the model hears it with a name and two who disagree are both heard."""

from __future__ import annotations

from agent.roles import Person
from agent.slack.text import Cleaner
from agent.slack.words import opposed

_MOST: int = 50


class Said:
    """Remember what people said in one thread while the bot runs."""

    def __init__(self, clean: Cleaner, requester: Person, question: str) -> None:
        self._clean = clean
        self._said: list[tuple[Person, str]] = [(requester, question)]

    def addressed(self, person: Person, text: str) -> tuple[str, str]:
        """Return what the model is told, and what the thread is told when two people disagree."""
        from prompts.render import render

        others = [(one, words) for one, words in self._said if one.key != person.key]
        clash = next(((one, words) for one, words in reversed(others) if opposed(words, text)), None)
        self._said = [*self._said[-_MOST:], (person, text)]
        against = None
        note = ""
        if clash is not None:
            against = {"who": clash[0].label(), "text": self._clean.line(clash[1], 300)}
            note = (
                f"{person.label()} and {clash[0].label()} want opposite things. Both are recorded; I follow "
                "neither where they conflict until you agree. `stop` counts from either of you."
            )
        names = list(dict.fromkeys(one.label() for one, _ in others))
        told = render(
            "said_in_slack", who=person.label(), text=self._clean.exact(text), against=against, others=names
        )
        return told, note
