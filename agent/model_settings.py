"""One named model: what stands under ``[models.NAME]`` of a settings file."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

Capability = Literal["tool_calls", "parallel_tool_calls", "streaming", "reasoning"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_BUILT_IN = "playbook"

TAKEN: dict[str, str] = {
    "model": "model",
    "base_url": "base_url",
    "api_key": "api_key",
    "price_input": "price_input_usd_per_mtok",
    "price_output": "price_output_usd_per_mtok",
    "context_tokens": "context_tokens",
}
"""Which setting a field of a named model takes the place of."""


def model_name(text: str) -> str:
    """Return the name of a model of the settings, or say why it cannot be one."""
    if text == _BUILT_IN:
        raise ValueError(f"{text!r} is the built-in model")
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name: letters, digits, '.', '_' and '-' only")
    return text


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError(f"{text!r} is not the name of a variable; the key itself goes into api_key")
    return text


class ModelEntry(BaseModel):
    """Say where a model is served, what it costs, and what it can do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(
        default=None, description="Its name at the endpoint; default: the table's name."
    )
    base_url: str | None = Field(default=None, description="Its endpoint; default: the one of `base_url`.")
    api_key: SecretStr | None = Field(
        default=None, description="Its key; the one of `api_key` is never sent to another base_url."
    )
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = Field(
        default=None, description="The variable that holds its key."
    )
    price_input: float = Field(default=0.0, ge=0, description="US dollars a million tokens.")
    price_output: float = Field(default=0.0, ge=0, description="US dollars a million tokens.")
    context_tokens: int | None = Field(default=None, ge=1_000, description="What a request may hold.")
    capabilities: tuple[Capability, ...] | None = Field(
        default=None, description="What it can do; default: not known, see `leadline doctor`."
    )

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("api_key and api_key_env name two keys; keep one")
        return self
