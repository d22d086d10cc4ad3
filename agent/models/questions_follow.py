"""Understand a later question of a thread by those before it: "and gpu2?", "since when?", "the line?"."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from agent.models.concluding import settle
from agent.models.method import Step
from agent.models.questions_answer import Answer, short
from agent.models.questions_cover import left_over
from agent.models.questions_query import Query
from agent.models.questions_terms import engine_in, moment, phase_in
from agent.models.views import View
from agent.questions import Wish, wish, without_greeting

_LEAD: Final = re.compile(
    r"(and|also|or|but|then|ok|now|what about|how about|what of|how is it|same( question)?( for| on| "
    r"with)?|for|on|only)"
    r"\b[\s,:]*(?=\S)(?!(?:long|often|many|much|is|are)\b)",
    re.IGNORECASE,
)
_THEM: Final = re.compile(r"\b(them|those|these|they|it|its|that|there|ones?)\b", re.IGNORECASE)
_AGAIN: Final = re.compile(
    r"(and )?(which|what|where)( (hosts?|one|ones))?( of (them|those|these))?( exactly)?|again|still|now"
    r"|and now|once more",
    re.IGNORECASE,
)
_WHY: Final = re.compile(
    r"(but |and )?(why|how come|who|who (did|set|changed|decided) (that|it|this)|why is (that|it|this)( "
    r"so)?)",
    re.IGNORECASE,
)
_LINES: Final = re.compile(
    r"\b(?<!launch )(?<!command )(?<!log )lines?\b|\b(evidence|quotes?|proof|prove|citations?"
    r"|sources?)\b(?! code)"
    r"|where (does|do|did) (it|that|this|you) (say|stand|get|read)|how do you know|(are you|you) sure"
    r"|\breally\b"
    r"|\b(zeile|beleg|nachweis)\b|woher weißt du",
    re.IGNORECASE,
)
_DO_IT: Final = re.compile(
    r"(yes|ok|okay|please|then|just|and|,|\s)*(do (it|that|so)|go ahead|go for "
    r"it)",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"\b(is|are|do|does|has|have|was|were|runs?|which|how many|where|any|list)\b")
"""Words of a question that stands by itself: it is asked of all hosts again."""

_MOST_LINES: Final = 40
_SET: Final = frozenset({"feature", "setting", "dropins", "variable", "launch", "environ"})
_SET_SINCE: Final = "Since when it is set so, is known between two looks at most: ask what changed."


@dataclass(frozen=True, slots=True)
class Before:
    """Hold how a thread stands when a later question is put: what was asked, and what was answered last."""

    texts: tuple[str, ...]
    conclusion: Mapping[str, Any] = field(default_factory=dict)
    quoted: Mapping[str, Any] = field(default_factory=dict)
    """The last conclusion that quotes something."""
    open: tuple[str, ...] = ()
    """Those of the texts that no conclusion has answered: they were put while the thread was at work."""

    def found(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return the hosts that the last answer told something of first."""
        said = str(self.conclusion.get("summary", "")).partition(" Not known of:")[0]
        for sentence in re.split(r"(?<=[.!?])\s", said):
            named = tuple(
                one for one in hosts if re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w-])", sentence)
            )
            if named:
                return named
        return ()


def wish_in(text: str, before: Before, hosts: Sequence[str]) -> tuple[Wish, str] | None:
    """Return the action that a text asks for, and in what words: its own, or those just before it."""
    words = without_greeting(text)[0]
    if own := wish(text):
        return own, words
    done = _DO_IT.fullmatch(words.strip(" ?.!,")) is not None
    earlier = next((one for one in reversed(before.texts if done else before.texts[-1:]) if wish(one)), "")
    asked = wish(earlier)
    if asked is None:
        return None
    told = without_greeting(earlier)[0]
    if done:
        return ("do", *asked[1:]), told
    named = [host for host in hosts if re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", words)]
    only = named and not left_over(stripped(words.lower()), "unknown", [host.lower() for host in named])
    return (asked, told) if only else None


def asks_for_lines(text: str) -> bool:
    """Tell whether somebody wants to see what an answer rests on."""
    words = without_greeting(text)[0]
    return len(words.split()) <= 12 and _LINES.search(words) is not None


def asks_why(text: str) -> bool:
    """Tell whether somebody asks why an answer is as it is, and no more."""
    return _WHY.fullmatch(without_greeting(text)[0].strip(" ?.!,")) is not None


def lines(before: Before, text: str, hosts: Sequence[str]) -> Generator[Step, list[View], None]:
    """Show the quotes that the last answer rests on; they are looked up once more."""
    named = [host for host in hosts if re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", text)]
    answer = Answer(["HOST", "WHAT IT SHOWS", "QUOTE", "WHERE"])
    for claim in before.quoted.get("claims") or []:
        cite, says = claim.get("cite"), str(claim.get("says", ""))
        of = next((host for host in hosts if re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", says)), "-")
        if not isinstance(cite, dict) or (named and of not in named):
            continue
        answer.claims.append(dict(claim))
        if len(answer.cells) < _MOST_LINES:
            answer.row(
                of, short(says, 120), short(str(cite.get("quote", "")), 300), str(cite.get("artifact"))
            )
    count = len(answer.claims)
    about = f" about {', '.join(named)}" if named else ""
    answer.said.append(
        f"The last answer{about} rests on {count} {'quote' if count == 1 else 'quotes'}, looked up again; "
        "WHERE names the stored output."
        if count
        else f"The last answer{about} rests on no quote."
    )
    answer.known = count > 0
    says = "I show what the last answer rests on; each quote is looked up again."
    yield from settle(answer.arguments(), refused="not_known", says=says)


def quotes_of(conclusion: Mapping[str, Any]) -> str:
    """Return the quotes of a conclusion as text: what each shows, and where it stands."""
    told = []
    for claim in conclusion.get("claims") or []:
        cite = claim.get("cite")
        if isinstance(cite, dict):
            told.append(
                f"- {short(str(claim.get('says', '')))}\n  {cite.get('artifact')}: {cite.get('quote')}"
            )
    more = f"\n({len(told) - _MOST_LINES} more stand in the case file)" if len(told) > _MOST_LINES else ""
    return "The conclusion rests on:\n" + "\n".join(told[:_MOST_LINES]) + more


def resolved(
    own: Sequence[Query],
    text: str,
    previous: Sequence[Query],
    before: Before,
    hosts: Sequence[str],
    now: datetime,
) -> list[Query]:
    """Return what a later question asks for, what it leaves out taken from the ones before."""
    words = without_greeting(text)[0].strip(" ?.!,").lower()
    rest = stripped(words)
    last, first = previous[-1] if previous else None, own[0]
    if last is None or last.kind == "unknown":
        return list(own)
    if _AGAIN.fullmatch(words):
        return list(previous)
    if _WHY.fullmatch(words):
        return [_why(last, words)]
    found = before.found(hosts)
    whole = first.kind != "unknown" and not first.unread
    if first.kind == "engines" and first.engine and last.kind == "versions" and len(rest.split()) <= 2:
        return [replace(last, engine=first.engine, op=None, version="", hosts=first.hosts, named=first.named)]
    if whole and (first.named or (_SENTENCE.search(rest) and not _THEM.search(rest))):
        return list(own)
    if whole:
        them = found if found and (_THEM.search(rest) or not last.named) else last.hosts
        narrowed = tuple(them) if last.named or _THEM.search(rest) or first.kind == "since" else tuple(hosts)
        if first.kind == "since" and last.kind in _SET:
            own = [replace(query, notes=(_SET_SINCE, *query.notes)) for query in own]
        return [_of(query, narrowed, hosts) for query in own]
    changed = _changed(last, first, rest, now)
    return [changed] if changed is not None else list(own)


def stripped(words: str) -> str:
    """Return the words of a later question without those that tie it to the one before."""
    before = ""
    while before != words:
        before, words = words, _LEAD.sub("", words, count=1) if _LEAD.match(words) else words
    return words


def _of(query: Query, narrowed: tuple[str, ...], hosts: Sequence[str]) -> Query:
    """Return a query about some of the hosts, which it says."""
    if set(narrowed) >= set(hosts) or not narrowed:
        return query
    notes = (f"Asked of {', '.join(narrowed)}, as before.", *query.notes)
    return replace(query, hosts=narrowed, named=True, notes=notes)


def _changed(last: Query, own: Query, rest: str, now: datetime) -> Query | None:
    """Return the question before with the one thing changed that a later one names."""
    if own.named and not left_over(rest, last.kind, [host.lower() for host in own.hosts]):
        if last.kind == "compare" and len(own.hosts) == 1:
            other = next(host for host in reversed(last.hosts) if host != own.hosts[0])
            return replace(last, hosts=(own.hosts[0], other))
        return replace(last, hosts=own.hosts, named=True, unread=(), strangers=own.strangers, notes=())
    if own.strangers:
        return None
    since, said = moment(rest, now)
    if said and last.kind in ("changes", "since"):
        return replace(last, kind="changes", since=since, unread=())
    phase = phase_in(rest)
    if phase and last.kind == "compare":
        return replace(last, phase=phase, unread=())
    engine = engine_in(rest)
    if engine and last.kind in ("versions", "engines"):
        return replace(last, engine=engine, op=None, version="", unread=())
    return None


def _why(last: Query, words: str) -> Query:
    """Return the question why things are as the last answer says, or who made them so."""
    if last.kind == "feature" and "who" not in words:
        return replace(last, because=True, wants="", every=False)
    return replace(last, kind="who", unread=(), notes=())
