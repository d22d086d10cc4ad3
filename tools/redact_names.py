"""Tell names of secrets from ordinary words (``max_tokens``), and secret values from code."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

Strength = Literal["strong", "token", "weak", "none"]
"""Behind ``token`` names numbers are no secrets; ``weak`` names hold one when the value looks like it."""


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STRONG: Final = _listed(
    """
    secret secrets password passwords passwd passphrase apikey apikeys accesskey accesskeys privatekey
    secretkey secretaccesskey authkey signingkey encryptionkey masterkey accountkey servicekey sharedkey
    sshkey presharedkey psk credential credentials cookie authorization authtoken accesstoken refreshtoken
    bearertoken
    """
)
_KEY_KINDS: Final = _listed(
    """
    api access private secret auth signing encryption master account service shared preshared ssh
    """
)
_ORDINARY_LAST: Final = _listed(
    """
    file files path paths dir len length count counts limit limits usage type types name names url uri
    endpoint env var budget size ratio rate ref refs version policy expiry ttl required min max header
    headers field manager store provider backend prefix enabled callback mode source class config format
    index ids level fn func hash mask prob probs logprob logprobs text str pool map list dict num total
    s per times time
    """
)
_ORDINARY_BEFORE_TOKEN: Final = _listed(
    """
    pad eos bos unk sep cls mask stop special image audio video think tool next prev previous max min
    num n total new cached prompt completion input output per first last generated draft accept accepted
    chunked extend prefill decode running invalid unexpected this each every one start end begin skip
    sampled predicted target
    """
)
_ORDINARY_BEFORE_PASS: Final = _listed(
    """
    forward backward first second last single one two multi all any per each num n number this next prev fast
    slow prefill decode compile graph fusion fused grad joint inductor optimization custom extra pre post dry
    by test tests check checks unit must did does will to
    """
)
_AFTER_TOKEN: Final = _listed("value prod production dev test staging old new")
_NUMBER: Final = re.compile(r"-?\(?[0-9][0-9.*()]{0,8}")
_PIECES: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NOTHING: Final = re.compile(
    r"(?i)true|false|none|null|nil|undefined|empty|yes|no|on|off|str|string|int|bool|bytes|any|required|optional|unset|set"
    r"|not|is|was|missing|invalid|\*+|x+|\.+|<[^>]*>.*|\$\{.*|\$[a-z_].*|\$\(.*|\{.*|%[a-z({].*|\[?redacted\]?|\|.*|[>&]-?|\\.*"
)
_CODE: Final = re.compile(
    r"[A-Za-z_][A-Za-z0-9_.]*[(\[].*|[a-z_][a-z_]*(?:\.[A-Za-z_]+)+|Optional\b.*|[fbru]{1,2}|[a-z]+\||self|lambda|await|[({].*"
)
_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z]).{8,}|[^.()\[\]/]{20,}")


def _words(name: str) -> list[str]:
    return [piece.lower() for piece in _PIECES.findall(name) if not piece.isdigit()]


@lru_cache(maxsize=4096)
def strength(name: str) -> Strength:
    """Say how surely a value behind this name is a secret."""
    words = _words(name)
    joined = _join_keys(words)
    if not joined or joined[-1] in _ORDINARY_LAST:
        return "none"
    if any(word in _STRONG or word.endswith(("password", "apikey", "secret")) for word in joined):
        return "strong"
    if "pwd" in joined[1:] and name not in ("OLDPWD", "PWD"):
        return "strong"
    if joined[-1] in ("pass", "pw") and joined[:-1] and joined[-2] not in _ORDINARY_BEFORE_PASS:
        return "strong" if name.isupper() else "weak"
    while joined and joined[-1] in _AFTER_TOKEN:
        joined.pop()
    if joined[-1:] == ["token"] and (len(joined) == 1 or joined[-2] not in _ORDINARY_BEFORE_TOKEN):
        return "token" if name.isupper() else "weak"
    return "none"


def _join_keys(words: list[str]) -> list[str]:
    """Return the words with ``api key`` and its like made one word."""
    joined: list[str] = []
    for word in words:
        if joined and word in ("key", "keys") and joined[-1] in _KEY_KINDS:
            joined[-1] += "key"
        else:
            joined.append(word)
    return joined


def harmless(name: str, how: Strength, value: str, *, assigned: bool) -> bool:
    """Tell whether a value behind such a name is plainly no secret; ``assigned``: as in ``NAME=value``."""
    bare = value.strip(" ,;:)]}'\"")
    if not bare or _NOTHING.fullmatch(bare):
        return True
    if how != "strong" and _NUMBER.fullmatch(value.rstrip(",;)")):
        return True
    if how == "weak":
        return not _RANDOM.fullmatch(bare) or bool(_CODE.fullmatch(value)) or "token" in bare.lower()
    if assigned and name.isupper():
        return False
    return bool(_CODE.fullmatch(value)) or _same_words(name, bare)


def _same_words(name: str, value: str) -> bool:
    """Tell whether the value is an identifier that repeats the name, such as ``args.api_key``."""
    if not re.fullmatch(r"[A-Za-z_.\-]+", value):
        return False
    wanted = set(_join_keys(_words(name))) & _STRONG
    return bool(wanted) and wanted <= set(_join_keys(_words(value)))
