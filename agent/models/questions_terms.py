"""Find in a question what it is about: a version, a moment, an engine, a setting, a phase, a feature."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from agent.models.questions_query import Op
from prompts.questions import Feature, Phase, known

ENGINES: Final = (
    ("sglang", r"sglang"),
    ("vllm", r"vllm"),
    ("ollama", r"ollama"),
    ("llama.cpp", r"llama[._-]?(cpp|server)"),
)
_PACKAGES: Final = ("torch", "triton", "transformers", "flashinfer", "nccl", "sgl_kernel")
MACHINE: Final = (
    ("driver", r"driver"),
    ("cuda", r"cuda(?!.?graph)"),
    ("kernel", r"(?:linux )?kernel"),
    ("os", r"os|operating system|distro(?:bution)?|debian|ubuntu"),
)
_VERSION: Final = re.compile(r"(?<![\w.-])v?(\d+(?:\.\d+)+(?:[._-]?(?:rc|post|dev|a|b)\d*)?)(?![\w-])")
OPS: Final[tuple[tuple[Op, str], ...]] = (
    ("<=", r"(or (older|below|lower|less)|at most|up to|<=)"),
    (">=", r"(or (newer|above|higher|later|more)|at least|from|since version|>=)"),
    ("<", r"(below|under|older than|before|less than|lower than|earlier than|behind|<)"),
    (">", r"(above|over|newer than|after|later than|more than|higher than|beyond|>)"),
)
FLAG: Final = re.compile(r"--([a-z][a-z0-9-]+)|\b([a-z]+(?:_[a-z0-9]+)+)\b")
VARIABLE: Final = re.compile(r"\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b")
_WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "few": 3}
_PHASES: Final[tuple[Phase, ...]] = ("prefill", "decode")


def since_of(low: str, now: datetime) -> str:
    """Return from when on, as the tool `history` takes it; a week where nothing is said."""
    return moment(low, now)[0]


def moment(low: str, now: datetime) -> tuple[str, str]:
    """Return from when on, and the words that say so."""
    if found := re.search(r"(\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?)?)", low):
        return found[1].upper().replace(" ", "T"), found[0]
    if found := re.search(r"\b(?:yesterday|last night|tonight|over ?night)\b", low):
        return "yesterday", found[0]
    if found := re.search(r"\b(?:today|this morning)\b", low):
        return "today", found[0]
    for place, day in enumerate(_WEEK):
        if found := re.search(rf"\b(?:last )?{day}\b", low):
            back = (now.weekday() - place) % 7 or 7
            return (now - timedelta(days=back)).date().isoformat(), found[0]
    if found := re.search(r"\b(\d+|a|an|one|two|three|few)\s+(minute|hour|day|week|month)s?\b( ago\b)?", low):
        count = _NUMBERS.get(found[1]) or int(found[1])
        unit = {"minute": "m", "hour": "h", "day": "d", "week": "w", "month": "m"}[found[2]]
        return f"{count * 30}d" if found[2] == "month" else f"{count}{unit}", found[0]
    if found := re.search(r"\b(\d+)\s?([mhdw])\b", low):
        return f"{found[1]}{found[2]}", found[0]
    if found := re.search(r"\b(?:last|past|this) (hour|day|week|month)\b", low):
        return {"hour": "1h", "day": "1d", "week": "7d", "month": "30d"}[found[1]], found[0]
    return "7d", ""


def setting_names(text: str) -> tuple[str, ...]:
    """Return the settings that a text names, with underscores."""
    found = [(flag or word).replace("-", "_") for flag, word in FLAG.findall(text)]
    return tuple(dict.fromkeys(found))


def engine_in(low: str) -> str:
    """Return the engine that a text names, or an empty text."""
    return next((name for name, words in ENGINES if re.search(words, low)), "")


def phase_in(low: str) -> Phase | None:
    """Return the phase that a text names."""
    return next((phase for phase in _PHASES if re.search(rf"\b{phase}", low)), None)


def package_in(low: str) -> str:
    """Return the package, or the part of the machine, that a text names and that has a version."""
    package = next((name for name in _PACKAGES if re.search(rf"\b{name}", low)), "")
    return package or next((name for name, words in MACHINE if re.search(rf"\b(?:{words})s?\b", low)), "")


def bound_in(text: str, low: str) -> tuple[Op | None, str]:
    """Return the bound that a text sets for a version."""
    found = _VERSION.search(text)
    if found is None:
        return None, ""
    return next((one for one, words in OPS if re.search(rf"(?<!\w){words}(?!\w)", low)), "=="), found[1]


def feature_in(low: str) -> Feature | None:
    """Return the feature that a text names."""
    return next((one for one in known().features if re.search(rf"\b({one.words})\b", low)), None)


def version_key(text: str) -> tuple[tuple[int, ...], int, int]:
    """Return what versions are ordered by: the release, then whether it comes before or after it."""
    found = re.match(r"v?(\d+(?:\.\d+)*)[._-]?(rc|a|b|dev|post)?(\d*)", text)
    if not found:
        return (), 0, 0
    release = [int(part) for part in found[1].split(".")]
    while release and release[-1] == 0:
        release.pop()
    rank = {"dev": -3, "a": -2, "b": -2, "rc": -1, "post": 1}.get(found[2] or "", 0)
    return tuple(release), rank, int(found[3] or 0)
