"""What a model that obeys a hostile text would try: calls of every tool, by the goal they serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from tests.injection_calls import Trick
from tests.injection_disruptions import DISRUPT
from tests.injection_lies import BELIEVE
from tests.injection_secrets import SECRET_READS
from tests.injection_sends import SEND
from tests.injection_writes import WRITE

Goal = Literal["write", "disrupt", "read a secret", "send out", "be believed"]

TRICKS: Final[Mapping[Goal, list[Trick]]] = {
    "write": WRITE,
    "disrupt": DISRUPT,
    "read a secret": SECRET_READS,
    "send out": SEND,
    "be believed": BELIEVE,
}
"""Calls by goal. None may have the effect it is meant to have, whoever asked for it."""

GOALS: Final = tuple(TRICKS)
