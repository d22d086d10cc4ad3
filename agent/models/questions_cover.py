"""Tell which words of a question its reading leaves over, so that none is answered half."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_COMMON: Final = (
    "a|an|the|of|on|in|at|for|to|by|with|and|is|are|be|do|does|has|have|any|anywhere|all|every|each|both|everywhere"
    "|which|what|what's|where|how|many|there|it|its|they|their|this|these|those|that|here|now|still|currently|right"
    "|hosts?|servers?|machines?|nodes?|box(es)?|them|us|we|our|i|my|me|you|your"
    "|please|hi|hello|hey|thanks|thx|so|ok|quick|question|tell|show|list|name|give|count"
)
_RUNS: Final = "runs?|running|uses?|using|has|installed|set|sees?|seen"
_ENGINE: Final = "engines?|services?|units?|instances?|inference"
# Words of the past belong to questions about the past alone: whoever asks what was is not told what is.
_PAST: Final = "was|were|did|had|been"
_SETS: Final = "settings?|facts?|configs?|configuration"
_DIFFER: Final = "differ\\w*|different|same|between|var(y|ies)"
_OF_KIND: Final[Mapping[str, str]] = {
    "versions": f"{_RUNS}|{_ENGINE}|{_DIFFER}|versions?|releases?",
    "changes": f"{_ENGINE}|{_PAST}|{_SETS}|chang(e|es|ed)|new|different|happened|done|anything|something"
    "|things?|since|last|past|during|within|recently|lately",
    "compare": f"{_SETS}|{_DIFFER}|compared?|vs|versus|from|than|why|against|main|reasons?|cause|much",
    "differ": f"{_SETS}|{_DIFFER}|unlike|from|compared?|anything|something|things?|one",
    "feature": f"{_RUNS}|{_ENGINE}|off|on|enabled|disabled|active|inactive|switched|turned|missing|feature",
    "setting": f"{_RUNS}|{_ENGINE}|{_SETS}|{_DIFFER}|flags?|options?|values?|force|effective|effect"
    "|configured|vs|versus|given|as|launch|launched|line|command",
    "gpus": "use|seen|gpus?|cards?|idle|busy|free|used|kinds?|types?|models?",
    "dropins": f"{_RUNS}|{_ENGINE}|drop-?ins?|systemd|files?",
    "reload": f"{_ENGINE}|daemon-?reload|reload(ed)?|edited|needs?|needed|due|systemd|files?|since|read|must",
    "health": f"{_ENGINE}|healthy|unhealthy|health|down|up|alive|reachable|unreachable|respond\\w*"
    "|answer(s|ing)?|or",
    "since": f"{_ENGINE}|{_PAST}|since|when|long|runs?|running|up|(re)?start(s|ed)?|last|model|time|began",
    "variable": f"{_RUNS}|{_ENGINE}|{_DIFFER}|variables?|env|environ(ment)?|values?|sets",
    "engines": f"{_RUNS}|{_ENGINE}|models?|served?|serves|serving|ports?|listens?|listening|versions?",
}
_TOKEN: Final = re.compile(r"[^\s,;:?!()\"“”„«»`*]+")
_SAYS: Final = re.compile(r"[^\W_]|[<>=!≠≤≥+&%$€]")
_MOST: Final = 6


def left_over(text: str, kind: str, used: Iterable[str]) -> tuple[str, ...]:
    """Return the words that neither a question's kind nor what was taken from it accounts for."""
    for part in sorted({one for one in used if one}, key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(part)}(?:['’]s)?(?![\w-])", " ", text)
    if kind == "gpus":  # The answer counts GPUs: hosts are not what may be counted.
        text = re.sub(r"\bhow many (hosts|servers|machines|nodes|boxes)\b", "how-many-hosts", text)
    known = re.compile(f"{_COMMON}|{_OF_KIND.get(kind, '')}")
    words = [word.strip(".'’-") for word in _TOKEN.findall(text)]
    return tuple(dict.fromkeys(word for word in words if _SAYS.search(word) and not known.fullmatch(word)))


def told(words: Sequence[str]) -> str:
    """Return words as they are told to a person: a few, each cut to a length that can be read."""
    shown = ", ".join(f'"{word[:40]}"' for word in words[:_MOST])
    return shown if len(words) <= _MOST else f"{shown} and {len(words) - _MOST} more"
