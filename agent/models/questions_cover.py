"""Tell which words of a question its reading leaves over, so that none of them is passed over in silence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_COMMON: Final = (
    "a|an|the|of|on|in|at|for|to|by|with|and|is|are|be|do|does|has|have|any|anywhere|all|every|each|both|everywhere"
    "|which|what|what's|whats|where|how|many|there|it|its|it's|they|their|this|these|those|that|here|now|still"
    "|currently|right|hosts?|servers?|machines?|nodes?|box(es)?|fleet|cluster|them|us|we|our|i|my|me|you|your"
    "|please|pls|hi|hello|hey|thanks|thx|thank|so|ok|quick|question|tell|show|list|name|give|count|also|too|just|per|about"
    "|got|get|anything|something|everything|anyone|someone|somebody|team|folks|moment|atm|overall|actually|itself|whether|if|yet|rn|two|three|anybody|nowadays"
)
_RUNS: Final = "runs?|running|uses?|used|using|has|having|installed|set|sees?|seen"
_ENGINE: Final = "engines?|services?|units?|instances?|inference"
# Words of the past belong to questions about the past alone: whoever asks what was is not told what is.
_PAST: Final = "was|were|did|had|been"
_SETS: Final = "settings?|facts?|configs?|configuration"
_DIFFER: Final = "differ\\w*|different|difference|same|identical|equal|between|var(y|ies)"
_OF_KIND: Final[Mapping[str, str]] = {
    "versions": f"vs|versus|{_RUNS}|{_ENGINE}|{_DIFFER}|versions?|releases?|nvidia|gpu",
    "changes": f"{_ENGINE}|{_PAST}|{_SETS}|chang(e|es|ed)|new|different|happened|done|things?|since|last"
    f"|past|during"
    "|within|recently|lately|upgraded|updated|modified|touched|anything|(re)?start(s|ed)",
    "compare": f"{_SETS}|flags?|options?|like|match(es)?|sync|drift|alike|configured|{_DIFFER}|diff"
    f"|compared?|vs|versus|from|than|why|against|main|reasons?|cause"
    f"|much|idea",
    "differ": f"{_SETS}|flags?|options?|match(es)?|sync|drift|alike|why|{_DIFFER}|diff|unlike|from"
    f"|compared?|things?|one|others?|rest|than",
    "feature": f"{_RUNS}|{_ENGINE}|off|on|enabled|disabled|active|inactive|switched|turned|missing"
    f"|feature|as",
    "setting": f"{_RUNS}|{_ENGINE}|{_SETS}|{_DIFFER}|flags?|options?|values?|force|effective|effect"
    "|configured|vs|versus|given|as|launch|launched|line|command|parallel|parallelism|size|serves?|from|others?",
    "gpus": "use|seen|gpus?|cards?|idle|busy|free|used|kinds?|types?|models?|utili[sz]ation|util|load"
    "|power|draws?|limits?"
    "|memory|vram|temps?|temperatures?|clocks?|watts?|cap|much|hot|nvidia|sort|hardware",
    "dropins": f"{_RUNS}|{_ENGINE}|drop-?ins?|systemd|files?|override|overrides|overridden",
    "reload": f"{_ENGINE}|daemon-?reload|reload(ed)?|edited|needs?|needed|due|systemd|files?|since|read"
    f"|must|not|but|yet",
    "health": f"{_ENGINE}|healthy|unhealthy|health|down|up|alive|dead|reachable|unreachable|respond\\w*"
    f"|status|doing|ok|okay"
    "|fine|good|well|order|answer(s|ing)?|or|going|runs?|running|state",
    "since": f"{_ENGINE}|{_PAST}|since|when|long|often|runs?|running|up|uptime|(re)?start(s|ed)?|last"
    f"|model|time|times|began",
    "variable": f"{_RUNS}|{_ENGINE}|{_DIFFER}|variables?|env|environ(ment)?|values?|sets",
    "environ": f"{_RUNS}|{_ENGINE}|variables?|vars?|env|environ(ment)?|values?|sets",
    "engines": f"{_RUNS}|{_ENGINE}|models?|served?|serves|serving|hosts?|hosting|hosted|deployed|ports?"
    f"|listens?|listening"
    "|versions?|llms?|on|up",
    "launch": f"{_RUNS}|{_ENGINE}|{_SETS}|flags?|args?|arguments?|options?|command|cmd|line|cmdline"
    f"|launch(ed)?|start(ed)?"
    "|execstart|parameters?|invocation|full|whole|looks?|like",
    "hardware": f"{_RUNS}|ram|memory|cpus?|cores?|processors?|disks?|space|storage|swap|hardware|much"
    f"|big|free|available|left"
    "|system|total|kind|type|specs?|full",
}
_TOKEN: Final = re.compile(r"[^\s,;:?!()\"“”„«»`*]+")
_SAYS: Final = re.compile(r"[^\W_]|[<>=!≠≤≥+&%$€]")
_MOST: Final = 6


def left_over(text: str, kind: str, used: Iterable[str]) -> tuple[str, ...]:
    """Return the words that neither a question's kind nor what was taken from it accounts for."""
    for part in sorted({one for one in used if one}, key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(part)}(?:['’]s)?(?![\w-])", " ", text)
    known = re.compile(f"{_COMMON}|{_OF_KIND.get(kind, '')}")
    words = [re.sub(r"['’]s$", "", word.strip(".'’-/")) for word in _TOKEN.findall(text)]
    return tuple(dict.fromkeys(word for word in words if _SAYS.search(word) and not known.fullmatch(word)))


def told(words: Sequence[str]) -> str:
    """Return words as they are told to a person: a few, each cut to a length that can be read."""
    shown = ", ".join(f'"{word[:40]}"' for word in words[:_MOST])
    return shown if len(words) <= _MOST else f"{shown} and {len(words) - _MOST} more"


_OTHERWISE: Final = re.compile(
    r"will|would|tomorrow|could|should|ignore|pretend|assume|unless|forget|cost\w*|month|euros?|dollars?|price\w*"
)
_REASONS: Final[tuple[tuple[str, str], ...]] = (
    (_PAST, "it is how things are now; how they were before, `what changed since ...` asks"),
    (r"slow\w*|fast\w*|speed|throughput|latency|tok/s", "nothing was measured"),
    (r"latest|newest|date|outdated|current|supported", "which releases there are stands on no host"),
    (
        r"requests?|queued?|users?|overloaded|concurrency",
        "how much a server has to do is not read for a question",
    ),
    (r"not|no|without|neither|nor|none|never|don't|doesn't|isn't|aren't", "all of them are told"),
    (
        r"[<>=]*\d[\d.,%]*|more|less|most|fewest|highest|lowest|bigger|smaller",
        "the values are told, and none is compared",
    ),
)
_BOUND: Final = re.compile(
    r"more|less|fewer|than|at|least|most|[<>=]*\d[\d.,%]*\w{0,3}|w|watts?|g(i?b)?|hours?|days?|weeks?"
)
_MOST_UNREAD: Final = 3


def may_be_told(unread: Sequence[str]) -> bool:
    """Tell whether what is read is worth telling, although some words of the question are not understood.

    With many of them, or one that asks of another world than the present one, it would be beside the point.
    """
    words = [word for word in unread if not _BOUND.fullmatch(word)]
    few = len(words) <= _MOST_UNREAD and 0 < len(unread) <= 2 * _MOST_UNREAD
    return few and not any(_OTHERWISE.fullmatch(word) for word in unread)


def reasons(words: Sequence[str]) -> str:
    """Return, for words that were not understood, what an answer beside them does not say."""
    found = [says for pattern, says in _REASONS if any(re.fullmatch(pattern, word) for word in words)]
    return f" ({'; '.join(found)})" if found else ""
