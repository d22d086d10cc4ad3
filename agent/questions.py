"""Tell a question about hosts from a symptom: it is answered from what is read, and forces no hypotheses."""

from __future__ import annotations

import re
from typing import Final

_ASKS: Final = re.compile(
    r"(which|what|what's|how many|how much|is|are|was|were|does|do|did|has|have|had|when|since when|where|who"
    r"|why|list|show|compare|count|name|tell me|run on all|how long (has|have)|any|anything"
    r"|isn't|aren't|doesn't|don't|wich|whcih|whihc|wihch|waht|hwo many"
    r"|welche\w*|wie viele?|wieviele?|wer|wo|wann|warum|ist|sind|hat|haben|läuft|laufen|gibt es)\b",
    re.IGNORECASE,
)
_TROUBLE: Final = re.compile(
    r"\b(slow\w*|fast\w*|speed|hang\w*|hung|stuck|crash\w*|fail\w*|broken?|error\w*|wrong|bottleneck\w*|misconfigur\w*"
    r"|hold\w* .{0,20}back|fix\w*|improve\w*|regress\w*|dies?|timed? ?outs?|tok/s|tokens? (a|per) second"
    r"|out of memory|oom|latency|throughput|langsam\w*|lahm\w*|hängt|hängen|abgestürzt|absturz|fehler\w*)\b",
    re.IGNORECASE,
)
_OF_HOSTS: Final = re.compile(
    r"\b(changed?|changes|which (hosts?|servers?|machines?|nodes?|gpus?|engines?)|any ?where"
    r"|any (host|server)|(all|every|each) (hosts?|servers?)|version|differ\w*|compare|how many)\b"
    r"|\bon \S+ (than|as|and|or|\w+er than) (on )?\S+"
    # Two hosts, by names that end in a number: no layout (PP8), kind of number (FP8), card or release.
    r"|\b{host} (\w+ ){{0,3}}than (on )?{host}".format(
        host=r"(?!(?:[pted]p|v|fp|bf|int|[habl]|rtx)-?\d)[a-z]+-?\d+\b"
    ),
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"[.!?](\s|$)|\n")
_SPEAKER: Final = re.compile(r"\A[^\n]{1,120}? says in Slack: ")
_CONTEXT: Final = "\n\nEarlier messages of the thread"


def asked(text: str) -> str:
    """Return what a person asked, without who it was and the earlier messages that a surface adds."""
    return _SPEAKER.sub("", text.partition(_CONTEXT)[0].strip())


def is_question(text: str) -> bool:
    """Tell whether a first message asks about hosts, and tells of no trouble that is to be found out.

    Its first sentence must be the question: who tells what is wrong first wants that looked into.
    """
    words = asked(text)
    first = _SENTENCE.split(words, maxsplit=1)[0].strip(" \"'*>-")
    first = re.sub(r"^(hi|hello|hey|please|so|and|ok|quick question)[,:]?\s+", "", first, flags=re.IGNORECASE)
    if not _ASKS.match(first):
        return False
    return _OF_HOSTS.search(words) is not None or _TROUBLE.search(words) is None
