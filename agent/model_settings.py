"""One named model: what stands under ``[models.NAME]`` of a settings file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from agent.errors import UsageError

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


def chosen(
    models: Mapping[str, ModelEntry], name: str, base_url: object, environment: Mapping[str, str]
) -> dict[str, object]:
    """Return the settings that a named model says for itself, by their names.

    Raises `UsageError` for a name that is not there, and for an entry that cannot be used.
    """
    entry = models.get(name)
    if entry is None:
        raise UsageError(f"there is no [models.{name}]", do=f"there are: {', '.join(models) or 'none'}")
    if base_url is not None and entry.base_url is not None:
        raise UsageError(f"[models.{name}] has a base_url of its own", do="leave --base-url out")
    if entry.capabilities is not None and "tool_calls" not in entry.capabilities:
        raise UsageError(f"[models.{name}] cannot call tools, by its capabilities", do="name another model")
    taken: dict[str, object] = {
        "model": entry.model or name,
        "price_input_usd_per_mtok": entry.price_input,
        "price_output_usd_per_mtok": entry.price_output,
    }
    if entry.base_url is not None:
        taken |= {"base_url": entry.base_url, "api_key": None}
    if entry.api_key is not None or entry.api_key_env is not None:
        taken["api_key"] = entry.api_key or _key_of(name, str(entry.api_key_env), environment)
    if entry.context_tokens is not None:
        taken["context_tokens"] = entry.context_tokens
    if entry.capabilities is not None and "streaming" not in entry.capabilities:
        taken["model_stream"] = False
    return taken


def _key_of(name: str, variable: str, environment: Mapping[str, str]) -> SecretStr:
    value = environment.get(variable)
    if not value:
        raise UsageError(
            f"[models.{name}] takes its key from {variable}, which is not set", do=f"set {variable}"
        )
    return SecretStr(value)


def place_of(name: str | None, location: Sequence[str]) -> tuple[str, ...] | None:
    """Return where the entry of a named model says a setting; None where it says nothing of that one."""
    field = next((field for field, taken in TAKEN.items() if [taken] == list(location)), None)
    if name is None or field is None:
        return None
    return ("models", name, "api_key_env" if field == "api_key" else field)
