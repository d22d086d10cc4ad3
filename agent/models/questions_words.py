"""Read a question in plain English words: German is translated, a slip of the finger is mended and told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

_PHRASES: Final = (
    (r"was ist auf (\S+) los", r"how is \1 doing"),
    (r"wie geht(?:'s|s| es)(?: (?:dem|der|den))?", "how is"),
    (r"wie ?viele?", "how many"),
    (r"wie lange?", "how long"),
    (r"wie oft", "how often"),
    (r"seit wann", "since when"),
    (r"gibt(?: es|s|'s)", "are there"),
    (r"neu ?(?:ge)?start(?:en|et|e)?", "restart"),
    (r"letzte nacht", "last night"),
    (r"(?:in den |der |die )?letzten? (\d+)", r"last \1"),
    (r"(?:in der |der |die )?letzten? woche", "last week"),
    (r"im einsatz", "in use"),
    (r"auf dem (?:neu(?:e)?sten|aktuellen) stand", "up to date"),
)
_GERMAN: Final = {
    "which": "welche welcher welches welchem welchen",
    "what": "was",
    "who": "wer",
    "where": "wo",
    "when": "wann",
    "why": "warum wieso weshalb",
    "how": "wie",
    "runs": "läuft laufen laeuft läufts lauft lief",
    "has": "hat haben habt hast",
    "is": "ist",
    "are": "sind",
    "uses": "nutzt nutzen verwendet benutzt",
    "on": "auf",
    "with": "mit",
    "of": "von vom des",
    "in": "im",
    "the": "der die das den dem",
    "a": "ein eine einen einem einer",
    "and": "und",
    "or": "oder",
    "not": "nicht",
    "no": "kein keine keinen keiner",
    "still": "noch",
    "now": "gerade jetzt momentan aktuell",
    "there": "dort da",
    "all": "alle allen aller",
    "every": "jeder jede jedes jedem",
    "everywhere": "überall ueberall",
    "anywhere": "irgendwo",
    "any": "irgendein irgendeine",
    "below": "unter",
    "above": "über ueber",
    "older": "älter aelter",
    "newer": "neuer",
    "slower": "langsamer",
    "faster": "schneller",
    "than": "als",
    "since": "seit",
    "yesterday": "gestern",
    "today": "heute",
    "monday": "montag",
    "tuesday": "dienstag",
    "wednesday": "mittwoch",
    "thursday": "donnerstag",
    "friday": "freitag",
    "saturday": "samstag sonnabend",
    "sunday": "sonntag",
    "hours": "stunden stunde",
    "days": "tage tagen tag",
    "changed": "geändert geaendert verändert veraendert",
    "changes": "änderungen aenderungen",
    "itself": "sich",
    "off": "aus ausgeschaltet abgeschaltet deaktiviert",
    "enabled": "an aktiv aktiviert eingeschaltet",
    "free": "frei",
    "idle": "unbeschäftigt untätig",
    "busy": "beschäftigt ausgelastet",
    "differ": "unterscheiden unterscheidet",
    "difference": "unterschied unterschiede",
    "different": "unterschiedlich anders verschieden",
    "same": "gleich gleiche gleichen selbe selben identisch",
    "between": "zwischen",
    "version": "versionen",
    "cards": "karten grafikkarten karte",
    "driver": "treiber treiberversion",
    "machines": "maschinen rechner maschine kisten kiste",
    "model": "modell modelle",
    "set": "gesetzt",
    "please": "bitte",
    "show": "zeig zeige",
    "me": "mir uns",
    "it": "es",
    "memory": "speicher arbeitsspeicher",
    "anyone": "jemand irgendwer",
    "reboot": "rebooten",
    "up": "hoch oben",
    "healthy": "gesund",
    "can": "kann kannst können könnt könntest koennen",
    "should": "soll sollte sollen sollten",
    "you": "du ihr man",
    "we": "wir",
    "i": "ich",
    "upgrade": "aktualisieren updaten hochziehen",
    "stop": "stoppen anhalten",
    "rollback": "zurückrollen zurueckrollen",
    "enable": "einschalten anschalten aktivieren",
    "disable": "ausschalten abschalten deaktivieren",
}
_BOTH: Final = frozenset({"was", "die", "an", "in", "im", "man", "des", "den", "da", "oben", "hat", "tag"})
"""Words of both languages: German only beside a word that is German alone."""

_TOKEN: Final = re.compile(r"[^\W\d_][\w'’äöüß-]*")
_SLIP_LEAST: Final = 5
_SHAPED: Final = re.compile(r"[\d_./-]")

_VOCABULARY: Final = (
    "which what where when since anywhere everywhere version versions hosts servers sglang ollama torch "
    "driver kernel graph graphs capture prefix cache overlap chunked prefill decode health healthy running "
    "drop-in drop-ins variable restarted restart changed changes yesterday today differ different compare "
    "between idle below above older newer slower faster than enabled disabled models model memory installed "
    "currently units reload triton transformers flashinfer cuda quantization settings"
)


_PLAIN: Final = (
    "were there their these those other others about after again never under over could would should "
    "while being "
    "wheel heath modes share serve served modem"
)
"""Words that are no slips, although another one is near."""


@cache
def _english_of() -> dict[str, str]:
    return {word: english for english, words in _GERMAN.items() for word in words.split()}


def english(text: str) -> str:
    """Return a text with its German words in English; one without any is returned as it is."""
    known = _english_of()
    words = [word.lower() for word in _TOKEN.findall(text)]
    phrases = [pattern for pattern, _ in _PHRASES if re.search(rf"(?i)\b{pattern}\b", text)]
    if not phrases and not any(word in known and word not in _BOTH for word in words):
        return text
    for pattern, english_words in _PHRASES:
        text = re.sub(rf"(?i)\b{pattern}\b", english_words, text)
    return _TOKEN.sub(lambda hit: known.get(hit[0].lower(), hit[0]), text)


def mended(text: str, more: Iterable[str] = ()) -> tuple[str, dict[str, str]]:
    """Return a text without slips of the finger, and what each of them was read as.

    A slip is one letter too many, too few, another one, or two that changed places, in a word of at least
    five letters that nothing else explains; names, numbers and settings are left as they are.
    """
    known = {*_VOCABULARY.split(), *_PLAIN.split(), *(word.lower() for word in more if len(word) > 4)}
    read: dict[str, str] = {}

    def one(hit: re.Match[str]) -> str:
        word = hit[0].lower()
        if len(word) < _SLIP_LEAST - 1 or word in known or _SHAPED.search(word.replace("-", "")):
            return hit[0]
        if _inflects(word, known):
            return hit[0]
        near = [other for other in known if len(other) >= _SLIP_LEAST and _one_off(word, other)]
        if len(near) != 1:
            return hit[0]
        read[hit[0]] = near[0]
        return near[0]

    mend = re.compile(r"(?<![\w./-])[^\W\d_][^\W\d_-]*(?:-[^\W\d_]+)*(?![\w/-]|\.\w)")
    return mend.sub(one, text), read


_ENDINGS: Final = ("s", "d", "ed", "r", "er", "ing", "es", "n", "y")


def _inflects(word: str, known: Iterable[str]) -> bool:
    """Tell whether a word is a known one with another ending, which is no slip."""
    return any(
        word == other + end or other == word + end or (other[-1:] == "e" and word == other[:-1] + end)
        for other in known
        for end in _ENDINGS
    )


def _one_off(word: str, other: str) -> bool:
    """Tell whether one slip of the finger makes a word of another."""
    if word == other or abs(len(word) - len(other)) > 1 or word[0] != other[0]:
        return False
    if len(word) == len(other):
        apart = [place for place, (a, b) in enumerate(zip(word, other, strict=True)) if a != b]
        if len(apart) == 1:
            return True
        return (
            len(apart) == 2
            and apart[1] == apart[0] + 1
            and word[apart[0]] == other[apart[1]]
            and (word[apart[1]] == other[apart[0]])
        )
    short, long = sorted((word, other), key=len)
    return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))
