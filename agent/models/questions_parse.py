"""Understand a question about hosts, as far as the built-in model can: its kind, and what it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from agent.models.questions_cover import left_over
from prompts.questions import Feature, Phase, known

Kind = Literal[
    "changes", "versions", "compare", "differ", "feature", "setting", "gpus", "dropins", "reload", "health",
    "since", "variable", "engines", "who", "unknown",
]  # fmt: skip
Op = Literal["<", "<=", "==", ">=", ">"]

_ENGINES: Final = (
    ("sglang", r"sglang"),
    ("vllm", r"vllm"),
    ("ollama", r"ollama"),
    ("llama.cpp", r"llama[._-]?(cpp|server)"),
)
_PACKAGES: Final = ("torch", "triton", "transformers", "flashinfer", "nccl", "sgl_kernel")
_MACHINE: Final = ("driver", "cuda", "kernel")
_VERSION: Final = re.compile(r"(?<![\w.-])v?(\d+(?:\.\d+)+(?:[._-]?(?:rc|post|dev|a|b)\d*)?)(?![\w-])")
_OPS: Final[tuple[tuple[Op, str], ...]] = (
    ("<=", r"(or (older|below|lower|less)|at most|up to|<=)"),
    (">=", r"(or (newer|above|higher|later|more)|at least|from|since version|>=)"),
    ("<", r"(below|under|older than|before|less than|lower than|earlier than|behind|<)"),
    (">", r"(above|over|newer than|after|later than|more than|higher than|beyond|>)"),
)
_FLAG: Final = re.compile(r"--([a-z][a-z0-9-]+)|\b([a-z]+(?:_[a-z0-9]+)+)\b")
_VARIABLE: Final = re.compile(r"\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b")
_WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "few": 3}
_PHASES: Final[tuple[Phase, ...]] = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class Query:
    """Hold what a question asks for."""

    kind: Kind
    hosts: tuple[str, ...]
    """Hosts that it names; all of them where it names none."""
    engine: str = ""
    package: str = ""
    op: Op | None = None
    version: str = ""
    since: str = ""
    names: tuple[str, ...] = ()
    feature: Feature | None = None
    phase: Phase | None = None
    wants: str = ""
    """``off`` or ``on``, ``idle`` or ``busy``: what the question looks for."""
    every: bool = False
    """It asks whether that is so on all hosts, not on which."""
    unread: tuple[str, ...] = ()
    """Words that keep it from being understood; its kind is ``unknown`` then."""


def parse(question: str, hosts: Sequence[str], now: datetime) -> Query:
    """Return what a question asks for; kind ``unknown`` where it is not understood, or not all of it."""
    text = " ".join(question.split())
    low = text.lower()
    named = tuple(host for host in hosts if _names(low, host))
    about = Query("unknown", named or tuple(hosts))
    lower = [host.lower() for host in named]
    halves: list[tuple[str, ...]] = []
    for reader in (_who, _changes, _compare, _versions, _differ, _features, _machine, _settings, _engines):
        found = reader(text, low, about, named, now)
        if found is None:
            continue
        # Who did something is answered by "not known" whatever else is asked: no half of that can be wrong.
        used = [*lower, *_used(text, low, found, now)]
        unread = () if found.kind == "who" else left_over(low, found.kind, used)
        if len(named) == 1 and (found.kind == "differ" or found.wants == "differ"):
            # A host differs from others, and the question does not say from which.
            return replace(about, unread=(*unread, lower[0]))
        if not unread:
            return found
        halves.append(unread)
    return replace(about, unread=min(halves, key=len, default=()))


def _used(text: str, low: str, query: Query, now: datetime) -> list[str]:
    """Return the pieces of a question that its reading took something from."""
    patterns = []
    if query.package:
        patterns.append(rf"\b{query.package}\w*")
    elif query.engine:
        patterns += [rf"{words}(?:['’]s)?" for name, words in _ENGINES if name == query.engine]
    if query.op:
        patterns.append(re.escape(query.version.lower()))
        patterns += [rf"(?<!\w){words}(?!\w)" for op, words in _OPS if op == query.op]
    if query.feature is not None:
        patterns.append(rf"\b(?:{query.feature.words})\b")
    if query.kind == "compare":
        patterns += [rf"\b{query.phase}\w*"] if query.phase else []
        # Why is answered by what differs; whether it is so would have to be measured.
        patterns += [r"\b(?:slow|fast)\w*"] if low.startswith("why ") else []
    found = [hit[0] for hit in (re.search(one, low) for one in patterns) if hit]
    if query.kind in ("setting", "variable"):
        pattern = _VARIABLE if query.kind == "variable" else _FLAG
        found += [hit[0].lower() for hit in pattern.finditer(text)]
    return [*found, moment(low, now)[1]] if query.kind == "changes" else found


def _names(low: str, host: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(host.lower())}(?![\w-]|\.\w)", low) is not None


def _who(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    """Leave to others who did something and why: facts of hosts do not say."""
    if not re.match(r"(who|whose|by whom|why (was|were|is|are|did|do|does)) ?\b", low) or len(named) > 1:
        return None
    return _as(about, kind="who", names=setting_names(text))


def _changes(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    if re.search(r"\bsince when\b|\bwhen (was|were|did) .*\b(re)?start|\bhow long\b.*\b(run|up)", low):
        return _as(about, kind="since")
    if re.search(
        r"\bchang(e|es|ed)\b|\brestart(s|ed)\b|\b(new|different|happened|done|updated|upgraded)\b.*\bsince\b",
        low,
    ):
        return _as(about, kind="changes", since=since_of(low, now))
    return None


def since_of(low: str, now: datetime) -> str:
    """Return from when on, as the tool `history` takes it; a week where nothing is said."""
    return moment(low, now)[0]


def moment(low: str, now: datetime) -> tuple[str, str]:
    """Return from when on, and the words that say so."""
    if found := re.search(r"(\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?)?)", low):
        return found[1].upper().replace(" ", "T"), found[0]
    if found := re.search(r"\b(?:yesterday|last night|tonight)\b", low):
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


def _compare(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    if len(named) != 2 or not re.search(r"\b(than|compare|between|differ\w*|vs|versus|why|from)\b", low):
        return None
    order = tuple(sorted(named, key=lambda host: low.index(host.lower())))
    phase = next((phase for phase in _PHASES if re.search(rf"\b{phase}", low)), None)
    wants = "why" if re.search(r"\b(slow|fast)", low) else ""
    return _as(about, kind="compare", hosts=order, phase=phase, wants=wants)


def _versions(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    engine = next((name for name, words in _ENGINES if re.search(words, low)), "")
    package = next((name for name in _PACKAGES if re.search(rf"\b{name}", low)), "")
    package = package or next((name for name in _MACHINE if re.search(rf"\b{name}\b", low)), "")
    found = _VERSION.search(text)
    if found is None and not re.search(r"\bversions?\b", low):
        return None
    if not (engine or package) and found is None and "version" not in low:
        return None
    op: Op | None = None
    if found is not None:
        op = next((one for one, words in _OPS if re.search(rf"(?<!\w){words}(?!\w)", low)), "==")
    return _as(
        about, kind="versions", engine=engine, package=package, op=op, version=found[1] if found else ""
    )


def _differ(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    if not re.search(r"\bdiffer\w*|\bsame\b|\bunlike\b|\bvar(y|ies)\b", low):
        return None
    names = setting_names(text)
    return _as(about, kind="setting" if names else "differ", names=names, wants="differ")


def setting_names(text: str) -> tuple[str, ...]:
    """Return the settings that a text names, with underscores."""
    found = [(flag or word).replace("-", "_") for flag, word in _FLAG.findall(text)]
    return tuple(dict.fromkeys(found))


def _features(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    state = re.search(r"\b(off|on|enabled|disabled|active|inactive|switched|turned|missing)\b", low)
    words = re.sub(r"\bon (any\w*|all|which|every|each)\b", "", low)
    feature = next((one for one in known().features if re.search(rf"\b({one.words})\b", low)), None)
    if feature is None or state is None or setting_names(text):
        return None
    off = re.search(r"\b(off|disabled|inactive|missing)\b", words) is not None
    every = re.search(r"\b(everywhere|all|every|each|both)\b", low) is not None
    return _as(about, kind="feature", feature=feature, wants="off" if off else "on", every=every)


def _machine(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    if re.search(r"\bdrop-?ins?\b", low):
        return _as(about, kind="dropins")
    if re.search(r"\b(daemon-?reload|reload|edited)\b", low):
        return _as(about, kind="reload")
    if re.search(r"\b(healthy|unhealthy|down|up|alive|reachable|respond\w*)\b", low):
        return _as(about, kind="health")
    if re.search(r"\bgpus?\b|\bcards?\b", low):
        wants = re.search(r"\b(idle|busy|free|used)\b", low)
        word = wants[1] if wants else ""
        return _as(about, kind="gpus", wants={"free": "idle", "used": "busy"}.get(word, word))
    return None


def _settings(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    if found := _VARIABLE.findall(text):
        return _as(about, kind="variable", names=tuple(dict.fromkeys(found)))
    names = setting_names(text)
    return _as(about, kind="setting", names=names) if names else None


def _engines(text: str, low: str, about: Query, named: Sequence[str], now: datetime) -> Query | None:
    engine = next((name for name, words in _ENGINES if re.search(words, low)), "")
    if engine or re.search(r"\b(engines?|models?|serv(e|es|ed|ing)|runs?|running)\b", low):
        return _as(about, kind="engines", engine=engine)
    return None


def _as(about: Query, **fields: object) -> Query:
    return replace(about, **fields)  # type: ignore[arg-type]


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
