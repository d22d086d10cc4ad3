"""Make the simulated engine's text: the same prompt gives the same greedy text. Standard library only."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable

WORDS = tuple(
    """
    the a of and to in it is that for on with as at by from this which one two line rope sea depth
    sounding ship water lead mark fathom deck wind tide coast rock sand shell mud clay chart light star
    night morning crew captain under over near far slow fast still deep cold clear grey long short heavy
    small great known found read write measure lower raise hold turn keep wait begin end again once more
    than when where while until before after
    """.split()  # noqa: SIM905 - a list of words reads better as text
)


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text: about one a word or sign."""
    return max(1, len(re.findall(r"\w+|[^\w\s]", text)))


class TokenStream:
    """Yield the tokens of one answer, each a word with its leading space.

    ``salt`` makes sampled text differ from greedy text; ``changed`` makes greedy text leave its usual course
    after a few tokens, as a numerical fault does. ``strays`` is asked at that token whether this one answer
    leaves it too; it then goes on in a way that no other does.
    """

    def __init__(
        self,
        seed: int,
        prompt: str,
        *,
        salt: str = "",
        changed: bool = False,
        strays: Callable[[], bool] = lambda: False,
    ) -> None:
        key = hashlib.sha256(f"{seed}\0{salt}\0{prompt}".encode()).digest()
        self._random = random.Random(key)
        self.natural_length = self._random.randint(180, 700)
        fork = self._random.randint(3, 12)
        self._fork = fork
        self._changed = changed
        self._strays = strays
        self._made = 0

    def next(self) -> str:
        """Return the next token."""
        if self._made == self._fork and self._changed:
            self._random = random.Random(self._random.random() + 1.0)
        if self._made == self._fork and self._strays():
            self._random = random.Random()
        self._made += 1
        word = self._random.choice(WORDS)
        return f" {word}" if self._made > 1 else word
