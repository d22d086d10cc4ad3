"""Know which option of one engine means what an option of the other does."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from tools.settings.types import Engine

NAMES: Final[dict[Engine, str]] = {"sglang": "SGLang", "vllm": "vLLM"}


class Meaning(BaseModel):
    """Hold the options of each engine that mean the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    means: str
    sglang: tuple[str, ...] = ()
    vllm: tuple[str, ...] = ()
    note: str = Field(default="", description="In what they differ.")

    def options(self, engine: Engine) -> tuple[str, ...]:
        """Return the options of an engine, the preferred one first."""
        return self.sglang if engine == "sglang" else self.vllm if engine == "vllm" else ()


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Say what an option of another engine is called here; ``here`` is None where there is none."""

    engine: Engine
    means: str
    here: str | None
    note: str


@lru_cache(maxsize=1)
def meanings() -> tuple[Meaning, ...]:
    """Read the table; done once."""
    import yaml

    with Path(__file__).with_suffix(".yaml").open("rb") as source:
        rows = yaml.load(source, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tuple(Meaning.model_validate(row) for row in rows)


def counterpart(flag: str, engine: Engine, known: Container[str]) -> Counterpart | None:
    """Return what an option that this engine lacks is called in it, when another engine has that option."""
    spelled = flag.replace("_", "-")
    for other in NAMES:
        if other == engine:
            continue
        for meaning in meanings():
            if spelled in meaning.options(other):
                here = next((option for option in meaning.options(engine) if option in known), None)
                return Counterpart(other, meaning.means, here, meaning.note)
    return None


def same_meaning(flag: str, engine: Engine, known: Container[str]) -> str | None:
    """Return what an option of another version of the same engine is called in this one."""
    for meaning in meanings():
        options = meaning.options(engine)
        if flag in options:
            return next((option for option in options if option in known), None)
    return None
