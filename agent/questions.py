"""Tell a question about hosts from a symptom: it is answered from what is read, and forces no hypotheses."""

from __future__ import annotations

import re
from typing import Final, Literal

from agent.models.questions_words import english

Manner = Literal["do", "whether", "how"]
Wish = tuple[Manner, str, str]
"""How something is asked for, by what verb, and what stands after it."""

_ASKS: Final = re.compile(
    r"(which|what|what's|whats|how many|how much|is|are|was|were|does|do|did|has|have|had|when|since "
    r"when|where"
    r"|who|whose|why|list|show|compare|diff|count|name|tell me|run on all|how (long|often|old)"
    r"|how(['’]?s| is| are)"
    r"|any|anyone|anything|hosts? (?:with|on|running|without)|isn't|aren't|doesn't|don't|wich|whcih"
    r"|whihc|wihch|waht|hwo many"
    r"|welche\w*|wie viele?|wieviele?|wer|wo|wann|warum|ist|sind|hat|haben|läuft|laufen|gibt es|runs)\b",
    re.IGNORECASE,
)
_TROUBLE: Final = re.compile(
    r"\b(slow\w*|fast\w*|speed|hang\w*|hung|stuck|crash\w*|fail\w*|broken?|error\w*|wrong|bottleneck\w*|misconfigur\w*"
    r"|hold\w* .{0,20}back|fix\w*|improve\w*|regress\w*|dies?|timed? ?outs?|tok/s|tokens? (a|per) second"
    r"|out of memory|oom|latency|throughput|langsam\w*|lahm\w*|hängt|hängen|abgestürzt|absturz|fehler\w*)\b",
    re.IGNORECASE,
)
_MEASURED: Final = re.compile(
    r"\d ?(t/s|tps|qps|rps|ms|s|w|%)\b"
    r"|\b(ttft|itl|tpot|low|high|only|drops?|dropped|spikes?|weird|strange|odd)\b",
    re.IGNORECASE,
)
"""What tells of a measure: with no word that asks, that is a symptom, whatever stands after it."""

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
_TOPIC: Final = re.compile(
    r"(versions?|status|uptime|drop-?ins?|flags|gpus?|driver|kernel|models?)\b|.*\b(vs\.?|versus|versions?)\b",
    re.IGNORECASE,
)
"""What a person who leaves the verb out begins with, or names."""

_OF_HOST: Final = re.compile(r"^(?:on )?[a-z][\w.]*-?\d+\s*(?:[:,]|\s[-–])\s*", re.IGNORECASE)
"""A host that is named before the question: "gpu3: what runs there"."""

_SENTENCE: Final = re.compile(r"[.!?](\s|$)|\n")
_SPEAKER: Final = re.compile(r"\A[^\n]{1,120}? says in Slack: ")
_BESIDE: Final = re.compile(
    r"\n+(?:Others gave instructions in this thread as well: "
    r"|This conflicts with what [^\n]{1,200}? said before: )"
)
_CONTEXT: Final = "\n\nEarlier messages of the thread"
_GREETING: Final = re.compile(
    r"(hi|hello|hey|hallo|moin|please|pls|plz|so|and|also|ok|okay|btw|sorry|thanks|just|team|folks|all|there|everyone"
    r"|quick (question|one)|question|one question|one more|now)(\s*[,:!-]+\s*|\s+(?!hosts?\b|servers?\b"
    r"|gpus?\b|good\b))",
    re.IGNORECASE,
)
_REQUEST: Final = re.compile(
    r"(can|could|would) (you|someone|anyone|somebody|anybody|one of you) (please |pls |quickly )?"
    r"(?:(?=(?:tell|list|show|count|compare|name|say)\b)|(?:check|look up|look|find out|see)(?: if| "
    r"whether)?\s+)"
    r"|(do|does) (you|anyone|anybody|someone) (know|happen to know)( if| whether)?\s+"
    r"|(i|we)(?: need|'d like| want| would like) to (know|see)( if| whether)?\s+"
    r"|any idea (if|whether)?\s*|(check|verify|see|find out|tell me|tell us) (if|whether)\s+",
    re.IGNORECASE,
)
"""What stands before the words of a question, and makes it one."""

_VERBS: Final = (
    r"restart|reboot|bounce|power.?cycle|start|stop|kill|shut ?down|drain|undrain|cordon|evict|upgrade|update"
    r"|downgrade|bump|roll ?back|revert|undo|enable|disable|turn (?:on|off)|switch (?:on|off)|turn|switch|set"
    r"|unset|change|raise|lower|increase|decrease|reduce|add|remove|delete|drop|deploy|install|uninstall|patch"
    r"|scale|migrate|clear|flush|reset|reload"
)
_TARGET: Final = re.compile(
    r"\b(all|every\w*|it|them|this|that|both|hosts?|servers?|services?|engines?|units?|nodes?|machines?|box(es)?"
    r"|sglang|vllm|ollama|llama\S*|drivers?|kernel|torch|(cuda )?graphs?|cache|caching|overlap|metrics)\b"
    r"|[\w@-]+\.service\b|\b[a-z][\w.]*-?\d+\b|--[a-z]\S*|\b[a-z]+_\w+",
    re.IGNORECASE,
)
_NOUN: Final = re.compile(
    r"(of|is|was|has|had|fails?|failed|takes?|took|hangs?|loops?|looping|counts?|times?|since|line|when|after|during"
    r"|on (every|each|its)|sequences?|tokens?|strings?|command|up|log|in)\b|-(?!-)|:",
    re.IGNORECASE,
)
_DO: Final = re.compile(
    rf"(?:go ahead and |let'?s |now |then )*(?P<verb>{_VERBS})\b(?P<rest>.*)", re.IGNORECASE
)
_MAY: Final = re.compile(
    rf"(?:can|could|may|shall|should|would|will|do|must) (?:i|we|you|someone|somebody|one)\b(?! (?:see"
    rf"|know|tell)\b)"
    rf".*?\b(?P<verb>{_VERBS})\b(?P<rest>.*)"
    rf"|(?:is|would) it (?:be )?(?:safe|ok|okay|fine|possible|wise|a good idea|worth it|time) (?:to|if "
    rf"(?:i|we))"
    rf" (?P<verb2>{_VERBS})\b(?P<rest2>.*)"
    rf"|what (?:would|will) happen(?:s)? if (?:i|we|you|someone) (?P<verb3>{_VERBS})\b(?P<rest3>.*)"
    rf"|what happens if (?:i|we|you|someone) (?P<verb4>{_VERBS})\b(?P<rest4>.*)"
    rf"|(?:any reason|is there (?:a|any) reason) not to (?P<verb5>{_VERBS})\b(?P<rest5>.*)"
    rf"|do(?:es)? .{{1,60}}? needs? (?:a |an |to be )?(?P<verb6>restart|reboot|upgrade|update"
    rf"|rollback)(?:e?d)?\b"
    rf"(?P<rest6>.*)",
    re.IGNORECASE,
)
_HOW: Final = re.compile(
    rf"how (?:do|can|would|should|to)\b(?: (?:i|we|you|one))? ?(?P<verb>{_VERBS})\b(?P<rest>.*)",
    re.IGNORECASE,
)
_WANT: Final = re.compile(
    rf"(?:i|we) (?:want|need|have|would like|'d like) (?:you )?to (?P<verb>{_VERBS})\b(?P<rest>.*)",
    re.IGNORECASE,
)
_DONE: Final = (
    r"restarted|rebooted|bounced|started|stopped|killed|drained|upgraded|updated|downgraded|rolled back"
    r"|reverted"
    r"|enabled|disabled|turned (?:on|off)|switched (?:on|off)|changed|raised|lowered|removed|reloaded"
)
_BE: Final = re.compile(
    rf"(?:should|shall|can|could|may|must|has|have|do|does)\b(?P<rest>.{{1,60}}?) (?:need to |needs to "
    rf"|to )?be"
    rf" (?P<verb>{_DONE})\b.*",
    re.IGNORECASE,
)
_LAST: Final = re.compile(
    r"(?P<rest>[a-z][\w.]*-?\d+|all(?: of them)?|everything|it) (?P<verb>restart|reboot|upgrade|rollback"
    r"|drain)",
    re.IGNORECASE,
)


_ON: Final = re.compile(
    r"(and|but|do it|go ahead|what about|how about|same|also|again|only|now|show|where|which|why|who"
    r"|since|prove"
    r"|evidence|proof"
    r"|source|quote|on|for|or|the line|the lines|[a-z][\w.]*-?\d+)\b",
    re.IGNORECASE,
)
_FEW: Final = 12
_WORKS_NOT: Final = re.compile(
    r"\b(does|do|did|is|are|was|has|have|will)(n['’]?t| not| no longer)\b|\bno longer\b", re.IGNORECASE
)


def asked(text: str) -> str:
    """Return what a person asked, without who it was and the earlier messages that a surface adds."""
    words = text.partition(_CONTEXT)[0].strip()
    said = _SPEAKER.sub("", words)
    return said if said == words else _BESIDE.split(said, maxsplit=1)[0].strip()


def first_sentence(text: str) -> str:
    """Return what a person asked first, in English words and without a greeting."""
    return _first(text)[0]


def without_greeting(text: str) -> tuple[str, bool]:
    """Return the English words of a text from the first that matters, and whether those before asked."""
    words, requests, before = english(asked(text)).strip(" \"'*>-"), False, ""
    while before != words:
        before = words
        words = words[found.end() :] if (found := _GREETING.match(words)) else words
        if found := _REQUEST.match(words):
            words, requests = words[found.end() :], True
    return words, requests


def _first(text: str) -> tuple[str, bool]:
    """Return the first sentence, and whether words before it make a question of it."""
    words, requests = without_greeting(text)
    return _SENTENCE.split(words, maxsplit=1)[0].strip(" \"'*>-,"), requests


def is_question(text: str) -> bool:
    """Tell whether a first message asks about hosts, and tells of no trouble that is to be found out.

    Its first sentence must be the question: who tells what is wrong first wants that looked into. A wish that
    something be done (`wish`) counts: what speaks for it and against it stands in what is read.
    """
    if wish(text) is not None:
        return True
    words, (first, requests) = english(asked(text)), _first(text)
    measured = _MEASURED.search(first) is not None
    marked = re.search(rf"{re.escape(first)}[\"'*\s]*\?", words) is not None
    after = _OF_HOST.sub("", first)
    asks = requests or _ASKS.match(after) or (not measured and (marked or _TOPIC.match(first)))
    if not first or not asks:
        return False
    return _OF_HOSTS.search(words) is not None or _TROUBLE.search(words) is None


def opens_question(text: str, mode: str, model: str) -> bool:
    """Tell whether a thread that begins with a text is one that may end with an answer.

    Where a language model may propose or try changes, a wish that something be done is for it to follow
    up; the playbooks carry out none, and say what speaks for it and against it.
    """
    acts = mode != "read-only" and model != "playbook"
    return is_question(text) and not (acts and wish(text) is not None)


def asks_on(text: str) -> bool:
    """Tell whether words after an answer ask on: a question, or a few words that one before makes one of."""
    if is_question(text):
        return True
    words = english(asked(text)).strip(" \"'*>-")
    few = 0 < len(words.split()) <= _FEW
    return few and _ON.match(words) is not None and _TROUBLE.search(words) is None


def wish(text: str) -> Wish | None:
    """Return how a first sentence asks for something to be done, what, and to what; None when it does not.

    Who tells of trouble beside it wants that looked into: "restart gpu1, it hangs" is a symptom.
    """
    first = first_sentence(text)
    if _TROUBLE.search(first) or _WORKS_NOT.search(first):
        return None
    manners: tuple[tuple[Manner, re.Pattern[str]], ...] = (
        ("how", _HOW), ("whether", _BE), ("whether", _MAY), ("do", _WANT), ("do", _DO), ("do", _LAST)
    )  # fmt: skip
    for manner, pattern in manners:
        found = pattern.fullmatch(first)
        if found is None:
            continue
        said = {name.rstrip("0123456789"): value for name, value in found.groupdict().items() if value}
        verb, rest = said["verb"].lower(), said.get("rest", "").strip(" ?,")
        if manner == "do" and _NOUN.match(said.get("rest", "").lstrip(" ")):
            return None
        whole = rest if pattern is not _MAY else first
        if (not rest and pattern is _DO) or _TARGET.search(whole):
            marked = pattern is not _WANT and re.search(
                rf"{re.escape(first)}[\"'*\s]*\?", english(asked(text))
            )
            return ("whether" if manner == "do" and marked else manner), " ".join(verb.split()), rest
    return None
