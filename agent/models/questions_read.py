"""The readings of a question: one function a kind, each of which takes it or leaves it to the next."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from agent.models.questions_query import Query, Seen
from agent.models.questions_terms import (
    VARIABLE,
    bound_in,
    engine_in,
    feature_in,
    moment,
    package_in,
    phase_in,
    setting_names,
    since_of,
)
from prompts.questions import known

Reader = Callable[[str, str, Query, Sequence[str], datetime, Seen], Query | None]
_MEASURES: Final = (
    ("W EACH", "power|draws?|watts?"),
    ("LIMIT W EACH", "limits?|cap"),
    ("GIB EACH", "memory|vram"),
    ("HOTTEST C", "temps?|temperatures?|hot"),
)
"""Columns of the table of GPUs, and the words that ask for them."""
_UNLIKE: Final = (
    r"\b(differ\w*|difference|same|unlike|var(y|ies)|identical|diff|compare|drift|sync|alike|match(es)?"
    r"|configured like)\b"
)
_STATE: Final = r"\b(off|on|enabled|disabled|active|inactive|switched|turned|missing)\b"


def _who(text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen) -> Query | None:
    """Leave to others who did something and why: facts of hosts do not say."""
    if not re.match(r"(who|whose|by whom|why (was|were|is|are|did|do|does)) ?\b", low) or len(named) > 1:
        return None
    if low.startswith("why") and feature_in(low) is not None and not setting_names(text):
        return None
    if low.startswith("why") and re.search(_UNLIKE, low):
        return None
    return replace(about, kind="who", names=setting_names(text))


def _changes(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    since = replace(about, kind="since")
    if re.search(
        r"\bsince when\b|\bwhen (was|were|did) .*\b(re)?start|\bhow (long|often)\b|\buptime\b"
        r"|\b(up|running) for\b",
        low,
    ):
        return since
    if re.search(
        r"\bchang(e|es|ed)\b|\brestart(s|ed)\b|\b(new|different|happened|done|updated|upgraded)\b.*\bsince\b"
        r"|\b(what happened|what['’]?s new|what is new|what has been done|upgraded|updated|modified"
        r"|touched)\b",
        low,
    ):
        if re.search(r"\brestart(s|ed)?\b", low) and not moment(low, now)[1] and "chang" not in low:
            return since
        return replace(about, kind="changes", since=since_of(low, now))
    if not re.search(r"\bdid .*\brestart\b|\brestarts\b", low):
        return None
    if moment(low, now)[1]:
        return replace(about, kind="changes", since=since_of(low, now), taken=("restart", "restarts"))
    return since


def _compare(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    pattern = (
        r"\b(than|compared?|between|differ\w*|diff|vs|versus|why|from|identical|equal|slower|faster|like|match(es)?"
        r"|sync|drift|alike)\b"
    )
    if len(named) != 2 or not re.search(pattern, low):
        return None
    order = tuple(sorted(named, key=lambda host: low.index(host.lower())))
    why = re.search(r"\b(slow|fast)", low) and re.search(r"\bwhy\b|\bany idea\b|\bhow come\b", low)
    return replace(
        about, kind="compare", hosts=order, phase=phase_in(low), wants="why" if why else "",
        taken=("any idea", "how come") if why else (),
    )  # fmt: skip


def _versions(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    if VARIABLE.search(text):
        return None
    engine, package = engine_in(low), package_in(low)
    op, version = bound_in(text, low)
    alike = re.search(r"\b(same|identical|equal|differ\w*)\b", low) is not None
    edge = re.search(r"\b(oldest|newest)\b", low)
    if (
        not op
        and not re.search(r"\b(versions?|releases?)\b", low)
        and not (package or (engine and (edge or alike)))
    ):
        return None
    if package == "kernel" and re.search(r"\b(triton|cuda|moe|attention) kernel", low):
        return None
    wants = edge[1] if edge else "same" if alike and not named else ""
    return replace(
        about, kind="versions", engine=engine, package=package, op=op, version=version, wants=wants
    )


def _differ(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    if not re.search(_UNLIKE, low):
        return None
    names, either, taken = _spoken(text, low, seen)
    focus = named[0] if len(named) == 1 else ""
    query = replace(about, kind="setting" if names else "differ", names=names, wants="differ", focus=focus)
    return replace(query, either=either, taken=taken)


def _spoken(text: str, low: str, seen: Seen) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """Return the settings named, whether they are one thing in several engines, and by what words."""
    if names := setting_names(text):
        return names, False, ()
    for one in known().spoken:
        if found := re.search(rf"(?<![\w-])(?:{one.words})(?![\w-])", low):
            return tuple(one.settings), True, (found[0],)
    for name in sorted(seen.settings, key=len, reverse=True):
        pattern = name.replace("_", "[ _-]")
        if "_" in name and (found := re.search(rf"(?<![\w-]){pattern}(?![\w-])", low)):
            return (name,), False, (found[0],)
    return (), False, ()


def _features(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    feature = feature_in(low)
    if feature is None or setting_names(text):
        return None
    words = re.sub(r"\bon (any\w*|all|which|every|each)\b", "", low)
    words = re.sub(rf"\bon (?={'|'.join(map(re.escape, about.hosts))})", "", words) if about.named else words
    # Only who asks what uses it asks where it is on; "is it anywhere?" may be meant either way.
    asks = re.match(r"(does|do|has|have|which|any|where|who)\b", low)
    off = re.search(r"\b(off|disabled|inactive|missing|without|not|no|doesn't|don't|isn't|aren't)\b", words)
    state = off or re.search(_STATE, words) or asks
    every = re.search(r"\b(everywhere|all|every|each|both)\b", low) is not None
    denial = (off[1],) if off and off[1] not in ("off", "disabled", "inactive", "missing") else ()
    twice = (
        len(
            re.findall(
                r"\b(off|disabled|inactive|missing|without|not|no|doesn't|don't|isn't|aren't)\b", words
            )
        )
        > 1
    )
    wants = "" if not state or twice else "off" if off else "on"
    because = low.startswith("why")
    taken = () if twice else denial
    return replace(
        about, kind="feature", feature=feature, wants="" if because else wants, every=every, because=because,
        taken=taken,
    )  # fmt: skip


def _machine(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    if re.search(r"\bdrop-?ins?\b|\boverrid(es?|den)\b", low):
        inside = ("What stands in one, `leadline tool HOST read_file` shows.",)
        content = re.search(r"\bin (the|this|that|its) (drop-?in|override)", low)
        return replace(about, kind="dropins", notes=inside if content else ())
    if re.search(r"\b(daemon-?reload|reload|edited)\b", low):
        return replace(about, kind="reload")
    if re.search(
        r"\bgpus?\b|\bcards?\b|\bvram\b|\b(idle|busy|utili[sz]ation|overloaded|power"
        r"|watts?)\b",
        low,
    ):
        memory = re.search(r"\b(memory|vram)\b", low) is not None
        wants = None if memory else re.search(r"\b(idle|busy|free|used|in use)\b", low)
        word = wants[1] if wants else ""
        note = ("How much of the memory is in use is not among the facts.",) if memory else ()
        wanted = {"free": "idle", "used": "busy", "in use": "busy"}.get(word, word)
        measures = tuple(head for head, words in _MEASURES if re.search(rf"\b({words})\b", low))
        return replace(about, kind="gpus", wants=wanted, notes=note, names=measures)
    if re.search(r"\b(ram|memory|cpus?|cores?|processors?|disks?|storage|swap|hardware|specs?)\b", low):
        return replace(about, kind="hardware")
    return None


def _health(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    pattern = (
        r"\b((un)?healthy|health|down|up|alive|dead|(un)?reachable|respond\w*|status|doing|ok|okay"
        r"|fine|good|well)\b"
    )
    return replace(about, kind="health") if re.search(pattern, low) else None


def _settings(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    if found := VARIABLE.findall(text):
        return replace(about, kind="variable", names=tuple(dict.fromkeys(found)))
    names, either, taken = _spoken(text, low, seen)
    return replace(about, kind="setting", names=names, either=either, taken=taken) if names else None


def _launch(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    if re.search(r"\benv( ?vars?)?\b|\benviron\w*|\bvariables\b", low):
        return replace(about, kind="environ")
    pattern = (
        r"\b(flags|args|arguments|options|parameters|cmdline|command|launch(ed)?|execstart"
        r"|invocation|started with)\b"
    )
    return replace(about, kind="launch", taken=("started with",)) if re.search(pattern, low) else None


def _engines(
    text: str, low: str, about: Query, named: Sequence[str], now: datetime, seen: Seen
) -> Query | None:
    engine = engine_in(low)
    words = [word.strip(".,;:?!()\"'") for word in low.split()]
    models = tuple(
        word for word in dict.fromkeys(words) if len(word) > 3 and any(word in model for model in seen.models)
    )
    taken = tuple(word for word in models if word not in ("model", "models"))
    if not (
        engine
        or taken
        or re.search(r"\b(engines?|models?|llms?|serv(e|es|ed|ing)|runs?|running|ports?)\b", low)
    ):
        return None
    every = re.search(r"\b(all|every|each|everywhere|both)\b", low) is not None
    return replace(about, kind="engines", engine=engine, names=taken, taken=taken, every=every)


READERS: Final[tuple[Reader, ...]] = (
    _who, _changes, _compare, _versions, _differ, _features, _machine, _settings, _health, _launch, _engines,
)  # fmt: skip
